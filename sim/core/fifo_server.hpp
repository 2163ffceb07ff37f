// SPDX-License-Identifier: Apache-2.0
#pragma once
// A port, link or bus: first in, first out, `width` bytes per cycle. It never ticks; its only state is the byte slot at
// which it is free.
//
// Slot s of cycle c is number c * width + s, so that a packet that ends in mid-cycle leaves the rest of the cycle to
// the next one and no capacity is lost to rounding. A packet crosses without gaps once it has started; it is *ready* at
// the first cycle from which its bytes, still arriving over a narrower resource, cannot run out:
//     ready = max(head, tail - ceil(bytes / width))
// where head is the cycle in which its first byte is there and tail the cycle after that of its last one. Packets must
// be offered in the order of their ready cycles. Equal, cycle for cycle, to moving bytes one cycle after the other:
// tests/sim/fifo_server_test.cpp.
#include <bit>
#include <cstdint>
#include <string>

#include "isa/units.hpp"

namespace sluice::sim {

/// Cycles [head, tail) in which a packet's bytes cross.
struct Crossing {
    Cycle head = 0;
    Cycle tail = 0;
};

class FifoServer {
public:
    FifoServer() = default;
    FifoServer(std::string path, std::int64_t width)
        : width_(static_cast<std::uint64_t>(width)), path_(std::move(path)) {
        if (std::has_single_bit(width_)) {
            shift_ = std::countr_zero(width_);
        }
    }

    Crossing reserve(Cycle ready, std::uint64_t bytes) {
        const std::uint64_t from = ready * width_;
        const std::uint64_t start = from > free_ ? from : free_;
        waited_ += start - from;
        free_ = start + bytes;
        bytes_ += bytes;
        ++packets_;
        return {floor_cycle(start), ceil_cycle(free_)};
    }

    /// What it leads to or comes from stands still for so many cycles, and so does the rest of the last packet.
    void hold(Cycle cycles) { free_ += cycles * width_; }

    /// The cycle in which the next packet could start.
    [[nodiscard]] Cycle free_cycle() const { return floor_cycle(free_); }
    /// Cycles that `bytes` need at full width.
    [[nodiscard]] Cycle cycles(std::uint64_t bytes) const { return ceil_cycle(bytes); }

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::uint64_t width() const { return width_; }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::uint64_t packets() const { return packets_; }
    /// Cycles, over all packets, from being ready to the start.
    [[nodiscard]] double waited_cycles() const { return static_cast<double>(waited_) / static_cast<double>(width_); }

private:
    [[nodiscard]] Cycle floor_cycle(std::uint64_t slot) const { return shift_ >= 0 ? slot >> shift_ : slot / width_; }
    [[nodiscard]] Cycle ceil_cycle(std::uint64_t slot) const { return floor_cycle(slot + width_ - 1); }

    // What every packet touches stands first, in one cache line.
    std::uint64_t free_ = 0;
    std::uint64_t width_ = 1;
    std::uint64_t bytes_ = 0;
    std::uint64_t packets_ = 0;
    std::uint64_t waited_ = 0;  ///< slots
    int shift_ = -1;
    std::string path_;
};

}  // namespace sluice::sim
