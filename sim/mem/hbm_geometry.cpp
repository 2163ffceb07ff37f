// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/hbm_geometry.hpp"

#include <fmt/format.h>

#include "isa/errors.hpp"

namespace sluice::sim {

namespace {

std::uint64_t positive(std::int64_t value, const char* key) {
    if (value <= 0) {
        throw InputError(fmt::format("chip.hbm.{}", key), fmt::format("is {}, must be positive", value));
    }
    return static_cast<std::uint64_t>(value);
}

/// Fibonacci hashing: the high bits of a multiple of 2^64 / golden ratio are spread evenly for any stride.
std::uint64_t mix(std::uint64_t value) {
    return (value * 0x9e3779b97f4a7c15ULL) >> 33;
}

}  // namespace

HbmGeometry::HbmGeometry(const isa::HbmSpec& spec)
    : pseudo_channels_per_stack(positive(spec.channels_per_stack, "channels_per_stack") *
                                positive(spec.pseudo_channels, "pseudo_channels")),
      groups(positive(spec.bank_groups, "bank_groups")),
      sets_per_rank(positive(spec.banks_per_group, "banks_per_group")),
      rows(positive(spec.rows, "rows")),
      granule_bytes(positive(spec.granule_bytes, "granule_bytes")),
      beat_bytes(positive(spec.burst_bytes, "burst_bytes")) {
    pseudo_channels = positive(spec.stacks, "stacks") * pseudo_channels_per_stack;
    sets = sets_per_rank * positive(spec.ranks, "ranks");
    const std::uint64_t row_set_bytes = groups * positive(spec.row_bytes, "row_bytes");
    if (granule_bytes % (groups * beat_bytes) != 0 || row_set_bytes % granule_bytes != 0) {
        throw InputError("chip.hbm.granule_bytes",
                         fmt::format("{} must be whole bursts in each of {} bank groups and divide {} rows of {} bytes",
                                     granule_bytes, groups, groups, spec.row_bytes));
    }
    if (groups > 8 || sets > 64 || granule_bytes / beat_bytes > 255 || pseudo_channels > 65535) {
        throw InputError("chip.hbm",
                         "at most 8 bank groups, 64 banks per group over all ranks, 255 bursts per granule "
                         "and 65535 pseudo-channels are modelled");
    }
    granules_per_row = row_set_bytes / granule_bytes;
    bytes = pseudo_channels * sets * rows * row_set_bytes;
}

HbmPlace HbmAddressMap::decode(std::uint64_t address, std::uint32_t bytes) const {
    const HbmGeometry& g = geometry_;
    const std::uint64_t granule = address / g.granule_bytes;
    const std::uint64_t in_granule = address % g.granule_bytes;
    const std::uint64_t stripe = granule / g.pseudo_channels;
    const std::uint64_t position = granule % g.pseudo_channels;
    const std::uint64_t row_set = stripe / g.granules_per_row;
    const std::uint64_t row = row_set / g.sets;
    HbmPlace place;
    // Neighbouring positions lie in different stacks, so that a short run already uses every stack port.
    const std::uint64_t rotated = (position + mix(stripe)) % g.pseudo_channels;
    const std::uint64_t stacks = g.pseudo_channels / g.pseudo_channels_per_stack;
    place.stack = static_cast<std::uint8_t>(rotated % stacks);
    place.pseudo_channel = static_cast<std::uint16_t>(place.stack * g.pseudo_channels_per_stack + rotated / stacks);
    place.set = static_cast<std::uint8_t>((row_set % g.sets + mix(row)) % g.sets);
    place.row = static_cast<std::uint32_t>(row);
    place.first_beat = static_cast<std::uint8_t>(in_granule / g.beat_bytes);
    place.beats = static_cast<std::uint8_t>((in_granule + bytes + g.beat_bytes - 1) / g.beat_bytes - place.first_beat);
    return place;
}

std::uint64_t HbmAddressMap::slot_in_row(std::uint64_t address) const {
    return address / geometry_.granule_bytes / geometry_.pseudo_channels % geometry_.granules_per_row;
}

}  // namespace sluice::sim
