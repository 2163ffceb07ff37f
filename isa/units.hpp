// SPDX-License-Identifier: Apache-2.0
#pragma once
// Quantities that every layer shares. A cycle is a core clock cycle unless the name says otherwise.
#include <cstdint>

namespace sluice {

using Cycle = std::uint64_t;
using Bytes = std::uint64_t;
using Femtoseconds = std::uint64_t;

constexpr Bytes kKiB = 1024;
constexpr Bytes kMiB = 1024 * kKiB;

/// ceil(a / b) for b > 0.
template <class T>
[[nodiscard]] constexpr T ceil_div(T a, T b) {
    return a / b + (a % b != 0 ? 1 : 0);
}

/// The smallest multiple of b that is >= a.
template <class T>
[[nodiscard]] constexpr T round_up(T a, T b) {
    return ceil_div(a, b) * b;
}

}  // namespace sluice
