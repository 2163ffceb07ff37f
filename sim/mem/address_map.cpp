// SPDX-License-Identifier: Apache-2.0
#include "sim/mem/address_map.hpp"

#include <bit>

#include "isa/memory_reader.hpp"

namespace sluice::sim {

using isa::AddressField;

namespace {

std::uint32_t narrow(std::int64_t value) {
    return static_cast<std::uint32_t>(value);
}

}  // namespace

AddressMap::AddressMap(const isa::HbmSpec& spec)
    : granule_bytes_(static_cast<std::uint64_t>(spec.granule_bytes)),
      burst_bytes_(narrow(spec.burst_bytes)),
      interleave_(isa::interleave(spec.map)),
      channels_per_stack_(narrow(spec.channels_per_stack)),
      pseudo_channels_(narrow(spec.pseudo_channels)),
      banks_per_group_(narrow(spec.banks_per_group)),
      hashes_(spec.map.hashes) {
    std::array<std::uint32_t, isa::kAddressFields> weight{};
    weight.fill(1);
    for (std::size_t f = 0; f < isa::kAddressFields; ++f) {
        range_[f] = static_cast<std::uint32_t>(isa::field_range(spec, static_cast<AddressField>(f)));
    }
    for (const isa::AddressDigit& digit : spec.map.digits) {
        std::uint32_t& own = weight[static_cast<std::size_t>(digit.field)];
        const auto radix = static_cast<std::uint32_t>(digit.radix);
        if (radix > 1) {
            digits_.push_back({digit.field, radix, own, std::has_single_bit(radix) ? std::countr_zero(radix) : -1});
        }
        own *= radix;
    }
}

// Addresses are below 2^40 and bursts at least 32 B, so that numbers of bursts fit 35 bits, and those of granules,
// after the first digits, 32.
AddressMap::Fields AddressMap::digits_of(std::uint64_t burst) const {
    Fields fields{};
    for (const Digit& digit : digits_) {
        std::uint32_t value = 0;
        if (digit.shift >= 0) {
            value = static_cast<std::uint32_t>(burst) & (digit.radix - 1);
            burst >>= digit.shift;
        } else if (burst <= ~std::uint32_t{0}) {
            const auto small = static_cast<std::uint32_t>(burst);
            burst = small / digit.radix;
            value = small % digit.radix;
        } else {
            value = static_cast<std::uint32_t>(burst % digit.radix);
            burst /= digit.radix;
        }
        fields[static_cast<std::size_t>(digit.field)] += value * digit.weight;
    }
    return fields;
}

void AddressMap::hash(Fields& fields) const {
    for (const isa::AddressHash& step : hashes_) {
        const std::uint32_t range = range_[static_cast<std::size_t>(step.target)];
        std::uint32_t& target = fields[static_cast<std::size_t>(step.target)];
        std::uint64_t mixed = 0;  // what is added must not overflow, for the range may be no power of two
        for (const isa::AddressBits& bits : step.sources) {
            const std::uint32_t mask = (2U << (bits.high - bits.low)) - 1U;
            const std::uint64_t value = std::uint64_t{field(fields, bits.field) >> bits.low & mask} << bits.shift;
            mixed = step.add ? mixed + value : mixed ^ value;
        }
        target = static_cast<std::uint32_t>(step.add ? (target + mixed) % range : target ^ (mixed & (range - 1)));
    }
}

AddressMap::Fields AddressMap::fields(std::uint64_t address) const {
    Fields fields = digits_of(address / burst_bytes_);
    hash(fields);
    return fields;
}

HbmPlace AddressMap::decode(std::uint64_t address, std::uint32_t bytes) const {
    const Fields at = fields(address);
    const std::uint64_t in_granule = address % granule_bytes_;
    const std::uint32_t group = field(at, AddressField::group);
    HbmPlace place;
    place.row = field(at, AddressField::row);
    place.stack = static_cast<std::uint8_t>(field(at, AddressField::stack));
    place.pseudo_channel = static_cast<std::uint16_t>(
        (place.stack * channels_per_stack_ + field(at, AddressField::channel)) * pseudo_channels_ +
        field(at, AddressField::pseudo_channel));
    place.set =
        static_cast<std::uint8_t>(field(at, AddressField::rank) * banks_per_group_ + field(at, AddressField::bank));
    place.base_group = static_cast<std::uint8_t>(group - group % interleave_);
    place.first_beat = static_cast<std::uint8_t>(in_granule / burst_bytes_);
    place.beats = static_cast<std::uint8_t>((in_granule + bytes + burst_bytes_ - 1) / burst_bytes_ - place.first_beat);
    return place;
}

}  // namespace sluice::sim
