// SPDX-License-Identifier: Apache-2.0
#include "models/routing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "isa/errors.hpp"

namespace sluice::models {

namespace {

constexpr double kMaxSkew = 8;
constexpr const char* kZipf = "zipf:";

/// splitmix64: the same numbers on every machine.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        state_ += 0x9E3779B97F4A7C15U;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
        z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
        return z ^ (z >> 31U);
    }
    /// In [0, 1).
    double fraction() { return static_cast<double>(next() >> 11U) * 0x1p-53; }

private:
    std::uint64_t state_;
};

/// Weights of the experts in one layer.
std::vector<double> weights(const RoutingSource& source, std::int64_t experts, Random& random) {
    std::vector<double> out(static_cast<std::size_t>(experts), 1.0);
    if (source.kind == RoutingSource::Kind::uniform) {
        return out;
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = std::pow(static_cast<double>(i + 1), -source.skew);
    }
    for (std::size_t i = out.size(); i > 1; --i) {
        std::swap(out[i - 1], out[static_cast<std::size_t>(random.fraction() * static_cast<double>(i))]);
    }
    return out;
}

}  // namespace

RoutingSource parse_routing(const std::string& text, const std::string& where) {
    if (text == "uniform") {
        return {};
    }
    const std::string prefix = kZipf;
    RoutingSource source;
    source.kind = RoutingSource::Kind::zipf;
    if (text.starts_with(prefix)) {
        const char* first = text.data() + prefix.size();
        const char* last = text.data() + text.size();
        const auto [end, error] = std::from_chars(first, last, source.skew);
        if (error == std::errc() && end == last && source.skew > 0 && source.skew <= kMaxSkew) {
            return source;
        }
    }
    throw InputError(where, fmt::format("found {}, allowed: uniform, or zipf:S with 0 < S <= {}", text, kMaxSkew));
}

std::string name(const RoutingSource& source) {
    return source.kind == RoutingSource::Kind::uniform ? "uniform" : fmt::format("{}{}", kZipf, source.skew);
}

std::vector<std::int32_t> draw_routes(const RoutingSource& source, std::int64_t layer, std::int64_t tokens,
                                      std::int64_t experts, std::int64_t chosen) {
    SLUICE_CHECK(chosen <= experts, "a token chooses no expert twice");
    Random random(source.seed * 0xD1B54A32D192ED03U + static_cast<std::uint64_t>(layer));
    const std::vector<double> all = weights(source, experts, random);
    std::vector<std::int32_t> out;
    out.reserve(static_cast<std::size_t>(tokens * chosen));
    for (std::int64_t token = 0; token < tokens; ++token) {
        std::vector<double> left = all;
        for (std::int64_t slot = 0; slot < chosen; ++slot) {
            double at = random.fraction() * std::accumulate(left.begin(), left.end(), 0.0);
            std::size_t expert = 0;
            // The last one that is left, should rounding carry `at` beyond the sum.
            for (std::size_t i = 0; i < left.size(); ++i) {
                if (left[i] == 0) {
                    continue;
                }
                expert = i;
                if (at < left[i]) {
                    break;
                }
                at -= left[i];
            }
            left[expert] = 0;
            out.push_back(static_cast<std::int32_t>(expert));
        }
    }
    return out;
}

std::int64_t experts_hit(const std::vector<std::int32_t>& routes, std::int64_t experts) {
    std::vector<bool> hit(static_cast<std::size_t>(experts), false);
    for (const std::int32_t expert : routes) {
        hit[static_cast<std::size_t>(expert)] = true;
    }
    return std::count(hit.begin(), hit.end(), true);
}

}  // namespace sluice::models
