// SPDX-License-Identifier: Apache-2.0
// Is run.json what its schema says, the same from run to run, and does it add up?
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <regex>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "tests/tools/program.hpp"

using namespace sluice;
using nlohmann::json;

namespace {

const std::vector<std::string> kRuns = {test::kToyGemm, test::kToyDecode, test::kToyPrefill};

json schema() {
    return test::json_of(std::string(SLUICE_SOURCE_DIR) + "/configs/schemas/run-1.schema.json");
}

json result_of(const test::Program& program, const std::string& command) {
    const test::Ended ended = program(command + " --json -");
    INFO(command << "\n" << ended.err);
    REQUIRE(ended.code == 0);
    return json::parse(ended.out);
}

/// "" if `document` follows the schema, else the first complaints.
std::string violations(const json& document) {
    const json description = schema();
    valijson::Schema parsed;
    valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(description), parsed);
    valijson::ValidationResults results;
    const valijson::adapters::NlohmannJsonAdapter target(document);
    if (valijson::Validator().validate(parsed, target, &results)) {
        return "";
    }
    std::string text;
    valijson::ValidationResults::Error error;
    while (results.popError(error)) {
        for (const std::string& step : error.context) {
            text += step;
        }
        text += ": " + error.description + "\n";
    }
    return text;
}

/// Every description of a value: paths of those without `description`, or of numbers without `unit`.
void find_undocumented(const json& node, const std::string& path, std::vector<std::string>& found) {
    const auto is_number = [](const json& type) { return type == "number" || type == "integer"; };
    const json type = node.value("type", json());
    const bool number = type.is_array() ? is_number(type[0]) && !node.contains("enum") : is_number(type);
    const bool named_by_neighbour = path.ends_with(".value");
    if (!node.contains("description") || (number && !node.contains("unit") && !named_by_neighbour)) {
        found.push_back(path);
    }
    const json properties = node.value("properties", json::object());
    for (const auto& [key, child] : properties.items()) {
        find_undocumented(child, fmt::format("{}.{}", path, key), found);
    }
    for (const char* nested : {"items", "additionalProperties"}) {
        if (node.contains(nested) && node[nested].is_object()) {
            find_undocumented(node[nested], fmt::format("{}[]", path), found);
        }
    }
    const json choices = node.value("oneOf", json::array());
    for (const json& choice : choices) {
        find_undocumented(choice, path, found);
    }
}

}  // namespace

TEST_CASE("results follow the schema") {
    const test::Program program;
    for (const std::string& run : kRuns) {
        INFO(run);
        CHECK(violations(result_of(program, run)) == "");
    }
    REQUIRE(program("compile gemm --m 64 --n 64 --k 64 --format fp4 --chip toy -o p.disa").code == 0);
    CHECK(violations(result_of(program, "run p.disa")) == "");
}

TEST_CASE("the schema notices what does not belong") {
    const test::Program program;
    const json good = result_of(program, test::kToyGemm);
    for (const char* change : {R"([{"op": "add", "path": "/summary/speed", "value": 1}])",
                               R"([{"op": "remove", "path": "/summary/cycles"}])",
                               R"([{"op": "replace", "path": "/summary/hbm_utilization", "value": 1.2}])",
                               R"([{"op": "replace", "path": "/schema", "value": "sluice.run/2"}])",
                               R"([{"op": "replace", "path": "/summary/cycles", "value": "many"}])",
                               R"([{"op": "remove", "path": "/engines/0/waiting/semaphore"}])",
                               R"([{"op": "add", "path": "/workload/phase", "value": "decode"}])"}) {
        INFO(change);
        CHECK_FALSE(violations(good.patch(json::parse(change))).empty());
    }
}

TEST_CASE("the schema describes every field, and gives every number a unit") {
    std::vector<std::string> undocumented;
    find_undocumented(schema(), "", undocumented);
    CHECK(undocumented == std::vector<std::string>{});
}

TEST_CASE("the same command gives the same bytes but for the simulator's own figures") {
    const test::Program program;
    for (const std::string& run : kRuns) {
        INFO(run);
        json first = result_of(program, run);
        json second = result_of(program, run);
        CHECK(first["simulator"]["events"] == second["simulator"]["events"]);
        first.erase("simulator");
        second.erase("simulator");
        CHECK(first.dump() == second.dump());
    }
}

TEST_CASE("engines, critical path and energy add up to the run") {
    const test::Program program;
    for (const std::string& run : kRuns) {
        INFO(run);
        const json result = result_of(program, run);
        const json& summary = result["summary"];
        for (const json& engine : result["engines"]) {
            std::uint64_t sum = engine["busy"].get<std::uint64_t>() + engine["idle"].get<std::uint64_t>();
            for (const auto& [reason, cycles] : engine["waiting"].items()) {
                sum += cycles.get<std::uint64_t>();
            }
            INFO(engine["path"]);
            CHECK(sum == engine["total"]);
            CHECK(sum == summary["cycles"]);
        }
        std::uint64_t path = 0;
        for (const json& segment : result["critical_path"]) {
            path += segment["cycles"].get<std::uint64_t>();
        }
        CHECK(path == summary["cycles"]);

        double energy = result["energy"]["static_j"];
        for (const auto& [component, joules] : result["energy"]["components"].items()) {
            energy += joules.get<double>();
        }
        CHECK(energy == Approx(summary["energy_j"].get<double>()).epsilon(1e-12));
        double over_time = 0;
        const auto interval = result["power"]["interval_cycles"].get<std::uint64_t>();
        const auto cycles = summary["cycles"].get<std::uint64_t>();
        for (std::size_t i = 0; i < result["power"]["watts"].size(); ++i) {
            const std::uint64_t length = std::min(interval, cycles - i * interval);
            over_time += result["power"]["watts"][i].get<double>() * static_cast<double>(length) / 2e9;
        }
        CHECK(over_time == Approx(energy).epsilon(1e-9));
        double of_operators = 0;
        double hbm_bytes = 0;
        for (const json& op : result["operators"]) {
            if (op["tflops"].is_number() && op["roof_tflops"].is_number()) {
                CHECK(op["tflops"] <= op["roof_tflops"].get<double>() * (1 + 1e-9));
            }
            of_operators += op["energy_j"].get<double>();
            hbm_bytes += op["bytes"]["hbm"].get<double>();
            CHECK(op["first_fetch_cycle"] <= op["end_cycle"]);
            CHECK(op["start_cycle"] <= op["end_cycle"]);
            CHECK(op["end_cycle"] <= summary["cycles"]);
        }
        CHECK(of_operators <= energy);
        CHECK(hbm_bytes == summary["hbm_bytes"].get<double>());
    }
}

TEST_CASE("rates follow from counts") {
    const test::Program program;
    const json gemm = result_of(program, test::kToyGemm)["summary"];
    const double seconds = gemm["cycles"].get<double>() / 2e9;
    CHECK(gemm["seconds"].get<double>() == Approx(seconds).epsilon(1e-9));
    CHECK(gemm["flops"] == 2.0 * 64 * 64 * 64);
    CHECK(gemm["tflops"].get<double>() == Approx(2.0 * 64 * 64 * 64 / seconds / 1e12));
    CHECK(gemm["peak_tflops"].get<double>() == Approx(2.0 * 32 * 32 * 32 * 2 * 2e9 / 1e12));
    CHECK(gemm["utilization"].get<double>() ==
          Approx(gemm["tflops"].get<double>() / gemm["peak_tflops"].get<double>()));
    CHECK(gemm["hbm_tbps"].get<double>() == Approx(gemm["hbm_bytes"].get<double>() / seconds / 1e12));
    CHECK(gemm["tokens_per_second"].is_null());
    // 64 x 64 elements of MXFP8 twice, and of BF16 once, must move.
    CHECK(gemm["roof"]["hbm_cycles"].get<double>() == Approx((2 * 4 * 1056 + 4 * 2048) / 72.92));

    const json decode = result_of(program, test::kToyDecode)["summary"];
    CHECK(decode["tokens_per_second"].get<double>() == Approx(4 / decode["seconds"].get<double>()));
    CHECK(decode["joules_per_token"].get<double>() == Approx(decode["energy_j"].get<double>() / 4));
    const json prefill = result_of(program, test::kToyPrefill)["summary"];
    CHECK(prefill["tokens_per_second"].get<double>() == Approx(64 / prefill["seconds"].get<double>()));
}

TEST_CASE("the operators are a table of the same figures") {
    const test::Program program;
    REQUIRE(program(std::string(test::kToyDecode) + " --quiet --out here").code == 0);
    const json run = test::json_of(program.path("here/run.json"));
    const std::string csv = test::text_of(program.path("here/operators.csv"));
    CHECK(csv.starts_with("name,kind,format,instructions,first_fetch_cycle,start_cycle,end_cycle,flops,bytes_hbm,"));
    CHECK(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')) == run["operators"].size() + 1);
    for (const json& op : run["operators"]) {
        const std::string start = fmt::format("\n{},{},", op["name"].get<std::string>(), op["kind"].get<std::string>());
        CHECK(csv.find(start) != std::string::npos);
    }
}

TEST_CASE("a changed energy coefficient changes the joules and nothing else") {
    const test::Program program;
    json table = test::json_of(std::string(SLUICE_SOURCE_DIR) + "/configs/energy/maia200.json");
    table["events"]["mac_fp8"]["value"] = 2 * table["events"]["mac_fp8"]["value"].get<double>();
    table["name"] = "hot";
    // Energy tables are found by name in configs/, so this is a copy of it.
    std::filesystem::copy(std::string(SLUICE_SOURCE_DIR) + "/configs", program.path("configs"),
                          std::filesystem::copy_options::recursive);
    program.folder().write("configs/energy/hot.json", table.dump());
    program.folder().write("hot.json", R"({"base": "toy", "power": {"energy_table": "hot"}})");
    ::setenv("SLUICE_CONFIGS", program.path("configs").c_str(), 1);
    const std::string gemm = "run gemm --m 64 --n 64 --k 64 --format fp8 --chip ";
    const json cold = result_of(program, gemm + "toy");
    const json hot = result_of(program, gemm + "./hot.json");
    ::unsetenv("SLUICE_CONFIGS");
    CHECK(cold["summary"]["cycles"] == hot["summary"]["cycles"]);
    const double before = cold["energy"]["components"]["ttu"];
    CHECK(hot["energy"]["components"]["ttu"].get<double>() == Approx(2 * before));
    CHECK(hot["summary"]["energy_j"].get<double>() == Approx(cold["summary"]["energy_j"].get<double>() + before));
    CHECK(hot["energy"]["components"]["hbm"] == cold["energy"]["components"]["hbm"]);
}

// Whatever cannot be (above a peak, below a bound, bytes or cycles lost) would end these with 3.
TEST_CASE("odd sizes, formats and batches run within their bounds") {
    const test::Program program;
    std::vector<std::string> runs;
    for (const char* sizes :
         {"--m 1 --n 1 --k 1", "--m 1 --n 33 --k 65", "--m 31 --n 64 --k 7", "--m 513 --n 129 --k 257"}) {
        for (const char* format : {"fp4", "fp6", "fp8", "e4m3", "bf16"}) {
            runs.push_back(fmt::format("gemm {} --format {}", sizes, format));
        }
    }
    for (const char* step :
         {"decode --context 1", "decode --context 77", "prefill --tokens 1", "prefill --tokens 33"}) {
        for (const int batch : {1, 3, 40}) {
            for (const char* formats : {"", "--weights fp6 --act e4m3", "--weights bf16 --act bf16 --kv bf16"}) {
                runs.push_back(fmt::format("--model toy-llama --phase {} --batch {} {}", step, batch, formats));
            }
        }
    }
    for (const std::string& run : runs) {
        const test::Ended ended = program(fmt::format("run {} --chip toy --json -", run));
        INFO(run << "\n" << ended.err);
        CHECK(ended.code == 0);
    }
}
