// SPDX-License-Identifier: Apache-2.0
#include "models/reference/dot.hpp"

#include <algorithm>

namespace sluice::models {

namespace {
__extension__ using Quad = __float128;  // binary128: 113 bits
}

float dot(isa::Format a_format, const std::vector<float>& a, isa::Format b_format, const std::vector<float>& b,
          float start) {
    const bool halves = isa::info(a_format).element_bits == 16 && isa::info(b_format).element_bits == 16;
    const std::size_t step = halves ? 8 : 32;
    float sum = start;
    for (std::size_t first = 0; first < a.size(); first += step) {
        const std::size_t end = std::min(a.size(), first + step);
        Quad block = 0;
        double eight = 0;
        for (std::size_t i = first; i < end; ++i) {
            block += static_cast<Quad>(a[i]) * static_cast<Quad>(b[i]);
            eight += static_cast<double>(a[i]) * static_cast<double>(b[i]);
        }
        sum = static_cast<float>(static_cast<Quad>(sum) + (halves ? static_cast<Quad>(eight) : block));
    }
    return sum;
}

}  // namespace sluice::models
