// SPDX-License-Identifier: Apache-2.0
#include "kernels/layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/errors.hpp"

namespace sluice::kernels {

using isa::Affine;
using isa::Level;
using isa::SemRef;
using isa::Var;

Affine Ring::at(std::int64_t within, std::int64_t ahead) const {
    if (slots == 1) {
        return base + within;
    }
    Affine offset(base + within, {{isa::register_var(cursor), slot_bytes}});
    offset.ring = slot_bytes * slots;
    offset.phase = slot_bytes * ahead;
    return offset;
}

void Ring::check_fits(std::int64_t bytes, const std::string& what) const {
    SLUICE_CHECK(bytes <= slot_bytes, fmt::format("{} takes {} bytes of a slot of {}", what, bytes, slot_bytes));
}

void Buffer::check_fits(std::int64_t wanted, const std::string& what) const {
    SLUICE_CHECK(wanted <= bytes, fmt::format("{} takes {} bytes of a buffer of {}", what, wanted, bytes));
}

Allocator::Allocator(isa::Space space, std::int64_t units, Bytes capacity, Bytes base)
    : space_(space), units_(units), capacity_(capacity), next_(base) {}

std::int64_t Allocator::take(const std::string& name, std::int64_t bytes, std::int64_t alignment) {
    const Bytes at = round_up<Bytes>(next_, static_cast<Bytes>(alignment));
    const auto size = static_cast<Bytes>(bytes);
    if (bytes < 0 || at > capacity_ || size > capacity_ - at) {
        throw InputError(
            std::string(isa::name(space_)),
            fmt::format("{} needs {} bytes, but {} of {} are taken already; at most {} bytes fit here", name, size,
                        std::min(at, capacity_), capacity_, at > capacity_ ? 0 : capacity_ - at));
    }
    if (size > 0) {
        regions_.push_back({name, space_, 0, units_, at, size, {}, false, false});
    }
    next_ = at + size;
    return static_cast<std::int64_t>(at);
}

void Allocator::mark_last(bool input, bool output) {
    SLUICE_CHECK(!regions_.empty(), "nothing was taken");
    regions_.back().input = input;
    regions_.back().output = output;
}

SemRef own_tile_sem(int index) {
    return {Level::tile, isa::variable(Var::self), 0, index};
}

SemRef own_cluster_sem(int index) {
    return {Level::cluster, isa::variable(Var::cluster), 0, index};
}

SemRef cluster_sems(std::int64_t first, std::int64_t count, int index) {
    return {Level::cluster, first, low_mask(count), index};
}

SemRef tiles_of_cluster_sem(const Grouping& grouping, int index) {
    return {Level::tile, isa::variable(Var::cluster, grouping.tiles_per_cluster), low_mask(grouping.tiles_per_cluster),
            index};
}

SemRef activation_slot_free(const Ring& ring) {
    Affine index(cluster_sem::a_free);
    if (ring.slots > 1) {
        index.terms = {{isa::register_var(ring.cursor), 1}};
        index.ring = ring.slots;
    }
    return {Level::cluster, isa::variable(Var::cluster), 0, index};
}

std::uint64_t low_mask(std::int64_t bits) {
    SLUICE_CHECK(bits >= 1 && bits <= 64, "a mask holds 1 to 64 units");
    return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

}  // namespace sluice::kernels
