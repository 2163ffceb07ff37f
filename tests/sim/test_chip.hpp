// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chips for the simulator's tests, the shipped maia200 and variants of it, and programs built in code.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "isa/chip_spec.hpp"
#include "isa/chip_spec_reader.hpp"
#include "isa/program.hpp"

namespace sluice::test {

/// A shipped chip with overrides. What depends on several fields (the address map, the table of constraints) is right
/// only if they are all set here.
inline isa::ChipSpec shipped_chip(const std::string& name, const std::vector<std::string>& sets = {}) {
    return isa::read_chip(name, sets).spec;
}

inline isa::ChipSpec maia200(const std::vector<std::string>& sets = {}) {
    return shipped_chip("maia200", sets);
}

/// One cluster of two tiles on one stack.
inline isa::ChipSpec toy() {
    isa::ChipSpec chip = maia200({"soc.clusters=1", "soc.tiles_per_cluster_physical=2", "soc.tiles_per_cluster=2",
                                  "hbm.stacks=1", "network.anc_count=1"});
    chip.name = "toy";
    return chip;
}

// ---- programs -------------------------------------------------------------------------------------------------------

inline isa::Affine of(isa::Var var, std::int64_t stride = 1, std::int64_t base = 0) {
    return {base, {{var, stride}}};
}

inline isa::MemRef hbm_at(isa::Affine offset) {
    return {isa::Space::hbm, 0, 0, std::move(offset)};
}
inline isa::MemRef csram_at(isa::Affine cluster, isa::Affine offset, std::uint64_t mask = 0) {
    return {isa::Space::csram, std::move(cluster), mask, std::move(offset)};
}
inline isa::MemRef tsram_at(isa::Affine tile, isa::Affine offset, std::uint64_t mask = 0) {
    return {isa::Space::tsram, std::move(tile), mask, std::move(offset)};
}
inline isa::MemRef own_tsram(isa::Affine offset) {
    return tsram_at(of(isa::Var::self), std::move(offset));
}

inline isa::SemUse tile_sem(isa::Affine tile, std::int64_t index, isa::Affine count = 1, std::uint64_t mask = 0) {
    return {{isa::Level::tile, std::move(tile), mask, index}, std::move(count)};
}
inline isa::SemUse own_sem(std::int64_t index, isa::Affine count = 1) {
    return tile_sem(of(isa::Var::self), index, std::move(count));
}

inline isa::DmaMacro copy(isa::MemRef src, isa::MemRef dst, isa::Affine bytes) {
    isa::DmaMacro macro;
    macro.src = std::move(src);
    macro.dst = std::move(dst);
    macro.run_bytes = std::move(bytes);
    return macro;
}

inline isa::Statement instruction(isa::QueueId queue, isa::Macro macro, std::string label = {},
                                  std::vector<isa::SemUse> waits = {}, std::vector<isa::SemUse> signals = {},
                                  isa::Affine node = 0) {
    return {isa::Instruction{queue, std::move(waits), std::move(macro), std::move(signals), std::move(node),
                             std::move(label)}};
}
inline isa::Statement loop(isa::Affine count, isa::Block body) {
    return {isa::Loop{std::move(count), std::make_shared<isa::Block>(std::move(body))}};
}
inline isa::QueueId tdma(std::uint8_t channel = 0) {
    return {isa::Engine::tdma, channel};
}
inline isa::QueueId cdma(std::uint8_t channel = 0) {
    return {isa::Engine::cdma, channel};
}

inline isa::ControlProgram control(isa::Level level, std::int64_t first, std::int64_t count, isa::Block body,
                                   std::string name = "main") {
    isa::ControlProgram program;
    program.name = std::move(name);
    program.level = level;
    program.first = first;
    program.count = count;
    program.body = std::move(body);
    return program;
}

inline isa::Program program(std::vector<isa::ControlProgram> controls) {
    isa::Program result;
    result.name = "test";
    result.controls = std::move(controls);
    return result;
}

/// Every tile streams `bytes` of its own region of HBM into its TSRAM, in descriptors of `chunk` bytes on `channels`.
inline isa::Program tiles_stream(const isa::ChipSpec& chip, std::int64_t bytes, std::int64_t chunk,
                                 std::int64_t channels = 2) {
    const std::int64_t tiles = isa::tile_count(chip);
    isa::Block body;
    for (std::int64_t c = 0; c < channels; ++c) {
        isa::Affine from(c * chunk, {{isa::Var::self, bytes}, {isa::Var::i0, channels * chunk}});
        body.push_back(
            instruction(tdma(static_cast<std::uint8_t>(c)), copy(hbm_at(from), own_tsram(c * chunk), chunk)));
    }
    return program({control(isa::Level::tile, 0, tiles, {loop(bytes / (channels * chunk), body)})});
}

/// Every cluster's DMA streams a share of one region into its CSRAM.
inline isa::Program clusters_stream(const isa::ChipSpec& chip, std::int64_t bytes, std::int64_t chunk,
                                    std::int64_t channels = 4) {
    const std::int64_t clusters = chip.soc.clusters;
    isa::Block body;
    for (std::int64_t c = 0; c < channels; ++c) {
        isa::Affine from(c * chunk,
                         {{isa::Var::cluster, channels * chunk}, {isa::Var::i0, clusters * channels * chunk}});
        body.push_back(instruction(cdma(static_cast<std::uint8_t>(c)),
                                   copy(hbm_at(from), csram_at(of(isa::Var::cluster), c * chunk), chunk)));
    }
    return program({control(isa::Level::cluster, 0, clusters, {loop(bytes / (clusters * channels * chunk), body)})});
}

}  // namespace sluice::test
