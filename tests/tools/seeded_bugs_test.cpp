// SPDX-License-Identifier: Apache-2.0
// Faults planted in the hand-written kernels, as authors make them: each gets a report that names what to mend, and
// isa/README.md shows that very report.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <sstream>

#include "isa/errors.hpp"
#include "tests/support/files.hpp"
#include "tools/simulate.hpp"

namespace sluice::tools {
namespace {

using Catch::Matchers::Contains;

std::string text_of(const std::string& file) {
    std::ifstream stream(std::string(SLUICE_SOURCE_DIR) + "/" + file);
    REQUIRE(stream);
    return {std::istreambuf_iterator<char>(stream), {}};
}

struct Edit {
    std::string before, after;
};

/// What is said of an example once it has been edited.
std::string report_of(const std::string& example, const std::vector<Edit>& edits) {
    std::string text = text_of("kernels/examples/" + example);
    for (const Edit& edit : edits) {
        const std::size_t at = text.find(edit.before);
        REQUIRE(at != std::string::npos);
        text.replace(at, edit.before.size(), edit.after);
    }
    const test::TemporaryFolder folder;
    Request request;
    request.work = ProgramWork{folder.write("mine.disa", text)};
    const Prepared job = prepare(request);
    ValueOptions options;
    options.check_races = true;
    return test::input_error([&] { static_cast<void>(run_values(job, options)); });
}

/// Up to the end of the first fault that is listed, indented as it is.
std::string first_fault(const std::string& report) {
    std::istringstream lines(report);
    std::string out;
    for (std::string line; std::getline(lines, line);) {
        const bool next = !out.empty() && line[0] != ' ' && out.find("race on") != std::string::npos;
        if (next) {
            break;
        }
        if (line.find(" in its order") == std::string::npos) {
            out += line + "\n";
        }
    }
    return out;
}

void check_shown(const std::string& report) {
    INFO(report);
    CHECK(text_of("isa/README.md").find(first_fault(report)) != std::string::npos);
}

TEST_CASE("a missing wait on a double buffer is a race between two loads") {
    const std::string report =
        report_of("gemm.disa", {{"\"load a\" node 0 {\n      wait tile(self)[0]\n", "\"load a\" node 0 {\n"}});
    CHECK_THAT(report, Contains("two slabs of a") && Contains("\"load a\" of tile 0 at i0 = 0 writes") &&
                           Contains("\"load a\" of tile 0 at i0 = 2 writes"));
    CHECK_THAT(report, Contains("\"multiply\" of tile 0") && Contains("tile(0)[0] began with 2 and ends with 10"));
    check_shown(report);
}

TEST_CASE("a signal before the last beat is a race with what is still under way") {
    const std::string elements = "dma tsram(self)[139392] -> hbm(0)[10560 + 32*i0] run 32 dim 2 strides 32 1056\n";
    const std::string report = report_of(
        "append.disa", {{elements, elements + "      signal tile(self)[2]\n"},
                        {"      signal tile(self)[1]\n      signal tile(self)[2]\n", "      signal tile(self)[1]\n"}});
    CHECK_THAT(report, Contains("\"append scales\" of tile 0 at i0 = 0 writes") &&
                           Contains("\"stream K\" of tile 0 at i0 = 0 reads") &&
                           Contains("only known to come after tdma.1 \"append elements\" of tile 0 at i0 = 0"));
    CHECK_THAT(report, !Contains("began with"));
    check_shown(report);
}

TEST_CASE("a stale KV row is a race between the append and the read") {
    const std::string report = report_of("append.disa", {{"      wait tile(self)[2]\n", ""}});
    CHECK_THAT(report, Contains("\"append elements\" of tile 0 at i0 = 0 writes") &&
                           Contains("\"stream K\" of tile 0 at i0 = 0 reads") && Contains("region \"cache\""));
    check_shown(report);
}

TEST_CASE("a wrong scale offset is a read of what nobody wrote") {
    const std::string report = report_of("append.disa", {{"tsram(self)[139456] run 1", "tsram(self)[139457] run 1"}});
    CHECK_THAT(report, Contains("\"append scales\" of tile 0 at i0 = 0") && Contains("reads byte 139456 of tsram(0)") &&
                           Contains("byte 64 of region \"staged row\""));
    check_shown(report);
}

}  // namespace
}  // namespace sluice::tools
