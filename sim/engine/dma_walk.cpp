// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/dma_walk.hpp"

#include <algorithm>

namespace sluice::sim {

void DmaWalk::start(const Shape& shape) {
    shape_ = shape;
    at_[0] = at_[1] = 0;
    position_ = 0;
    length_ = static_cast<std::uint64_t>(std::max<std::int64_t>(shape.run_bytes, 0));
    if (!shape.cut_src) {
        length_ = length_ * static_cast<std::uint64_t>(shape.dst_bits) / static_cast<std::uint64_t>(shape.src_bits);
    }
    done_ = length_ == 0 || shape.counts[0] <= 0 || shape.counts[1] <= 0;
    if (!done_) {
        cut();
    }
}

void DmaWalk::cut() {
    const auto offset = [&](std::uint64_t base, const std::int64_t* strides) {
        return base + static_cast<std::uint64_t>(at_[0] * strides[0] + at_[1] * strides[1]);
    };
    const std::uint64_t src = offset(shape_.src_offset, shape_.src_strides);
    const std::uint64_t dst = offset(shape_.dst_offset, shape_.dst_strides);
    // What is left of the run, up to the end of the granule on each side that is cut.
    step_ = length_ - position_;
    const std::uint64_t own = (shape_.cut_src ? src : dst) + position_;
    step_ = std::min(step_, shape_.granule - own % shape_.granule);
    if (shape_.cut_src && shape_.cut_dst) {
        step_ = std::min(step_, shape_.granule - (dst + position_) % shape_.granule);
    }
    if (shape_.src_bits == shape_.dst_bits) {
        const auto bytes = static_cast<std::uint32_t>(step_);
        piece_ = {src + position_, dst + position_, bytes, bytes};
        return;
    }
    const auto src_bits = static_cast<std::uint64_t>(shape_.src_bits);
    const auto dst_bits = static_cast<std::uint64_t>(shape_.dst_bits);
    const std::uint64_t up = shape_.cut_src ? dst_bits : src_bits;
    const std::uint64_t down = shape_.cut_src ? src_bits : dst_bits;
    const std::uint64_t other = position_ * up / down;
    const std::uint64_t other_bytes = (position_ + step_) * up / down - other;
    if (shape_.cut_src) {
        piece_ = {src + position_, dst + other, static_cast<std::uint32_t>(step_),
                  static_cast<std::uint32_t>(other_bytes)};
    } else {
        piece_ = {src + other, dst + position_, static_cast<std::uint32_t>(other_bytes),
                  static_cast<std::uint32_t>(step_)};
    }
}

void DmaWalk::next() {
    position_ += step_;
    if (position_ == length_) {
        position_ = 0;
        if (++at_[0] == shape_.counts[0]) {
            at_[0] = 0;
            if (++at_[1] == shape_.counts[1]) {
                done_ = true;
                return;
            }
        }
    }
    cut();
}

}  // namespace sluice::sim
