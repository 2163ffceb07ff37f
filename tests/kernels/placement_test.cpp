// SPDX-License-Identifier: Apache-2.0
// Do matrices lie in memory as their places say, and come back as their formats store them?
#include "kernels/placement.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "tests/kernels/compiled.hpp"
#include "tests/support/files.hpp"

namespace sluice::test {
namespace {

using isa::Format;
using kernels::MatrixPlace;
using kernels::Placement;
using models::Matrix;
using models::TensorRole;

constexpr std::int64_t kRows = 40, kCols = 50, kBase = 4096;

/// Whole numbers from -60 to 60.
Matrix counting(std::int64_t rows = kRows, std::int64_t cols = kCols) {
    Matrix out(rows, cols);
    for (std::size_t i = 0; i < out.values.size(); ++i) {
        out.values[i] = static_cast<float>(static_cast<int>(i * 37 % 121) - 60);
    }
    return out;
}

/// Two block rows of two block columns, in another order than one behind the other.
std::int64_t block_offset(Format format, std::int64_t r, std::int64_t c) {
    return kBase + (c * 2 + r) * (static_cast<std::int64_t>(isa::block_bytes(format)) + 32);
}

/// A matrix that is read and written back at the same place.
struct Store {
    models::Graph graph;
    Placement placement;
    models::Values values;
    isa::SparseMemory hbm{1 << 20};
    isa::Program program;

    Store(Format format, const MatrixPlace& place) {
        graph.tensors = {{"matrix", TensorRole::updated, kRows, kCols, format}};
        placement.inputs = {place};
        placement.outputs = {place};
        values[0] = counting();
    }
    void write() { kernels::write_inputs(placement, graph, values, hbm, program); }
    [[nodiscard]] Matrix read() const { return kernels::read_outputs(placement, graph, hbm).at(0); }
    [[nodiscard]] std::uint32_t byte(std::int64_t at) const {
        std::array<std::byte, 1> out{};
        hbm.read(static_cast<std::uint64_t>(at), out);
        return std::to_integer<std::uint32_t>(out[0]);
    }
};

MatrixPlace blocked(Format format) {
    return {0, 0, kRows, format, [format](std::int64_t r, std::int64_t c) { return block_offset(format, r, c); }, 0};
}
MatrixPlace row_major(Format format) {
    return {0, 0, kRows, format, nullptr, kBase};
}

TEST_CASE("a blocked matrix lies element by element in its blocks, with scales behind them and zeros around it") {
    Store store(Format::mxfp8, blocked(Format::mxfp8));
    store.write();
    bool right = true;
    for (std::int64_t row = 0; row < 64; ++row) {
        for (std::int64_t col = 0; col < 64; ++col) {
            const std::int64_t block = block_offset(Format::mxfp8, row / 32, col / 32);
            const auto scale = static_cast<int>(store.byte(block + 1024 + row % 32)) - 127;
            const float unit = std::ldexp(1.0F, scale);
            const float element = isa::decode(isa::Number::e4m3, store.byte(block + row % 32 * 32 + col % 32)) * unit;
            const bool inside = row < kRows && col < kCols;
            // E4M3 has four significant bits, so that a rounding takes at most 1/16 of the value; half a step of 2^-9
            // below its normal numbers; and what lies beyond 448.
            const float wanted = inside ? store.values[0].at(row, col) : 0;
            const float most = std::max({std::abs(wanted) / 16, unit / 1024, std::abs(wanted) - 448 * unit});
            right = right && std::abs(element - wanted) <= most;
        }
    }
    CHECK(right);
    // Nothing lies between the blocks, nor before them.
    CHECK(store.hbm.first_unwritten(kBase, 4 * (1056 + 32)) == kBase + 1056);
    CHECK(store.hbm.first_unwritten(kBase - 1, 1).has_value());
}

TEST_CASE("a row-major matrix lies row by row, in whole bytes") {
    Store store(Format::bf16, row_major(Format::bf16));
    store.write();
    bool right = true;
    for (std::int64_t row = 0; row < kRows; ++row) {
        for (std::int64_t col = 0; col < kCols; ++col) {
            const std::int64_t at = kBase + (row * kCols + col) * 2;
            const std::uint32_t code = store.byte(at) | store.byte(at + 1) << 8U;
            right = right && isa::decode(isa::Number::bf16, code) == store.values[0].at(row, col);
        }
    }
    CHECK(right);
    CHECK(store.hbm.first_unwritten(kBase, kRows * kCols * 2 + 1) == kBase + kRows * kCols * 2);
}

TEST_CASE("what is read back is what the format stores, in every format and layout") {
    std::size_t compared = 0;
    for (const isa::FormatInfo& format : isa::all_formats()) {
        if (format.format == Format::raw) {
            continue;
        }
        INFO(format.name);
        Store store(format.format, blocked(format.format));
        store.write();
        const Matrix wanted = models::stored(store.values[0], format.format, isa::ScaleRounding::floor);
        CHECK(store.read() == wanted);
        ++compared;
        if (!format.block_scaled) {
            Store rows(format.format, row_major(format.format));
            rows.write();
            CHECK(rows.read() == wanted);
        }
    }
    CHECK(compared == isa::kFormatCount - 1);
}

TEST_CASE("the workload's rule scales the blocks") {
    for (const isa::ScaleRounding rounding :
         {isa::ScaleRounding::floor, isa::ScaleRounding::ceil, isa::ScaleRounding::even}) {
        Store store(Format::mxfp4, blocked(Format::mxfp4));
        store.graph.workload.scale_rounding = rounding;
        store.write();
        CHECK(store.read() == models::stored(store.values[0], Format::mxfp4, rounding));
    }
}

TEST_CASE("parts of a matrix lie apart") {
    MatrixPlace first = row_major(Format::fp32);
    first.rows = 15;
    MatrixPlace second = row_major(Format::fp32);
    second.first_row = 15;
    second.rows = kRows - 15;
    second.base = 65536;
    Store store(Format::fp32, first);
    store.placement.inputs.push_back(second);
    store.placement.outputs.push_back(second);
    store.write();
    CHECK(store.read() == store.values[0]);
    CHECK(store.hbm.first_unwritten(kBase, 15 * kCols * 4 + 1) == kBase + 15 * kCols * 4);
    CHECK_FALSE(store.hbm.first_unwritten(65536, (kRows - 15) * kCols * 4).has_value());
}

TEST_CASE("constants are written where they belong") {
    Store store(Format::fp32, row_major(Format::fp32));
    store.placement.constants.push_back({512, [] { return std::vector<std::byte>(7, std::byte{9}); }});
    store.write();
    CHECK(store.byte(512) == 9);
    CHECK(store.byte(518) == 9);
    CHECK(store.hbm.first_unwritten(512, 8) == 519U);
}

TEST_CASE("a result that nobody wrote, and inputs that are missing or have another shape, are named") {
    Store store(Format::bf16, row_major(Format::bf16));
    using Catch::Matchers::Contains;
    CHECK_THAT(input_error([&] { static_cast<void>(store.read()); }),
               Contains("matrix: is output, and nobody wrote byte 4096 of hbm(0), in row 0"));
    store.values[0] = counting(kRows, kCols - 1);
    CHECK_THAT(input_error([&] { store.write(); }), Contains("matrix: found 40 x 49 values, allowed: 40 x 50"));
    store.values.clear();
    CHECK_THAT(input_error([&] { store.write(); }), Contains("matrix: no values are given"));
}

TEST_CASE("token ids become the program's table, and one outside its range is named as the whole number it is") {
    Store store(Format::fp32, row_major(Format::fp32));
    store.graph.tensors.push_back({"ids", TensorRole::token_ids, 3, 1, Format::raw});
    store.placement.token_ids = 1;
    isa::IndexTable table;
    table.name = "token_ids";
    table.count = 3;
    table.highest = 511;
    store.program.tables = {table};
    const auto give = [&](const std::vector<float>& ids) {
        store.values[1] = Matrix(3, 1);
        store.values[1].values = ids;
        store.write();
    };
    give({0, 511, 7});
    CHECK(store.program.tables[0].values == std::vector<std::int64_t>{0, 511, 7});
    const auto said = [&](float id) { return input_error([&] { give({0, id, 7}); }); };
    CHECK(said(512) == "ids: found token 512, allowed: whole numbers from 0 to 511");
    CHECK(said(1e9F) == "ids: found token 1000000000, allowed: whole numbers from 0 to 511");
    CHECK(said(-1) == "ids: found token -1, allowed: whole numbers from 0 to 511");
    CHECK(said(2.5F) == "ids: found token 2.5, allowed: whole numbers from 0 to 511");
}

TEST_CASE("a compiled program has a place for every row of every input and output, once") {
    for (const models::Graph& graph :
         {models::build_gemm(100, 70, 200, Format::mxfp8, Format::mxfp4, Format::bf16),
          models::build_graph(small_model(2), decode(40, 50)), models::build_graph(small_model(2), prefill(2, 70))}) {
        INFO(graph.name);
        const Placement placement = kernels::compile(graph, chip("toy")).placement;
        const auto check = [&](const std::vector<MatrixPlace>& places, const std::vector<models::TensorIndex>& wanted) {
            std::map<models::TensorIndex, std::map<std::int64_t, int>> rows;
            for (const MatrixPlace& place : places) {
                for (std::int64_t row = place.first_row; row < place.first_row + place.rows; ++row) {
                    ++rows[place.tensor][row];
                }
            }
            for (const models::TensorIndex index : wanted) {
                const models::Tensor& tensor = graph.tensors.at(static_cast<std::size_t>(index));
                INFO(tensor.name);
                if (tensor.role == TensorRole::token_ids) {
                    CHECK(placement.token_ids == index);
                    continue;
                }
                const std::map<std::int64_t, int>& found = rows[index];
                CHECK(static_cast<std::int64_t>(found.size()) == tensor.rows);
                CHECK(found.begin()->first == 0);
                CHECK(found.rbegin()->first == tensor.rows - 1);
                CHECK(std::all_of(found.begin(), found.end(), [](const auto& each) { return each.second == 1; }));
            }
        };
        check(placement.inputs, models::inputs_of(graph));
        check(placement.outputs, models::outputs_of(graph));
    }
}

}  // namespace
}  // namespace sluice::test
