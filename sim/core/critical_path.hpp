// SPDX-License-Identifier: Apache-2.0
#pragma once
// The chain of recorded waits from the last event of a run back to cycle 0. Every instruction (and every stall of a
// control processor) leaves one record: when it started, and which record at which cycle let it start. Walking back,
// the cycles that a record was on the path are attributed to its resource, and the gap between its start and its cause
// (the flight of a signal) to the gap's resource. The chain is contiguous, so the segments sum to the run.
#include <cstdint>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "isa/units.hpp"
#include "sim/core/report.hpp"

namespace sluice::sim {

enum class Resource : std::uint8_t {
    control,
    semaphore,
    hbm,
    csram,
    noc,
    ttu,
    tvp,
    reshaper,
    banks,
    fence,
    launch,
    unrecorded
};
constexpr std::size_t kResourceCount = static_cast<std::size_t>(Resource::unrecorded) + 1;
[[nodiscard]] std::string_view name(Resource resource);

using RecordId = std::uint32_t;
constexpr RecordId kNoRecord = ~RecordId{0};

/// A moment in the life of a recorded activity.
struct Cause {
    RecordId record = kNoRecord;
    Cycle at = 0;
};

class PathLog {
public:
    /// Keeps the last `most` activities, of 24 B each (768 MB): what comes before them is "unrecorded".
    explicit PathLog(std::size_t most = std::size_t{1} << 25) : most_(most) {}

    /// An activity that started at `start`, let go by `cause`; `gap` says what the time between the two is.
    RecordId add(Cycle start, Cause cause, Resource resource, Resource gap);
    void set_resource(RecordId id, Resource resource) {
        if (id != kNoRecord && id >= first_) {
            records_[id - first_].resource = resource;
        }
    }

    /// So many cycles of the activity were stalls for banks.
    void stalled(RecordId id, Cycle cycles) {
        if (id != kNoRecord && id >= first_ && cycles > 0) {
            stalls_[id] = cycles;
        }
    }

    /// Longest first; they sum to end.at.
    [[nodiscard]] std::vector<CriticalSegment> walk(Cause end) const;

private:
    struct Record {
        Cycle start;
        Cycle cause_at;
        RecordId cause;
        Resource resource;
        Resource gap;
    };
    std::size_t most_;
    std::deque<Record> records_;
    RecordId first_ = 0;  ///< id of the first of them
    std::unordered_map<RecordId, Cycle> stalls_;
};

}  // namespace sluice::sim
