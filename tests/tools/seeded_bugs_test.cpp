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

Prepared edited(const std::string& example, const std::vector<Edit>& edits) {
    std::string text = text_of("kernels/examples/" + example);
    for (const Edit& edit : edits) {
        const std::size_t at = text.find(edit.before);
        REQUIRE(at != std::string::npos);
        text.replace(at, edit.before.size(), edit.after);
    }
    const test::TemporaryFolder folder;
    Request request;
    request.work = ProgramWork{folder.write("mine.disa", text)};
    return prepare(request);
}

/// What the verifier says of an example once it has been edited.
std::string refusal_of(const std::string& example, const std::vector<Edit>& edits) {
    return test::input_error([&] { static_cast<void>(edited(example, edits)); });
}

/// What its run on values says.
std::string report_of(const std::string& example, const std::vector<Edit>& edits) {
    const Prepared job = edited(example, edits);
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

const Edit kNoWaitBeforeLoad{"\"load a\" node 0 {\n      wait tile(self)[0]\n", "\"load a\" node 0 {\n"};
const Edit kNoSignalOfMultiply{"      signal tile(self)[0]\n      signal tile(self)[4]\n",
                               "      signal tile(self)[4]\n"};

TEST_CASE("a missing wait leaves a semaphore changed, which is said before the run") {
    const std::string report = refusal_of("gemm.disa", {kNoWaitBeforeLoad});
    CHECK_THAT(report, Contains("semaphores tile(0..1)[0]: ends at 10, it began with 2") &&
                           Contains("signalled by ttu.0 \"multiply\""));
    check_shown(report);
}

TEST_CASE("a missing wait on a double buffer is a race between two loads") {
    const std::string report = report_of("gemm.disa", {kNoWaitBeforeLoad, kNoSignalOfMultiply});
    CHECK_THAT(report, Contains("two slabs of a") && Contains("\"load a\" of tile 0 at i0 = 0 writes") &&
                           Contains("\"load a\" of tile 0 at i0 = 2 writes"));
    CHECK_THAT(report, Contains("\"multiply\" of tile 0"));
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
    const std::string report =
        report_of("append.disa", {{"      wait tile(self)[2]\n", ""}, {"      signal tile(self)[2]\n", ""}});
    CHECK_THAT(report, Contains("\"append elements\" of tile 0 at i0 = 0 writes") &&
                           Contains("\"stream K\" of tile 0 at i0 = 0 reads") && Contains("region \"cache\""));
    check_shown(report);
}

const std::string kScales = "tsram(self)[139456] run 1";

TEST_CASE("a scale offset beyond the row leaves its region, which is said before the run") {
    const std::string report = refusal_of("append.disa", {{kScales, "tsram(self)[139457] run 1"}});
    CHECK_THAT(report, Contains("tdma.0 \"load scales\": the destination reaches bytes 139457..139458 of tsram(0)") &&
                           Contains("region \"staged row\""));
    check_shown(report);
}

TEST_CASE("a wrong scale offset within the row is a read of what nobody wrote") {
    const std::string report = report_of("append.disa", {{kScales, "tsram(self)[139455] run 1"}});
    CHECK_THAT(report, Contains("\"append scales\" of tile 0 at i0 = 0") && Contains("reads byte 139457 of tsram(0)") &&
                           Contains("byte 65 of region \"staged row\""));
    check_shown(report);
}

}  // namespace
}  // namespace sluice::tools
