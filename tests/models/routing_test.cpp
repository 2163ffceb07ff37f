// SPDX-License-Identifier: Apache-2.0
// Drawn choices of experts: different ones for a token, as often as their weights say, and how many are hit.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <vector>

#include "isa/errors.hpp"
#include "models/routing.hpp"

namespace sluice::models {
namespace {

using Kind = RoutingSource::Kind;

constexpr std::int64_t kTokens = 20'000;

std::vector<double> shares(const std::vector<std::int32_t>& routes, std::int64_t experts) {
    std::vector<double> out(static_cast<std::size_t>(experts));
    for (const std::int32_t expert : routes) {
        out.at(static_cast<std::size_t>(expert)) += 1 / static_cast<double>(routes.size());
    }
    return out;
}

TEST_CASE("a token draws different experts, and the same ones again from the same seed") {
    const RoutingSource source{Kind::zipf, 1.5, 7};
    const std::vector<std::int32_t> routes = draw_routes(source, 3, 500, 8, 8);
    for (std::size_t token = 0; token < 500; ++token) {
        const auto first = routes.begin() + static_cast<std::ptrdiff_t>(8 * token);
        CHECK(std::set<std::int32_t>(first, first + 8).size() == 8);
    }
    CHECK(routes == draw_routes(source, 3, 500, 8, 8));
    CHECK(routes != draw_routes(source, 4, 500, 8, 8));
    CHECK(routes != draw_routes({Kind::zipf, 1.5, 8}, 3, 500, 8, 8));
}

TEST_CASE("experts are drawn as often as their weights say") {
    // The standard deviation of a share is at most sqrt(1/4 / tokens); five of them.
    const double tolerance = 5 * std::sqrt(0.25 / static_cast<double>(kTokens));
    for (const double share : shares(draw_routes({}, 0, kTokens, 16, 1), 16)) {
        CHECK(std::abs(share - 1.0 / 16) < tolerance);
    }
    std::vector<double> found = shares(draw_routes({Kind::zipf, 1.0, 1}, 0, kTokens, 16, 1), 16);
    std::sort(found.rbegin(), found.rend());
    double sum = 0;
    for (int rank = 1; rank <= 16; ++rank) {
        sum += 1.0 / rank;
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(std::abs(found[i] - 1 / (static_cast<double>(i + 1) * sum)) < tolerance);
    }
}

TEST_CASE("uniform choices hit as many experts as the closed form expects") {
    // Of E experts, B tokens that choose k of them miss one with (1 - k/E)^B.
    constexpr std::int64_t kExperts = 128;
    constexpr std::int64_t kLayers = 200;
    double hit = 0;
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
        hit += static_cast<double>(experts_hit(draw_routes({}, layer, 16, kExperts, 8), kExperts)) / kLayers;
    }
    const double miss = std::pow(1 - 8.0 / kExperts, 16);
    // Misses are negatively correlated, so the variance is below that of independent ones.
    const double deviation = std::sqrt(kExperts * miss * (1 - miss) / kLayers);
    CHECK(std::abs(hit - kExperts * (1 - miss)) < 5 * deviation);
}

TEST_CASE("a source of choices is read and named") {
    CHECK(parse_routing("uniform", "x") == RoutingSource{});
    CHECK(parse_routing("zipf:1.25", "x") == RoutingSource{Kind::zipf, 1.25, 1});
    CHECK(name(parse_routing("zipf:1.25", "x")) == "zipf:1.25");
    for (const char* wrong : {"", "zipf", "zipf:", "zipf:0", "zipf:-1", "zipf:nan", "zipf:9", "zipf:1x", "Uniform"}) {
        CHECK_THROWS_AS(parse_routing(wrong, "x"), InputError);
    }
}

}  // namespace
}  // namespace sluice::models
