// SPDX-License-Identifier: Apache-2.0
// Are derived figures the formulas that the documentation states, and are impossible ones refused?
#include "tools/figures.hpp"

#include <catch2/catch.hpp>

#include "isa/chip_spec_reader.hpp"
#include "isa/errors.hpp"

using namespace sluice;

namespace {

/// Two operators of two layers each on the toy chip (2 GHz, 72.92 B a cycle): a run of 10,000 cycles.
struct Case {
    isa::ChipSpec chip = isa::read_chip("toy").spec;
    isa::EnergyTable energy = isa::read_energy_table("maia200");
    isa::Program program;
    std::vector<kernels::PlanNode> plan;
    sim::RunResult result;

    Case() {
        program.nodes = {{0, 2, 2, 0, "layers.{}.qkv"}, {1, 2, 2, 0, "layers.{}.attention"}};
        result.cycles = 10'000;
        result.seconds = 5e-6;
        result.hbm_read = 300'000;
        result.hbm_written = 60'000;
        result.power_interval_cycles = 4'000;
        result.intervals.resize(3);
        result.critical_path = {{"hbm", 9'000}, {"ttu", 1'000}};
        result.engines = {{"chip.cluster0.tile0.ttu0", 6'000, {1'000, 0, 0, 0, 0, 0, 0}, 3'000, 10'000},
                          {"chip.cluster0.tile0.ttu1", 0, {0, 0, 0, 0, 0, 0, 0}, 10'000, 10'000},
                          {"chip.cluster0.cdma.ch3", 500, {0, 9'500, 0, 0, 0, 0, 0}, 0, 10'000}};
        for (int layer = 0; layer < 2; ++layer) {
            add(layer, "qkv", isa::TensorRate::fp8, 2e8, static_cast<Cycle>(layer) * 5'000, 3'000);
            add(layer, "attention", isa::TensorRate::bf16, 1e7, static_cast<Cycle>(layer) * 5'000 + 2'000, 3'000);
        }
    }

    void add(int layer, const std::string& name, isa::TensorRate rate, double flops, Cycle start, Cycle length) {
        kernels::PlanNode node;
        node.name = "layers." + std::to_string(layer) + "." + name;
        node.kind = "gemm";
        node.layer = layer;
        node.rate = rate;
        node.flops = node.tensor_flops = flops;
        node.hbm_bytes = 72'920;
        node.ttu_cycles = flops / isa::peak_flops(chip, rate) * 2e9;
        node.hbm_cycles = 1'000;
        plan.push_back(node);
        sim::NodeAccount account;
        account.instructions = 10;
        account.first_fetch = start == 0 ? 0 : start - 1'000;
        account.start = start;
        account.end = start + length;
        account.hbm_read = 80'000;
        account.energy[static_cast<std::size_t>(sim::EnergyEvent::mac_fp8)] = 1'000'000;
        result.nodes.push_back(account);
    }

    [[nodiscard]] tools::Figures figures(double tokens = 0) const {
        return tools::make_figures(chip, energy, program, plan, tokens, result);
    }
};

}  // namespace

TEST_CASE("the summary is formulas of counts") {
    const tools::Summary summary = Case().figures(8).summary;
    CHECK(*summary.flops == 4.2e8);
    CHECK(*summary.tflops == Approx(4.2e8 / 5e-6 / 1e12));
    // FP8 does most flops; each operator counts against the peak of its own format.
    CHECK(summary.peak_rate == "fp8");
    CHECK(*summary.peak_tflops == Approx(262.144));
    CHECK(*summary.utilization == Approx((4e8 / 262.144e12 + 2e7 / 65.536e12) / 5e-6));
    CHECK(summary.hbm_bytes == 360'000);
    CHECK(summary.hbm_utilization == Approx(360'000 / 72.92 / 10'000));
    CHECK(*summary.tokens_per_second == Approx(8 / 5e-6));
    CHECK(*summary.joules_per_token == Approx(summary.energy_j / 8));
    CHECK(summary.bounds.hbm_cycles == Approx(4'000));
    CHECK(std::string(summary.bounds.binding()) == "hbm");
    CHECK(*summary.bound_fraction == Approx(0.4));
}

TEST_CASE("a group spans the union of its operators") {
    const tools::Figures figures = Case().figures();
    REQUIRE(figures.groups.size() == 2);
    const tools::GroupFigures& qkv = figures.groups[0];
    CHECK(qkv.name == "qkv");
    CHECK(qkv.count == 2);
    CHECK(qkv.cycles == 7'000);  // 0..3,000 and 4,000..8,000
    CHECK(qkv.tflops == Approx(4e8 / 3.5e-6 / 1e12));
    CHECK(qkv.hbm_tbps == Approx(160'000 / 3.5e-6 / 1e12));
    CHECK(figures.operators[3].group == "attention");

    Case overlapping;
    overlapping.result.nodes[2].first_fetch = 500;  // the second qkv begins within the first
    CHECK(overlapping.figures().groups[0].cycles == 8'000);
}

TEST_CASE("engines are summed by kind, channels included") {
    const tools::Figures figures = Case().figures();
    REQUIRE(figures.engines.size() == 2);
    CHECK(figures.engines[0].kind == "ttu");
    CHECK(figures.engines[0].lanes == 2);
    CHECK(figures.engines[0].busy == 6'000);
    CHECK(figures.engines[0].total == 20'000);
    CHECK(figures.engines[1].kind == "cdma");
    CHECK(figures.engines[1].waiting[static_cast<std::size_t>(sim::WaitKind::memory)] == 9'500);
}

TEST_CASE("power is energy over the length of each interval, with static power") {
    Case c;
    const auto mac = static_cast<std::size_t>(sim::EnergyEvent::mac_fp8);
    c.result.intervals[0][mac] = 4'000'000'000;
    c.result.intervals[2][mac] = 6'000'000'000;
    c.result.energy[mac] = 10'000'000'000;
    const tools::Figures figures = c.figures();
    const double joules = isa::event_picojoules(c.energy, "mac_fp8", c.chip) * 1e-12;
    double idle = 0;
    for (const auto& [row, watts] : isa::static_watts(c.energy, c.chip)) {
        idle += watts;
    }
    REQUIRE(figures.watts.size() == 3);
    CHECK(figures.watts[0] == Approx(idle + 4e9 * joules / 2e-6));
    CHECK(figures.watts[1] == Approx(idle));
    CHECK(figures.watts[2] == Approx(idle + 6e9 * joules / 1e-6));    // 2,000 cycles
    CHECK(figures.summary.peak_power_w == Approx(figures.watts[0]));  // the short one does not count
    CHECK(figures.component_j.at("ttu") == Approx(1e10 * joules));
    CHECK(figures.static_j == Approx(idle * 5e-6));
    CHECK(figures.summary.energy_j == Approx(1e10 * joules + idle * 5e-6));
}

TEST_CASE("figures that cannot be are our bug") {
    Case fast_memory;
    fast_memory.result.hbm_read = 800'000;  // 80 B a cycle
    CHECK_THROWS_AS(fast_memory.figures(), InvariantError);

    Case above_roof;
    above_roof.plan[0].hbm_cycles = 8'000;
    CHECK_THROWS_AS(above_roof.figures(), InvariantError);

    Case fast_operator;
    fast_operator.result.nodes[0].end = 1'000;
    CHECK_THROWS_AS(fast_operator.figures(), InvariantError);

    Case fast_fetch;  // 3,000 cycles of compute, 4,000 with what was fetched ahead
    fast_fetch.plan[2].hbm_cycles = 3'500;
    CHECK(fast_fetch.figures().operators[2].tflops < fast_fetch.figures().operators[2].roof_tflops);
    fast_fetch.result.nodes[2].first_fetch = 5'000;
    CHECK_THROWS_AS(fast_fetch.figures(), InvariantError);

    Case lost_cycle;
    --lost_cycle.result.engines[0].busy;
    CHECK_THROWS_AS(lost_cycle.figures(), InvariantError);

    Case short_path;
    --short_path.result.critical_path[0].cycles;
    CHECK_THROWS_AS(short_path.figures(), InvariantError);
}

TEST_CASE("without a plan there are no flops and no roof") {
    Case c;
    c.plan.clear();
    const tools::Figures figures = c.figures();
    CHECK_FALSE(figures.summary.flops);
    CHECK_FALSE(figures.summary.utilization);
    CHECK_FALSE(figures.summary.bound_fraction);
    CHECK(figures.operators.size() == 4);
    CHECK(figures.operators[1].name == "layers.0.attention");
    CHECK(figures.groups[0].name == "qkv");
}
