// SPDX-License-Identifier: Apache-2.0
// Do results appear whole or not at all?
#include "tools/output.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "tests/support/files.hpp"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

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
    results.publish({{"run.json", "{}"}, {"operators.csv", "name\n"}});
    CHECK(names(folder.path()) == std::set<std::string>{"a", "a/b", "a/b/c", "a/b/c/run.json", "a/b/c/operators.csv"});
}

TEST_CASE("a result replaces the earlier one as a whole") {
    const test::TemporaryFolder folder;
    const tools::ResultFolder first(folder.path() / "r", "--out");
    first.publish({{"run.json", "1"}, {"program.disa", "1"}});
    const tools::ResultFolder second(folder.path() / "r", "--out");
    second.publish({{"run.json", "2"}});
    CHECK(names(folder.path()) == std::set<std::string>{"r", "r/run.json"});
}

TEST_CASE("if a file cannot be written, the earlier result stays and nothing else") {
    const test::TemporaryFolder folder;
    const tools::ResultFolder results(folder.path() / "r", "--out");
    results.publish({{"run.json", "1"}});
    const std::string message = test::input_error([&] {
        results.publish({{"run.json", "2"}, {"no/such/folder", "2"}});
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
    tools::ResultFolder(folder.path() / "link", "--out").publish({{"run.json", "{}"}});
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
