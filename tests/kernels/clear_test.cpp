// SPDX-License-Identifier: Apache-2.0
// Are exactly the rows without a token cleared, elements and scales?
#include "kernels/clear.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/kernels/compiled.hpp"

namespace sluice::test {
namespace {

using isa::Format;
using isa::kBlockEdge;

struct Planned {
    models::Graph graph;
    isa::ChipSpec spec;
    kernels::DecoderPlan plan;
    kernels::VectorPrograms vectors{isa::ScaleRounding::floor};

    Planned(models::Graph work, isa::ChipSpec chip)
        : graph(std::move(work)), spec(std::move(chip)), plan(kernels::plan_decoder(graph, spec)) {}
    [[nodiscard]] kernels::Emitter emitter(std::int64_t group) {
        return {spec, plan.grouping, group, plan.tile.memory, vectors};
    }
};

/// Bytes that the macros write, each once; all of them come from the block of zeros and go to `target`'s units.
std::set<std::int64_t> cleared(const kernels::DecoderPlan& plan, const std::vector<isa::DmaMacro>& macros,
                               const isa::MemRef& target) {
    const auto zeros = std::find_if(plan.regions.begin(), plan.regions.end(),
                                    [](const isa::Region& region) { return region.name == "zeros"; });
    REQUIRE(zeros != plan.regions.end());
    std::set<std::int64_t> out;
    std::int64_t written = 0;
    for (const isa::DmaMacro& macro : macros) {
        const std::int64_t run = macro.run_bytes.evaluate({});
        CHECK(macro.src.space == isa::Space::hbm);
        CHECK(macro.src.offset.evaluate({}) == static_cast<std::int64_t>(zeros->offset));
        CHECK(run <= static_cast<std::int64_t>(zeros->bytes));
        CHECK((macro.dst.space == target.space && macro.dst.unit == target.unit && macro.dst.mask == target.mask));
        REQUIRE(macro.dims.size() == 1);
        CHECK(macro.dims[0].src_stride == 0);
        for (std::int64_t i = 0; i < macro.dims[0].count.evaluate({}); ++i) {
            const std::int64_t at = macro.dst.offset.evaluate({}) + i * macro.dims[0].dst_stride;
            for (std::int64_t byte = 0; byte < run; ++byte) {
                out.insert(at + byte);
                ++written;
            }
        }
    }
    CHECK(static_cast<std::int64_t>(out.size()) == written);
    return out;
}

/// A buffer of block rows of blocks, one behind the other.
struct Buffer {
    std::int64_t base, columns;
    Format format;

    /// The bytes of row `row` of the matrix: its 32 elements in every block, and their scale.
    void add_row(std::int64_t row, std::set<std::int64_t>& out) const {
        const std::int64_t data = 32 * isa::info(format).element_bits / 8;
        const auto block = static_cast<std::int64_t>(isa::block_bytes(format));
        for (std::int64_t column = 0; column < columns; ++column) {
            const std::int64_t at = base + (row / 32 * columns + column) * block;
            for (std::int64_t byte = 0; byte < data; ++byte) {
                out.insert(at + row % 32 * data + byte);
            }
            if (isa::info(format).block_scaled) {
                out.insert(at + 32 * data + row % 32);
            }
        }
    }
};

Buffer residual(const kernels::DecoderPlan& plan) {
    return {plan.csram.x, plan.model.hidden / 32, Format::bf16};
}

TEST_CASE(
    "decode clears rows beyond the batch, of the residual and of attention's result, in several row blocks only") {
    for (const std::int64_t batch : {1, 32, 33, 45, 64}) {
        INFO(batch << " sequences");
        Planned planned(models::build_graph(small_model(1), decode(batch, 40)), chip("toy"));
        const kernels::DecoderPlan& plan = planned.plan;
        REQUIRE(plan.chunks.size() == 1);
        REQUIRE(plan.chunks[0].size() == 1);
        const kernels::Emitter emit = planned.emitter(0);
        const Buffer attention{plan.csram.attention, 4 * 64 / 32, plan.attention.out};
        std::set<std::int64_t> wanted;
        for (std::int64_t row = batch; batch > 32 && row < (batch + 31) / 32 * 32; ++row) {
            residual(plan).add_row(row, wanted);
            attention.add_row(row, wanted);
        }
        CHECK(cleared(plan, kernels::clear_spare_rows(emit, plan, plan.chunks[0][0]), emit.group_csram(0)) == wanted);
    }
}

TEST_CASE("prefill clears rows beyond the sequence, of the residual, in every group") {
    std::size_t cleared_rows = 0;
    for (const auto& [name, tokens] :
         {std::pair{"toy", 1}, std::pair{"toy", 32}, std::pair{"toy", 45}, std::pair{"maia200", 33},
          std::pair{"maia200", 300}, std::pair{"maia200", 1000}}) {
        INFO(tokens << " tokens on " << name);
        Planned planned(models::build_graph(small_model(1), prefill(1, tokens)), chip(name));
        const kernels::DecoderPlan& plan = planned.plan;
        for (std::int64_t group = 0; group < plan.grouping.groups; ++group) {
            const kernels::Emitter emit = planned.emitter(group);
            for (const kernels::Chunk& chunk : plan.chunks.at(static_cast<std::size_t>(group))) {
                std::set<std::int64_t> wanted;
                for (std::int64_t row = 0; row < chunk.row_blocks * 32; ++row) {
                    // Groups take blocks of 32 positions in turn.
                    const std::int64_t block = (chunk.first_row + row / 32) * plan.grouping.groups + group;
                    if (block * 32 + row % 32 >= tokens) {
                        residual(plan).add_row(row, wanted);
                        ++cleared_rows;
                    }
                }
                CHECK(cleared(plan, kernels::clear_spare_rows(emit, plan, chunk), emit.group_csram(0)) == wanted);
            }
        }
    }
    CHECK(cleared_rows > 0);
}

TEST_CASE("the head of a prefill clears rows beyond the batch, in several row blocks only") {
    for (const std::int64_t batch : {1, 32, 33, 40, 64}) {
        INFO(batch << " sequences");
        Planned planned(models::build_graph(small_model(1), prefill(batch, 2)), chip("toy"));
        const kernels::DecoderPlan& plan = planned.plan;
        const kernels::Emitter emit = planned.emitter(0);
        const Buffer last{plan.csram.last, plan.model.hidden / 32, plan.model.head_activations};
        std::set<std::int64_t> wanted;
        for (std::int64_t row = batch; batch > 32 && row < (batch + 31) / 32 * 32; ++row) {
            last.add_row(row, wanted);
        }
        CHECK(cleared(plan, kernels::clear_last_rows(emit, plan), emit.all_csram(0)) == wanted);
    }
    Planned step(models::build_graph(small_model(1), decode(40, 40)), chip("toy"));
    CHECK(kernels::clear_last_rows(step.emitter(0), step.plan).empty());
}

}  // namespace
}  // namespace sluice::test
