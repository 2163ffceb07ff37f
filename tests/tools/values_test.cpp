// SPDX-License-Identifier: Apache-2.0
// Runs on values from the command line: files in, files out, and what is said of input that does not fit.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "models/reference/dot.hpp"
#include "models/values.hpp"
#include "tests/tools/program.hpp"
#include "tools/npy.hpp"
#include "tools/simulate.hpp"

using namespace sluice;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t kM = 5, kN = 33, kK = 64;
const std::string kProduct = "run gemm --m 5 --n 33 --k 64 --a-format fp8 --b-format fp4 --out-format fp32 --chip toy ";

std::vector<float> counting(std::int64_t size, float scale) {
    std::vector<float> out;
    for (std::int64_t i = 0; i < size; ++i) {
        out.push_back(scale * static_cast<float>(i % 13 - 6));
    }
    return out;
}

/// C of the product of what is stored of A and B.
std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b) {
    models::Matrix first(kM, kK);
    first.values = a;
    models::Matrix second(kN, kK);
    second.values = b;
    first = models::stored(first, isa::Format::mxfp8, isa::ScaleRounding::floor);
    second = models::stored(second, isa::Format::mxfp4, isa::ScaleRounding::floor);
    const auto row = [](const models::Matrix& matrix, std::int64_t r) {
        const auto begin = matrix.values.begin() + r * matrix.cols;
        return std::vector<float>(begin, begin + matrix.cols);
    };
    std::vector<float> out;
    for (std::int64_t m = 0; m < kM; ++m) {
        for (std::int64_t n = 0; n < kN; ++n) {
            out.push_back(models::dot(isa::Format::mxfp8, row(first, m), isa::Format::mxfp4, row(second, n), 0.0F));
        }
    }
    return out;
}

std::vector<float> floats(const test::Program& program, const std::string& file) {
    return tools::as_floats(tools::read_npy(program.path(file)), file);
}

void write(const test::Program& program, const std::string& file, const std::vector<std::int64_t>& shape,
           const std::vector<float>& values) {
    program.folder().write(file, tools::npy_text(shape, std::span<const float>(values)));
}
void write_bytes(const test::Program& program, const std::string& file, const std::vector<std::int64_t>& shape,
                 const std::vector<std::uint8_t>& values) {
    program.folder().write(file, tools::npy_text(shape, std::as_bytes(std::span(values))));
}

TEST_CASE("operands are read from files, and the product is written to one") {
    const test::Program program;
    const std::vector<float> a = counting(kM * kK, 0.37F);
    const std::vector<float> b = counting(kN * kK, 1.0F);
    write(program, "in/a.npy", {kM, kK}, a);
    write(program, "in/b.npy", {kN, kK}, b);
    const test::Ended ended = program(kProduct + "--inputs in --check-races --shuffle 2 --out out/product");
    INFO(ended.err);
    REQUIRE(ended.code == 0);
    CHECK_THAT(ended.out, Contains("no race") && Contains("2 other interleavings agree") && Contains("c.npy"));
    CHECK(floats(program, "out/product/c.npy") == product(a, b));
    // An earlier result with its outputs is replaced; a file of the user's own beside them is not.
    CHECK(program(kProduct + "--inputs in --quiet --out out/product").code == 0);
    CHECK(program(kProduct + "--quiet --out out/product").code == 0);
    program.folder().write("out/product/mine.npy", "mine");
    CHECK(program(kProduct + "--quiet --out out/product").code == 2);
    CHECK(test::text_of(program.path("out/product/mine.npy")) == "mine");
}

TEST_CASE("weights are read in the forms in which others store them") {
    const test::Program program;
    const std::vector<float> a = counting(kM * kK, 0.25F);
    write(program, "in/a.npy", {kM, kK}, a);
    std::vector<std::uint8_t> codes;
    for (std::int64_t i = 0; i < kN * kK / 2; ++i) {
        codes.push_back(static_cast<std::uint8_t>(i * 37 % 256));
    }
    const float elements[16] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};
    std::vector<float> values;
    for (const std::uint8_t pair : codes) {
        values.push_back(elements[pair & 15U]);
        values.push_back(elements[pair >> 4]);
    }
    SECTION("gpt-oss") {
        write_bytes(program, "in/b.blocks.npy", {kN, kK / 32, 16}, codes);
        write_bytes(program, "in/b.scales.npy", {kN, kK / 32}, std::vector<std::uint8_t>(kN * kK / 32, 128));
        for (float& value : values) {
            value *= 2;
        }
    }
    SECTION("NVFP4") {
        write_bytes(program, "in/b.packed.npy", {kN, kK / 2}, codes);
        write_bytes(program, "in/b.scales.npy", {kN, kK / 16},
                    std::vector<std::uint8_t>(kN * kK / 16, 0x38));  // 1 in E4M3
        write(program, "in/b.tensor_scale.npy", {1}, {0.5F});
        for (float& value : values) {
            value *= 0.5F;
        }
    }
    REQUIRE(program(kProduct + "--inputs in --quiet --out out/product").code == 0);
    CHECK(floats(program, "out/product/c.npy") == product(a, values));
}

TEST_CASE("input that does not fit is named") {
    const test::Program program;
    const std::vector<float> a = counting(kM * kK, 1);
    write(program, "in/a.npy", {kM, kK}, a);
    const auto said = [&](const std::string& words) {
        const test::Ended ended = program(words);
        CHECK(ended.code == 2);
        CHECK(ended.out.empty());
        return ended.err;
    };
    CHECK_THAT(said(kProduct + "--inputs in"), Contains("b.npy") && Contains("33 x 64"));
    CHECK_THAT(said(kProduct + "--inputs nowhere"), Contains("nowhere is no folder") && Contains("a seed"));
    CHECK_THAT(said(kProduct + "--inputs -1"), Contains("a seed"));
    CHECK_THAT(said(kProduct + "--shuffle 0"), Contains("--shuffle"));
    CHECK_THAT(said(kProduct + "--functional --scale-rounding up"), Contains("floor, ceil, even"));
    write_bytes(program, "in/b.blocks.npy", {kK / 32, kN, 16}, std::vector<std::uint8_t>(kN * kK / 2));
    write_bytes(program, "in/b.scales.npy", {kN, kK / 32}, std::vector<std::uint8_t>(kN * kK / 32));
    CHECK_THAT(said(kProduct + "--inputs in"),
               Contains("b.blocks.npy") && Contains("(2, 33, 16)") && Contains("(33, 2, 16)"));
    write(program, "in/b.npy", {kK, kN}, counting(kN * kK, 1));
    CHECK_THAT(said(kProduct + "--inputs in"), Contains("b.npy") && Contains("(64, 33)") && Contains("(33, 64)"));
    program.folder().write("in/b.npy", "no array");
    CHECK_THAT(said(kProduct + "--inputs in"), Contains("b.npy"));
    write(program, "in/b.npy", {kN, kK}, counting(kN * kK, 1));
    CHECK_THAT(said(kProduct + "--inputs in --out in"), Contains("would overwrite"));
    CHECK_THAT(said("run --model llama-3.1-8b --phase decode --context 64 --functional --quiet"),
               Contains("small models"));
}

TEST_CASE("token ids are whole numbers of the vocabulary") {
    const test::Program program;
    const std::string step = "run --model toy-llama --phase prefill --tokens 3 --chip toy ";
    REQUIRE(program(step + "--functional --quiet --out out/step").code == 0);
    CHECK(floats(program, "out/step/lm_head.out.npy").size() == 512);
    CHECK(floats(program, "out/step/layers.1.k_cache.npy").size() == 3 * 64);
    const auto said = [&](const std::vector<std::int64_t>& tokens) {
        program.folder().write("in/token_ids.npy", tools::npy_text({3, 1}, std::span(tokens)));
        const test::Ended ended = program(step + "--inputs in --quiet");
        CHECK(ended.code == (ended.err.empty() ? 0 : 2));
        return ended.err;
    };
    CHECK_THAT(said({1, 511, 2}), Contains("model.embed_tokens.weight.npy"));
    tools::Request request;
    models::Workload work;
    work.phase = models::Phase::prefill;
    work.tokens = work.context = 3;
    request.chip = "toy";
    request.work = tools::ModelWork{"toy-llama", work};
    const models::Graph graph = tools::prepare(request).graph;
    for (const auto& [index, matrix] : models::random_inputs(graph, 3)) {
        write(program, "in/" + graph.tensors[static_cast<std::size_t>(index)].name + ".npy", {matrix.rows, matrix.cols},
              matrix.values);
    }
    CHECK(said({1, 511, 2}).empty());
    CHECK_THAT(said({1, 512, 2}), Contains("found 512 as element 1, allowed: tokens 0 to 511"));
    CHECK_THAT(said({1'000'000'000, 5, 2}), Contains("found 1000000000 as element 0, allowed: tokens 0 to 511"));
    CHECK_THAT(said({1, 5, -3}), Contains("found -3 as element 2, allowed: tokens 0 to 511"));
}

TEST_CASE("a program of the user's own says what its regions hold, or is given bytes") {
    const test::Program program;
    const std::string text =
        "disa 1 program \"copy\" chip \"toy\" node 0 \"copy\" count 1 stride 1 layer 0\n"
        "region \"from here\" hbm units 1 from 0 offset 0 bytes 64 input\n"
        "region \"to\" hbm units 1 from 0 offset 4096 bytes 64 output\n"
        "control \"c\" tile count 1 from 0 {\n"
        "  issue tdma.0 \"in\" node 0 { dma hbm(0)[0] -> tsram(self)[0] run 64 signal tile(self)[0] }\n"
        "  issue tdma.1 \"out\" node 0 { wait tile(self)[0] dma tsram(self)[0] -> hbm(0)[4096] run 64 }\n"
        "}\n";
    program.folder().write("copy.disa", text);
    const test::Ended seeded = program("run copy.disa --functional");
    CHECK(seeded.code == 2);
    CHECK_THAT(seeded.err, Contains("region from here") && Contains("holds ROWS x COLS FORMAT"));
    std::vector<std::uint8_t> bytes(64);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::uint8_t>(3 * i);
    }
    write_bytes(program, "in/from-here.npy", {64}, bytes);
    REQUIRE(program("run copy.disa --inputs in --quiet --out out/copy").code == 0);
    const tools::Array out = tools::read_npy(program.path("out/copy/to.npy"));
    CHECK(std::equal(out.data.begin(), out.data.end(), std::as_bytes(std::span(bytes)).begin()));

    for (const std::string name : {"", ".", "..", ".hidden"}) {
        const std::string renamed = std::string(text).replace(text.find("\"to\""), 4, "\"" + name + "\"");
        program.folder().write("named.disa", renamed);
        const test::Ended named = program("run named.disa --inputs in --quiet");
        CHECK(named.code == 2);
        CHECK_THAT(named.err, Contains("region \"" + name + "\": an input or output names a file"));
        CHECK(program("run named.disa --quiet").code == 0);  // without values there are no files
    }
    program.folder().write("named.disa", std::string(text).replace(text.find("\"to\""), 4, "\"../to\""));
    CHECK_THAT(program("run named.disa --inputs in --quiet").err, Contains("begin with a dot"));
    program.folder().write("named.disa", std::string(text).replace(text.find("\"to\""), 4, "\"there/to\""));
    REQUIRE(program("run named.disa --inputs in --quiet --out out/named").code == 0);
    CHECK(std::filesystem::exists(program.path("out/named/there-to.npy")));
    program.folder().write("named.disa", std::string(text).replace(text.find("\"to\""), 4, "\"from-here\""));
    CHECK_THAT(program("run named.disa --inputs in --quiet").err,
               Contains("region \"from-here\": another input or output is in from-here.npy too"));

    const std::string racy = text.substr(0, text.find("wait tile(self)[0] ")) +
                             text.substr(text.find("wait tile(self)[0] ") + std::string("wait tile(self)[0] ").size());
    program.folder().write("racy.disa", racy);
    const test::Ended race = program("run racy.disa --inputs in --check-races");
    CHECK(race.code == 2);
    CHECK(race.out.empty());
    CHECK_FALSE(std::filesystem::exists(program.path("out/racy")));
}

}  // namespace
