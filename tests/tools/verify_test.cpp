// SPDX-License-Identifier: Apache-2.0
// Do `sluice verify` and `sluice fmt` name what is wrong and where, go on to the next file, and lose nothing?
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <regex>
#include <sstream>

#include "isa/text.hpp"
#include "tests/tools/program.hpp"
#include "tools/comments.hpp"

using namespace sluice;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// In canonical layout.
const std::string kFine = R"(disa 1
program "fine" chip "toy"
init tile(0)[0] units 1 value 1
control "main" tile count 1 from 0 {
  loop 4 {
    issue tdma.0 "load" node 0 {
      wait tile(self)[0]
      dma hbm(0)[4096*i0] -> tsram(self)[0] run 4096
      signal tile(self)[0]
    }
  }
  issue tdma.0 "end" node 0 {
    fence
  }
}
)";

/// Its addresses go beyond those of any chip.
std::string wrong() {
    std::string text = kFine;
    text.replace(text.find("tsram(self)[0]"), 14, "tsram(self)[281474976710655]");
    return text;
}

/// The comments of a text, whole, sorted; strings hold no # here.
std::vector<std::string> comments(const std::string& text) {
    std::vector<std::string> found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        for (std::size_t at = line.find('#'); at != std::string::npos;) {
            const std::size_t next = line.find('#', at + 1);
            std::string comment = line.substr(at, next - at);
            comment.erase(comment.find_last_not_of(' ') + 1);
            found.push_back(comment);
            at = next;
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

/// Where the README's example of a program stands.
std::string worked_example() {
    const std::string readme = test::text_of(std::string(SLUICE_SOURCE_DIR) + "/isa/README.md");
    const std::size_t first = readme.find("```disa\n") + 8;
    return readme.substr(first, readme.find("```", first) - first);
}

}  // namespace

TEST_CASE("verify says how much there is in each program that is fine") {
    const test::Program program;
    program.folder().write("a.disa", kFine);
    program.folder().write("empty.disa", "disa 1\nprogram \"empty\" chip \"toy\"\n");
    const test::Ended ended = program("verify a.disa empty.disa");
    CHECK(ended.code == 0);
    CHECK(ended.err.empty());
    CHECK(ended.out ==
          "a.disa: fine: 2 instructions in 1 control program\n"
          "empty.disa: fine: 0 instructions in 0 control programs\n");
    CHECK(program.files() == std::set<std::string>{"a.disa", "empty.disa"});
}

TEST_CASE("verify goes on after a wrong program, and every line of an error names its file") {
    const test::Program program;
    program.folder().write("wrong.disa", wrong());
    program.folder().write("typo.disa", "disa 1\nprogramm\n");
    program.folder().write("fine.disa", kFine);
    const test::Ended ended = program("verify wrong.disa none.disa typo.disa fine.disa");
    CHECK(ended.code == 2);
    CHECK(ended.out == "fine.disa: fine: 2 instructions in 1 control program\n");
    CHECK_THAT(ended.err, StartsWith("sluice: wrong.disa: control program main, tdma.0 \"load\": the destination"));
    CHECK_THAT(ended.err, Contains("\nnone.disa: no such file\n"));
    CHECK_THAT(ended.err, Contains("\ntypo.disa:2:1: expected `program`, found `programm`\n"));
}

TEST_CASE("verify takes a program for the chip that it names unless told otherwise") {
    const test::Program program;
    program.folder().write("a.disa", kFine);
    const test::Ended other = program("verify a.disa --chip maia200");
    CHECK(other.code == 2);
    CHECK_THAT(other.err, Contains("a.disa: program fine: was written for chip \"toy\", this is \"maia200\""));
    const test::Ended small = program("verify a.disa --set semaphores.width_bits=1 --set tdma.channels=1");
    CHECK(small.code == 0);
    // What is wrong with the chip is said once, whatever the number of files.
    const test::Ended unknown = program("verify a.disa a.disa --chip toi");
    CHECK(unknown.code == 2);
    CHECK(std::count(unknown.err.begin(), unknown.err.end(), '\n') == 1);
    CHECK_THAT(unknown.err, Contains("did you mean \"toy\""));
    CHECK(program("verify a.disa --set tsram.byts=1").code == 2);
    CHECK(program("verify").code == 2);
}

TEST_CASE("fmt prints the canonical text") {
    const test::Program program;
    std::string loose = std::regex_replace(kFine, std::regex("\n *"), " ");
    program.folder().write("loose.disa", loose);
    program.folder().write("fine.disa", kFine);
    const test::Ended ended = program("fmt loose.disa fine.disa");
    CHECK(ended.code == 0);
    CHECK(ended.err.empty());
    CHECK(ended.out == kFine + kFine);
    CHECK(test::text_of(program.path("loose.disa")) == loose);
}

TEST_CASE("fmt --check names the files that differ, and writes nothing") {
    const test::Program program;
    program.folder().write("fine.disa", kFine);
    CHECK(program("fmt --check fine.disa").code == 0);
    program.folder().write("one.disa", kFine + "\n");
    program.folder().write("two.disa", "disa 1 program \"p\" chip \"toy\"");
    const test::Ended ended = program("fmt --check one.disa fine.disa two.disa");
    CHECK(ended.code == 2);
    CHECK(ended.out.empty());
    CHECK(ended.err ==
          "sluice: one.disa: is not in canonical layout (sluice fmt --write)\n"
          "two.disa: is not in canonical layout (sluice fmt --write)\n");
    CHECK(test::text_of(program.path("one.disa")) == kFine + "\n");
    CHECK(program("fmt --check --write one.disa").code == 2);
}

TEST_CASE("fmt --write rewrites what differs, and keeps permissions") {
    const test::Program program;
    program.folder().write("loose.disa", std::regex_replace(kFine, std::regex("\n"), "\n\n"));
    program.folder().write("fine.disa", kFine);
    program.folder().write("broken.disa", "disa 1\n");
    REQUIRE(::chmod(program.path("loose.disa").c_str(), 0640) == 0);
    const auto inode = [&](const char* file) {
        struct stat status {};
        REQUIRE(::stat(program.path(file).c_str(), &status) == 0);
        return status.st_ino;
    };
    const auto before = inode("fine.disa");
    const test::Ended ended = program("fmt --write broken.disa loose.disa fine.disa");
    CHECK(ended.code == 2);
    CHECK(ended.out.empty());
    CHECK_THAT(ended.err, StartsWith("sluice: broken.disa:2:1: expected `program`"));
    CHECK(test::text_of(program.path("loose.disa")) == kFine);
    CHECK(test::text_of(program.path("broken.disa")) == "disa 1\n");
    CHECK((std::filesystem::status(program.path("loose.disa")).permissions() & std::filesystem::perms::all) ==
          static_cast<std::filesystem::perms>(0640));
    CHECK(inode("fine.disa") == before);
    CHECK(program.files() == std::set<std::string>{"broken.disa", "fine.disa", "loose.disa"});
    CHECK(program("fmt --write /dev/null").code == 2);
}

TEST_CASE("comments stay with their statements when a program is laid out anew") {
    const std::string before = R"(# who wrote this
   # and when

disa 1 # the version
program "p" # its name
  chip "toy"
# the first control program
control "a" tile count 1 from 0 { # opens
  # before a loop
  loop 2 # how often
  {
    signal tile(self)[0] x 1 # one
    # before the end of the loop
  } # closed
  if self >= 0 { } else { # nothing here
    # nor here
  }
  if self >= 0 { signal tile(self)[0]
    # end of then
  } else {
    # begin of else
    signal tile(self)[1] }
  issue ttu.0
    # within a statement
    "label" node 0 { fence # work
    signal tile(self)[2] }
}
# a vector program, which stands before all control programs
vector "v" { pass { # one pass
  v0 = load operand 0 fp32 v1 = exp v0 # two steps
  # a store
  store operand 0 fp32 v1
} }
init tile(0)[3] units 1 value 0x10 # sixteen
# the end
)";
    const std::string after = R"(# who wrote this
# and when
disa 1  # the version
program "p" chip "toy"  # its name
init tile(0)[3] units 1 value 16  # sixteen
# a vector program, which stands before all control programs
vector "v" {
  pass {  # one pass
    v0 = load operand 0 fp32
    v1 = exp v0  # two steps
    # a store
    store operand 0 fp32 v1
  }
}
# the first control program
control "a" tile count 1 from 0 {  # opens
  # before a loop
  loop 2 {  # how often
    signal tile(self)[0]  # one
    # before the end of the loop
  }  # closed
  if self >= 0 {
  }  # nothing here
  # nor here
  if self >= 0 {
    signal tile(self)[0]
    # end of then
  } else {
    # begin of else
    signal tile(self)[1]
  }
  issue ttu.0 "label" node 0 {
    # within a statement
    fence  # work
    signal tile(self)[2]
  }
}
# the end
)";
    CHECK(tools::lay_out(before, "test") == after);
    CHECK(tools::lay_out(after, "test") == after);
}

TEST_CASE("comments at random places of a program all survive, and a second layout changes nothing") {
    const std::string text = std::regex_replace(worked_example(), std::regex(" *#[^\n]*"), "");
    REQUIRE(text.size() > 1000);
    std::mt19937 random(3);
    for (int round = 0; round < 50; ++round) {
        // In the gaps between words, which are blanks and line breaks here; a comment ends with its line.
        std::string commented;
        bool quoted = false;
        int number = 0;
        for (const char c : text) {
            quoted = quoted != (c == '"');
            commented += c;
            if (!quoted && (c == ' ' || c == '\n') && random() % 8 == 0) {
                commented += fmt::format("# comment {} {{ }} \" \n", number++);
            }
        }
        const std::string out = tools::lay_out(commented, "test");
        CHECK(comments(out) == comments(commented));
        CHECK(tools::lay_out(out, "test") == out);
        CHECK((isa::read_text(out, "test") == isa::read_text(text, "test")));
    }
}

TEST_CASE("a value with zeros before its number is laid out as that number") {
    CHECK_THAT(tools::lay_out("disa 1 program \"p\" chip \"toy\" vector \"v\" { pass { v007 = constant 1 # seven\n } }",
                              "test"),
               Contains("\n    v7 = constant 1  # seven\n"));
}

TEST_CASE("the worked example keeps its comments and is fine") {
    const test::Program program;
    program.folder().write("slabs.disa", worked_example());
    CHECK(program("fmt --write slabs.disa").code == 0);
    const std::string text = test::text_of(program.path("slabs.disa"));
    CHECK(comments(text) == comments(worked_example()));
    CHECK_THAT(text, Contains("\ninit tile(0)[3] units 2 value 1  # the sums may be overwritten\n"));
    CHECK(program("verify slabs.disa").out == "slabs.disa: fine: 6 instructions in 1 control program\n");
}

TEST_CASE("a program from the compiler is in canonical layout") {
    const test::Program program;
    REQUIRE(program("compile gemm --m 64 --n 64 --k 64 --format fp8 --chip toy -o mine.disa").code == 0);
    CHECK(program("fmt --check mine.disa").code == 0);
}

TEST_CASE("verify and fmt have help with examples that work") {
    const test::Program program;
    REQUIRE(program("compile gemm --m 64 --n 64 --k 64 --format fp8 --chip toy -o mine.disa").code == 0);
    REQUIRE(program("compile gemm --m 64 --n 64 --k 64 --format fp8 --chip toy -o other.disa").code == 0);
    int examples = 0;
    for (const std::string command : {"verify", "fmt"}) {
        const test::Ended help = program(command + " --help");
        CHECK(help.code == 0);
        CHECK_THAT(help.out, Contains("Usage: sluice " + command));
        CHECK_THAT(help.out, Contains("Examples:\n  sluice " + command));
        std::istringstream lines(help.out);
        for (std::string line; std::getline(lines, line);) {
            if (line.starts_with("  sluice ")) {
                const test::Ended ended = program(line.substr(9));
                INFO(line << "\n" << ended.err);
                CHECK(ended.code == 0);
                ++examples;
            }
        }
    }
    CHECK(examples == 5);
}
