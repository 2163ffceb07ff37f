// SPDX-License-Identifier: Apache-2.0
// The hand-written kernels of kernels/examples/ compute what they say, without a race, in every interleaving tried.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>

#include "models/reference/dot.hpp"
#include "tools/npy.hpp"
#include "tools/simulate.hpp"

namespace sluice::tools {
namespace {

using isa::Format;
using models::Matrix;

const std::string kExamples = std::string(SLUICE_SOURCE_DIR) + "/kernels/examples/";

struct Ran {
    Matrix a, b;  ///< the first two inputs, as stored
    std::vector<float> out;
    Cycle cycles = 0;
};

Ran run_example(const std::string& name, const std::string& output) {
    Request request;
    request.work = ProgramWork{kExamples + name};
    const Prepared job = prepare(request);
    ValueOptions options;
    options.inputs = "5";
    options.check_races = true;
    options.shuffles = 8;
    const ValueOutcome values = run_values(job, options);
    const models::Values inputs = models::random_inputs(job.graph, 5);
    const auto stored = [&](models::TensorIndex index) {
        return inputs.contains(index)
                   ? models::stored(inputs.at(index), job.graph.tensors[static_cast<std::size_t>(index)].format,
                                    isa::ScaleRounding::floor)
                   : Matrix();
    };
    Ran ran{stored(0), stored(1), as_floats(parse_npy(values.files.at(output), output), output), 0};
    ran.cycles = simulate(job).result.cycles;
    return ran;
}

std::string text_of(const std::string& file) {
    std::ifstream stream(file);
    REQUIRE(stream);
    return {std::istreambuf_iterator<char>(stream), {}};
}

float bf16(float value) {
    return isa::decode(isa::Number::bf16, isa::encode(isa::Number::bf16, value));
}

std::vector<float> row_of(const Matrix& matrix, std::int64_t row) {
    const auto first = matrix.values.begin() + row * matrix.cols;
    return {first, first + matrix.cols};
}

TEST_CASE("the hand-written product is the tensor unit's product") {
    const Ran ran = run_example("gemm.disa", "c.npy");
    REQUIRE(ran.out.size() == 1024 * 64);
    bool equal = true;
    for (std::int64_t m = 0; m < 1024; ++m) {
        for (std::int64_t n = 0; n < 64; ++n) {
            const float sum = models::dot(Format::mxfp8, row_of(ran.a, m), Format::mxfp4, row_of(ran.b, n), 0.0F);
            equal = equal && ran.out[static_cast<std::size_t>(m * 64 + n)] == bf16(sum);
        }
    }
    CHECK(equal);
}

TEST_CASE("the hand-written softmax is a softmax") {
    const Ran ran = run_example("softmax.disa", "y.npy");
    REQUIRE(ran.out.size() == 512 * 256);
    bool equal = true;
    for (std::int64_t r = 0; r < 512; ++r) {
        const std::vector<float> row = row_of(ran.a, r);
        const float top = *std::max_element(row.begin(), row.end());
        std::vector<float> powers;
        double sum = 0;
        for (const float x : row) {
            powers.push_back(static_cast<float>(std::exp(static_cast<double>(x - top))));
            sum += static_cast<double>(powers.back());
        }
        const auto inverse = static_cast<float>(1.0 / static_cast<double>(static_cast<float>(sum)));
        for (std::size_t j = 0; j < row.size(); ++j) {
            equal = equal && ran.out[static_cast<std::size_t>(r) * 256 + j] == bf16(powers[j] * inverse);
        }
    }
    CHECK(equal);
}

TEST_CASE("the hand-written ring brings every shard to every tile") {
    constexpr std::int64_t kTiles = 9, kRows = 32;
    const Ran ran = run_example("ring_shift.disa", "gathered.npy");
    bool equal = true;
    for (std::int64_t row = 0; row < kTiles * kTiles * kRows; ++row) {
        const std::int64_t tile = row / (kTiles * kRows);
        const std::int64_t step = row / kRows % kTiles;
        const std::int64_t shard = (tile - step + kTiles) % kTiles;
        const std::vector<float> wanted = row_of(ran.a, shard * kRows + row % kRows);
        equal = equal && std::equal(wanted.begin(), wanted.end(), ran.out.begin() + row * ran.a.cols);
    }
    CHECK(equal);
    // A step of the ring takes at least the time of a shard on a tile's egress.
    CHECK(ran.cycles >= 8 * 32768 / 128);
}

TEST_CASE("the worked example of the machine language is the hand-written product") {
    const std::string page = text_of(std::string(SLUICE_SOURCE_DIR) + "/isa/README.md");
    const std::string fence = "```disa\n";
    const std::size_t at = page.find(fence) + fence.size();
    CHECK(page.substr(at, page.find("```", at) - at) == text_of(kExamples + "gemm.disa"));
}

}  // namespace
}  // namespace sluice::tools
