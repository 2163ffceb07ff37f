// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which experts tokens choose where no router runs: drawn from a stated distribution.
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::models {

/// Each token draws `chosen` different experts, one after another. Uniform: all alike. Zipf: the expert of rank r
/// (from 1) weighs r^-skew; ranks are dealt anew in every layer, so that no expert is the favourite of all layers.
struct RoutingSource {
    enum class Kind : std::uint8_t { uniform, zipf };
    Kind kind = Kind::uniform;
    double skew = 0;  ///< zipf: > 0
    std::uint64_t seed = 1;

    friend bool operator==(const RoutingSource&, const RoutingSource&) = default;
};

/// "uniform" or "zipf:S" with 0 < S <= 8. Throws InputError naming `where`.
[[nodiscard]] RoutingSource parse_routing(const std::string& text, const std::string& where);
[[nodiscard]] std::string name(const RoutingSource& source);

/// tokens x chosen experts of 0..experts-1, those of a token in a row, all different.
[[nodiscard]] std::vector<std::int32_t> draw_routes(const RoutingSource& source, std::int64_t layer,
                                                    std::int64_t tokens, std::int64_t experts, std::int64_t chosen);

/// How many experts are chosen by at least one token.
[[nodiscard]] std::int64_t experts_hit(const std::vector<std::int32_t>& routes, std::int64_t experts);

}  // namespace sluice::models
