// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes of the HBM system that follow from the spec, and the address map.
//
// The map, from an address: beat within the granule; then the *stripe position* (address / granule mod pseudo-channels)
// and the *stripe number*. A stripe puts one granule on every pseudo-channel of the chip, rotated by a hash of the
// stripe number so that no power-of-two stride stays on one of them. Within a pseudo-channel, stripes fill a row set
// (the same row of one bank in each bank group of one rank: 4 granules of 1 KiB), then the next set, rotated by a hash
// of the row, then the next row. One-to-one for any counts, powers of two or not. Hardware would fold with XOR gates;
// any rotation that depends on the stripe alone keeps the property.
#include <cstdint>

#include "isa/chip_spec.hpp"
#include "sim/core/transfer.hpp"

namespace sluice::sim {

struct HbmGeometry {
    explicit HbmGeometry(const isa::HbmSpec& spec);

    std::uint64_t pseudo_channels = 0;  ///< on the chip
    std::uint64_t pseudo_channels_per_stack = 0;
    std::uint64_t groups = 0;  ///< bank groups
    std::uint64_t sets = 0;    ///< bank sets of a pseudo-channel: banks per group x ranks
    std::uint64_t sets_per_rank = 0;
    std::uint64_t rows = 0;
    std::uint64_t granule_bytes = 0;
    std::uint64_t beat_bytes = 0;
    std::uint64_t granules_per_row = 0;  ///< granules that share a row set
    std::uint64_t bytes = 0;             ///< of the chip
};

class HbmAddressMap {
public:
    explicit HbmAddressMap(const isa::HbmSpec& spec) : geometry_(spec) {}

    [[nodiscard]] const HbmGeometry& geometry() const { return geometry_; }

    /// `bytes` must not cross a granule.
    [[nodiscard]] HbmPlace decode(std::uint64_t address, std::uint32_t bytes) const;

    /// The granule's number within its row set, for the proof that the map is one-to-one.
    [[nodiscard]] std::uint64_t slot_in_row(std::uint64_t address) const;

private:
    HbmGeometry geometry_;
};

}  // namespace sluice::sim
