// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where bytes lie in HBM: the address map of a chip (isa/memory_spec.hpp), compiled. One-to-one, as its reader checked.
#include <array>
#include <cstdint>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/core/transfer.hpp"

namespace sluice::sim {

class AddressMap {
public:
    explicit AddressMap(const isa::HbmSpec& spec);

    /// `bytes` must not cross a granule.
    [[nodiscard]] HbmPlace decode(std::uint64_t address, std::uint32_t bytes) const;

    using Fields = std::array<std::uint32_t, isa::kAddressFields>;
    /// All fields of the burst at `address`.
    [[nodiscard]] Fields fields(std::uint64_t address) const;

    [[nodiscard]] std::uint64_t granule_bytes() const { return granule_bytes_; }
    [[nodiscard]] std::uint32_t interleave() const { return interleave_; }

private:
    struct Digit {
        isa::AddressField field;
        std::uint32_t radix;
        std::uint32_t weight;  ///< in its field
        int shift;             ///< log2 of the radix, or -1
    };

    [[nodiscard]] Fields digits_of(std::uint64_t burst) const;
    void hash(Fields& fields) const;
    [[nodiscard]] static std::uint32_t field(const Fields& fields, isa::AddressField f) {
        return fields[static_cast<std::size_t>(f)];
    }

    std::uint64_t granule_bytes_;
    std::uint32_t burst_bytes_, interleave_, channels_per_stack_, pseudo_channels_, banks_per_group_;
    std::array<std::uint32_t, isa::kAddressFields> range_{};
    std::vector<Digit> digits_;
    std::vector<isa::AddressHash> hashes_;
};

}  // namespace sluice::sim
