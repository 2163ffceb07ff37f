// SPDX-License-Identifier: Apache-2.0
// Do results appear whole or not at all?
#include "tools/output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <set>
#include <thread>

#include "tests/support/files.hpp"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

const char* const kRun = R"({"schema": "sluice.run/1"})";

std::set<std::string> names(const fs::path& folder) {
    std::set<std::string> found;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
        found.insert(entry.path().lexically_relative(folder).string());
    }
    return found;
}

}  // namespace

TEST_CASE("trying a place leaves no trace, publishing leaves the files alone") {
    const test::TemporaryFolder folder;
    const tools::ResultFolder results(folder.path() / "a/b/c/", "--out");
    CHECK(names(folder.path()).empty());
    results.publish({{"run.json", kRun}, {"operators.csv", "name\n"}});
    CHECK(names(folder.path()) == std::set<std::string>{"a", "a/b", "a/b/c", "a/b/c/run.json", "a/b/c/operators.csv"});
}

TEST_CASE("a result replaces the earlier one as a whole") {
    const test::TemporaryFolder folder;
    const tools::ResultFolder first(folder.path() / "r", "--out");
    first.publish({{"run.json", kRun}, {"program.disa", "1"}});
    const tools::ResultFolder second(folder.path() / "r", "--out");
    second.publish({{"run.json", kRun}});
    CHECK(names(folder.path()) == std::set<std::string>{"r", "r/run.json"});
}

TEST_CASE("if a file cannot be written, the earlier result stays and nothing else") {
    const test::TemporaryFolder folder;
    const tools::ResultFolder results(folder.path() / "r", "--out");
    results.publish({{"run.json", kRun}});
    const std::string message = test::input_error([&] {
        results.publish({{"run.json", kRun}, {"no/such/folder", "2"}});
    });
    CHECK(message.starts_with("--out: "));
    CHECK(names(folder.path()) == std::set<std::string>{"r", "r/run.json"});

    const tools::ResultFolder fresh(folder.path() / "new/r", "--out");
    CHECK_FALSE(test::input_error([&] { fresh.publish({{"no/such/folder", "2"}}); }).empty());
    CHECK(names(folder.path()) == std::set<std::string>{"r", "r/run.json"});
}

TEST_CASE("a link to a result stays a link") {
    const test::TemporaryFolder folder;
    fs::create_directory(folder.path() / "real");
    fs::create_directory_symlink("real", folder.path() / "link");
    tools::ResultFolder(folder.path() / "link", "--out").publish({{"run.json", kRun}});
    CHECK(fs::is_symlink(folder.path() / "link"));
    CHECK(fs::exists(folder.path() / "real/run.json"));
}

TEST_CASE("a single file is replaced, a device is written to") {
    const test::TemporaryFolder folder;
    const std::string file = folder.write("f.json", "old");
    tools::ResultFile(file, "--json").publish("new");
    CHECK(names(folder.path()) == std::set<std::string>{"f.json"});
    CHECK(fs::file_size(file) == 3);
    tools::ResultFile("/dev/null", "--json").publish("gone");
    CHECK(fs::is_character_file("/dev/null"));
    CHECK_FALSE(test::input_error([&] { tools::ResultFile(folder.path(), "--json"); }).empty());
}

TEST_CASE("a pipe whose writing fails stays where it is") {
    const test::TemporaryFolder folder;
    const fs::path pipe = folder.path() / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    std::signal(SIGPIPE, SIG_IGN);
    const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
    REQUIRE(reader >= 0);
    std::string message;
    std::thread writer([&] {
        message = test::input_error([&] { tools::ResultFile(pipe, "--json").publish(std::string(1 << 20, 'x')); });
    });
    pollfd ready{reader, POLLIN, 0};
    ::poll(&ready, 1, 10'000);
    ::close(reader);  // half-way
    writer.join();
    CHECK(message.starts_with("--json: "));
    CHECK(fs::is_fifo(pipe));
    CHECK(names(folder.path()) == std::set<std::string>{"pipe"});
}

TEST_CASE("only an earlier result is replaced") {
    const test::TemporaryFolder folder;
    const auto refused = [&](const char* name) {
        return test::input_error([&] { tools::ResultFolder(folder.path() / name, "--out"); });
    };
    folder.write("other/run.json", R"({"schema": "marathon/1"})");
    CHECK_THAT(refused("other"), Catch::Contains("run.json") && Catch::Contains("sluice.run"));
    folder.write("broken/run.json", "{");
    CHECK_THAT(refused("broken"), Catch::Contains("sluice.run"));
    folder.write("program/program.disa", "disa 1");
    CHECK_THAT(refused("program"), Catch::Contains("sluice.run"));
    folder.write("nested/run.json/mine", "");
    CHECK_THAT(refused("nested"), Catch::Contains("no result"));
    folder.write("result/run.json", kRun);
    CHECK(refused("result").empty());
    fs::create_directory(folder.path() / "empty");
    CHECK(refused("empty").empty());
}

TEST_CASE("places that would destroy each other are told apart by where they lead") {
    const test::TemporaryFolder folder;
    const auto clash = [&](const char* first, const char* second) {
        return test::input_error([&] {
            tools::require_apart({"--json", folder.path() / first}, {"--out", folder.path() / second});
        });
    };
    CHECK_THAT(clash("r/run.json", "r"), Catch::StartsWith("--json: ") && Catch::Contains("(--out)"));
    CHECK_FALSE(clash("r", "r/").empty());
    CHECK_FALSE(clash("r", "r/below").empty());
    CHECK_FALSE(clash("a/../r", "r").empty());
    fs::create_directory(folder.path() / "real");
    fs::create_directory_symlink("real", folder.path() / "link");
    CHECK_FALSE(clash("link/run.json", "real").empty());
    CHECK(clash("r.json", "r").empty());
    CHECK(clash("a", "b").empty());
}
