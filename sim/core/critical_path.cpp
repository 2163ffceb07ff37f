// SPDX-License-Identifier: Apache-2.0
#include "sim/core/critical_path.hpp"

#include <algorithm>
#include <array>

#include "isa/errors.hpp"

namespace sluice::sim {

std::string_view name(Resource resource) {
    switch (resource) {
        case Resource::control: return "control";
        case Resource::semaphore: return "semaphore";
        case Resource::hbm: return "hbm";
        case Resource::csram: return "csram";
        case Resource::noc: return "noc";
        case Resource::ttu: return "ttu";
        case Resource::tvp: return "tvp";
        case Resource::reshaper: return "reshaper";
        case Resource::banks: return "banks";
        case Resource::fence: return "fence";
        case Resource::launch: return "launch";
        case Resource::unrecorded: return "unrecorded";
    }
    return "?";
}

RecordId PathLog::add(Cycle start, Cause cause, Resource resource, Resource gap) {
    SLUICE_CHECK(cause.at <= start, "an activity started before its cause");
    if (records_.size() == most_) {
        records_.pop_front();
        stalls_.erase(first_++);
    }
    records_.push_back({start, cause.at, cause.record, resource, gap});
    const std::size_t id = first_ + records_.size() - 1;
    SLUICE_CHECK(id < kNoRecord, "more activities than there are numbers for");
    return static_cast<RecordId>(id);
}

std::vector<CriticalSegment> PathLog::walk(Cause end) const {
    std::array<Cycle, kResourceCount> cycles{};
    Cycle position = end.at;
    RecordId id = end.record;
    while (id != kNoRecord && id >= first_) {
        const Record& record = records_[id - first_];
        SLUICE_CHECK(record.start <= position, "the critical path runs forward");
        // Of a macro that is left in its middle, by a block row's signal, some of the stalls may come later.
        const auto found = stalls_.find(id);
        const Cycle stalls = found == stalls_.end() ? 0 : std::min(found->second, position - record.start);
        cycles[static_cast<std::size_t>(Resource::banks)] += stalls;
        cycles[static_cast<std::size_t>(record.resource)] += position - record.start - stalls;
        cycles[static_cast<std::size_t>(record.gap)] += record.start - record.cause_at;
        position = record.cause_at;
        id = record.cause;
    }
    cycles[static_cast<std::size_t>(Resource::unrecorded)] += position;
    std::vector<CriticalSegment> segments;
    for (std::size_t i = 0; i < kResourceCount; ++i) {
        if (cycles[i] > 0) {
            segments.push_back({std::string(name(static_cast<Resource>(i))), cycles[i]});
        }
    }
    std::stable_sort(segments.begin(), segments.end(),
                     [](const CriticalSegment& a, const CriticalSegment& b) { return a.cycles > b.cycles; });
    return segments;
}

}  // namespace sluice::sim
