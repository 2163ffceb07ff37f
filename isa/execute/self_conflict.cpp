// SPDX-License-Identifier: Apache-2.0
#include "isa/execute/self_conflict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace sluice::isa {

namespace {

struct Span {
    std::int64_t low = 0, high = 0;  ///< bytes [low, high)
};

Span hull(const Access& access) {
    Span out{access.offset, access.offset + access.run};
    for (std::size_t i = 0; i < 2; ++i) {
        const std::int64_t reach = (access.counts.at(i) - 1) * access.strides.at(i);
        out.low += std::min<std::int64_t>(reach, 0);
        out.high += std::max<std::int64_t>(reach, 0);
    }
    return out;
}

/// Runs in order of their offsets.
std::vector<Span> runs(const Access& access) {
    std::vector<Span> out;
    out.reserve(static_cast<std::size_t>(access.counts[0] * access.counts[1]));
    for (std::int64_t outer = 0; outer < access.counts[1]; ++outer) {
        for (std::int64_t inner = 0; inner < access.counts[0]; ++inner) {
            const std::int64_t at = access.offset + outer * access.strides[1] + inner * access.strides[0];
            out.push_back({at, at + access.run});
        }
    }
    std::sort(out.begin(), out.end(), [](const Span& a, const Span& b) { return a.low < b.low; });
    return out;
}

/// The usual cases, without a list: one dimension steps over whole runs, the other over all of that.
bool plainly_apart(const Access& access) {
    const auto nested = [&](std::size_t fine, std::size_t coarse) {
        const std::int64_t step = std::abs(access.strides.at(fine));
        const std::int64_t extent = (access.counts.at(fine) - 1) * step + access.run;
        return (access.counts.at(fine) == 1 || step >= access.run) &&
               (access.counts.at(coarse) == 1 || std::abs(access.strides.at(coarse)) >= extent);
    };
    return nested(0, 1) || nested(1, 0);
}

std::optional<Span> common(const Span& a, const Span& b) {
    const Span out{std::max(a.low, b.low), std::min(a.high, b.high)};
    return out.low < out.high ? std::optional(out) : std::nullopt;
}

std::optional<Span> written_twice(const Access& access) {
    if (plainly_apart(access)) {
        return std::nullopt;
    }
    const std::vector<Span> all = runs(access);
    for (std::size_t i = 1; i < all.size(); ++i) {
        if (const std::optional<Span> both = common(all[i - 1], all[i])) {
            return both;
        }
    }
    return std::nullopt;
}

std::optional<Span> overlap(const Access& a, const Access& b) {
    if (!common(hull(a), hull(b))) {
        return std::nullopt;
    }
    const std::vector<Span> of_a = runs(a);
    const std::vector<Span> of_b = runs(b);
    std::size_t i = 0;
    std::size_t j = 0;
    while (i < of_a.size() && j < of_b.size()) {
        if (const std::optional<Span> both = common(of_a[i], of_b[j])) {
            return both;
        }
        (of_a[i].high <= of_b[j].high ? i : j) += 1;
    }
    return std::nullopt;
}

bool same_pieces(const Access& a, const Access& b) {
    return a.offset == b.offset && a.run == b.run && a.counts == b.counts && a.strides == b.strides;
}

}  // namespace

std::optional<std::string> self_conflict(const std::vector<Access>& accesses) {
    const auto say = [](const Access& access, const Span& bytes, const char* what) {
        return fmt::format("writes bytes {}..{} of {}({}) {}", bytes.low, bytes.high - 1, name(access.space),
                           access.unit, what);
    };
    for (std::size_t i = 0; i < accesses.size(); ++i) {
        const Access& access = accesses[i];
        if (!access.write) {
            continue;
        }
        if (const std::optional<Span> twice = written_twice(access)) {
            return say(access, *twice, "twice");
        }
        for (std::size_t other = 0; other < accesses.size(); ++other) {
            const Access& second = accesses[other];
            const bool seen = second.write && other <= i;
            if (seen || second.space != access.space || second.unit != access.unit || same_pieces(access, second)) {
                continue;
            }
            if (const std::optional<Span> both = overlap(access, second)) {
                return say(access, *both, second.write ? "twice" : "and reads them for another part of itself");
            }
        }
    }
    return std::nullopt;
}

}  // namespace sluice::isa
