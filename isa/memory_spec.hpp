// SPDX-License-Identifier: Apache-2.0
#pragma once
// A DRAM's timing standard and its address map, as data. Read from configs/memories/*.json and
// configs/address_maps/*.json by memory_reader.hpp; sim/mem/README.md says what a controller does with them.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::isa {

enum class DramCommand : std::uint8_t { activate, precharge, precharge_all, read, write, refresh_bank, refresh_all };
constexpr std::size_t kDramCommands = 7;
/// "ACT", "PRE", "PREA", "RD", "WR", "REFpb", "REFab".
[[nodiscard]] const char* name(DramCommand command);

/// A bank group belongs to a rank, a rank to a pseudo-channel.
enum class DramLevel : std::uint8_t { pseudo_channel, rank, bank_group, bank };
constexpr std::size_t kDramLevels = 4;

/// A command `to` comes at least `gap` CK after the `count`-th last command `from` in the same part of the given level;
/// with `others`, in the other parts of that level under the same parent.
struct DramConstraint {
    DramLevel level = DramLevel::bank;
    DramCommand from = DramCommand::activate;
    DramCommand to = DramCommand::activate;
    std::int64_t gap = 0;  ///< CK
    std::int64_t count = 1;
    bool others = false;
};

struct DramRules {
    std::vector<DramConstraint> constraints;
    /// What a row command occupies of the row command bus; zero for column commands, which have a bus of their own.
    std::array<std::int64_t, kDramCommands> row_bus_half_clocks{};
};

enum class AddressField : std::uint8_t { group, column, pseudo_channel, channel, stack, bank, rank, row };
constexpr std::size_t kAddressFields = 8;
[[nodiscard]] const char* name(AddressField field);

/// A digit of an address in mixed radix, counted from the lowest; several digits of one field make it up, lowest first.
struct AddressDigit {
    AddressField field = AddressField::row;
    std::uint64_t radix = 1;
};

/// Bits low..high of a field's value, shifted up.
struct AddressBits {
    AddressField field = AddressField::row;
    unsigned low = 0, high = 0, shift = 0;
};

/// target ^= the sources' values, or target = (target + them) mod its range. Reversible, as no source is the target.
struct AddressHash {
    AddressField target = AddressField::channel;
    bool add = false;  ///< else XOR, of a range that is a power of two
    std::vector<AddressBits> sources;
};

struct AddressMapSpec {
    std::vector<AddressDigit> digits;  ///< of the burst's number (address / burst bytes)
    std::vector<AddressHash> hashes;   ///< one after the other
};

}  // namespace sluice::isa
