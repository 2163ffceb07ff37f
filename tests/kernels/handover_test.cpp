// SPDX-License-Identifier: Apache-2.0
// Can a tile that runs ahead free a slot that a slower tile still reads? One tile is held back until the cluster has
// multicast a given number of chunks: as many as the ring has slots must be possible, one more must not.
#include <algorithm>
#include <catch2/catch.hpp>

#include "isa/chip_spec_reader.hpp"
#include "isa/errors.hpp"
#include "isa/verifier.hpp"
#include "kernels/compile.hpp"
#include "kernels/layout.hpp"
#include "models/decoder_graph.hpp"
#include "sim/run.hpp"

using namespace sluice;

namespace {

constexpr int kProbe = 40;  // a tile semaphore that compiled programs leave alone
static_assert(kProbe >= kernels::tile_sem::count);

const isa::ChipSpec& toy() {
    static const isa::ChipSpec chip = isa::read_chip("toy", {}, std::string(SLUICE_SOURCE_DIR) + "/configs").spec;
    return chip;
}

/// Every multicast also counts up the probe of tile 0.
void count_multicasts(isa::Block& block) {
    for (isa::Statement& statement : block) {
        if (auto* instruction = std::get_if<isa::Instruction>(&statement.body)) {
            if (instruction->label == "multicast activations" && !instruction->signals.empty()) {
                instruction->signals.push_back({{isa::Level::tile, 0, 0, kProbe}, 1});
            }
        } else if (auto* loop = std::get_if<isa::Loop>(&statement.body)) {
            count_multicasts(*loop->body);
        } else if (auto* branch = std::get_if<isa::If>(&statement.body)) {
            count_multicasts(*branch->then_body);
            count_multicasts(*branch->else_body);
        }
    }
}

std::int64_t activation_slots(const isa::Program& program) {
    return std::count_if(program.semaphores.begin(), program.semaphores.end(), [](const isa::SemInit& init) {
        return init.sem.level == isa::Level::cluster && init.sem.index >= kernels::cluster_sem::a_free;
    });
}

/// The product with tile 0's tensor unit waiting until all slots and `beyond_ring` more chunks have come; tile 1 has no
/// columns and never waits for anything but them.
isa::Program held_back(std::int64_t beyond_ring) {
    const models::Graph graph =
        models::build_gemm(64, 32, 65'536, isa::Format::mxfp8, isa::Format::mxfp8, isa::Format::bf16);
    isa::Program program = kernels::compile(graph, toy()).program;
    isa::verify(program, toy());  // as it is; the probe goes on counting, which no program of its own right does
    isa::Instruction hold;
    hold.queue = {isa::Engine::ttu, 0};
    hold.waits = {{{isa::Level::tile, 0, 0, kProbe}, activation_slots(program) + beyond_ring}};
    hold.label = "held back";
    const isa::Affine is_tile_0 = isa::variable(isa::Var::self, -1);
    isa::If only_tile_0{is_tile_0, std::make_shared<isa::Block>(isa::Block{{hold}}), std::make_shared<isa::Block>()};
    for (isa::ControlProgram& control : program.controls) {
        if (control.level == isa::Level::tile) {
            control.body.insert(control.body.begin(), {only_tile_0});
        } else if (control.level == isa::Level::cluster) {
            count_multicasts(control.body);
        }
    }
    return program;
}

}  // namespace

TEST_CASE("a slow tile gets as many chunks ahead as the activation ring has slots") {
    CHECK(sim::run(toy(), held_back(0)).cycles > 0);
}

TEST_CASE("and not one more, however fast the other tiles are") {
    CHECK_THROWS_AS(sim::run(toy(), held_back(1)), DeadlockError);
}
