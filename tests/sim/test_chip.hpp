// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chips and programs for the simulator's tests, built in code. The values are those of the shipped maia200 table.
#include <utility>

#include "isa/chip_spec.hpp"
#include "isa/program.hpp"

namespace sluice::test {

inline isa::HbmTimingSpec hbm3e_timing() {
    isa::HbmTimingSpec t;
    t.ncl = 29, t.ncwl = 15, t.nrcdrd = 45, t.nrcdwr = 22, t.nrp = 38, t.nras = 65, t.nrc = 103, t.nrtp = 13,
    t.nwr = 47;
    t.nccds = 2, t.nccdl = 4, t.nccdr = 3, t.nrrds = 6, t.nrrdl = 8, t.nfaw = 35, t.nwtrs = 10, t.nwtrl = 15,
    t.nrtw = 29;
    t.nrfc = 798, t.nrfcpb = 456, t.nrrefd = 19, t.nrefi = 8887;
    return t;
}

inline isa::HbmSpec hbm3e(std::int64_t stacks) {
    isa::HbmSpec hbm;
    hbm.stacks = stacks, hbm.channels_per_stack = 16, hbm.pseudo_channels = 2;
    hbm.bank_groups = 4, hbm.banks_per_group = 4, hbm.ranks = 3, hbm.rows = 24576, hbm.row_bytes = 1024;
    hbm.burst_bytes = 32, hbm.granule_bytes = 1024, hbm.pseudo_channel_bits = 32;
    hbm.bits_per_second_per_pin = 9'115'000'000;
    hbm.controller_picoseconds = 10'000, hbm.phy_picoseconds = 18'000;
    hbm.window_packets = 16, hbm.refresh = "per_bank", hbm.timing = hbm3e_timing();
    return hbm;
}

inline isa::ChipSpec maia200() {
    isa::ChipSpec chip;
    chip.name = "maia200";
    chip.soc = {4, 10, 9, 0};
    chip.clock = {2'000'000'000};
    chip.ttu = {2, 64, 32, 32, 8, 1088, 1024, 24, 8};
    chip.tvp = {2, 256, 128, 3, 4, 12, 2, 512};
    chip.reshaper = {512, 256, 128, 16};
    chip.tsram = {3145728, 32, 128, 1048576, 6};
    chip.csram = {36700160, 64, 64, 2048, 24};
    chip.tdma = {4, 128, 98304, 16};
    chip.cdma = {8, 1024, 655360, 24};
    chip.control = {8, 16, 2, 2, 8};
    chip.semaphores = {64, 128, 256, 16, 4, 24, 80};
    chip.noc = {1024, 128, 128, 1024, 3, 1, 4};
    chip.gnoc = {1024, 640, 384, 32, 15, 4000};
    chip.hbm = hbm3e(6);
    chip.network = {28, 400'000'000'000, 64'000'000'000};
    return chip;
}

/// One cluster of two tiles on one stack.
inline isa::ChipSpec toy() {
    isa::ChipSpec chip = maia200();
    chip.name = "toy";
    chip.soc = {1, 2, 2, 0};
    chip.hbm.stacks = 1;
    chip.network.anc_count = 1;
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
