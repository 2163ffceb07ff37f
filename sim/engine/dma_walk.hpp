// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace sluice::sim {

/// The pieces of a strided DMA in order, none of them crossing a granule of the side that is cut.
class DmaWalk {
public:
    struct Piece {
        std::uint64_t src_offset = 0, dst_offset = 0;
        std::uint32_t src_bytes = 0, dst_bytes = 0;
    };
    struct Shape {
        std::uint64_t src_offset = 0, dst_offset = 0;
        std::int64_t run_bytes = 0;  ///< of the source
        std::int64_t counts[2] = {1, 1};
        std::int64_t src_strides[2] = {0, 0}, dst_strides[2] = {0, 0};
        std::int64_t src_bits = 1, dst_bits = 1;  ///< of an element, for conversion
        std::uint64_t granule = 1024;
        bool cut_src = true, cut_dst = false;
    };

    void start(const Shape& shape);
    [[nodiscard]] bool done() const { return done_; }
    [[nodiscard]] const Piece& piece() const { return piece_; }
    void next();

private:
    void cut();

    Shape shape_;
    std::int64_t at_[2] = {0, 0};
    std::uint64_t position_ = 0;  // in the run, on the side that is cut
    std::uint64_t length_ = 0;    // of the run, on that side
    std::uint64_t step_ = 0;
    Piece piece_;
    bool done_ = true;
};

}  // namespace sluice::sim
