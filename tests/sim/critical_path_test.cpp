// SPDX-License-Identifier: Apache-2.0
// Does the log of activities give back the way to the end, also when it has forgotten the oldest of them?
#include "sim/core/critical_path.hpp"

#include <catch2/catch.hpp>

using namespace sluice;
using sim::Cause;
using sim::PathLog;
using sim::Resource;

namespace {

/// A chain: activity i begins at 10 i + 3, let go by the one before it at 10 i.
Cause chain(PathLog& log, int count) {
    Cause last;
    for (int i = 0; i < count; ++i) {
        const Cycle at = 10 * static_cast<Cycle>(i);
        last = {log.add(at + 3, {last.record, at}, i % 2 == 0 ? Resource::ttu : Resource::noc, Resource::semaphore),
                at + 10};
    }
    return last;
}

Cycle of(const std::vector<sim::CriticalSegment>& path, const std::string& resource) {
    for (const sim::CriticalSegment& segment : path) {
        if (segment.resource == resource) {
            return segment.cycles;
        }
    }
    return 0;
}

}  // namespace

TEST_CASE("a chain of activities is walked to its beginning") {
    PathLog log;
    const auto path = log.walk(chain(log, 100));
    CHECK(of(path, "ttu") == 50 * 7);
    CHECK(of(path, "noc") == 50 * 7);
    CHECK(of(path, "semaphore") == 100 * 3);
    CHECK(of(path, "unrecorded") == 0);
}

TEST_CASE("of a log that is full the oldest activities are unrecorded, and the rest of the path is right") {
    PathLog log(40);
    const Cause end = chain(log, 100);
    log.stalled(10, 5);  // forgotten
    log.stalled(99, 2);
    log.set_resource(3, Resource::tvp);  // forgotten
    log.set_resource(98, Resource::tvp);
    const auto path = log.walk(end);
    CHECK(of(path, "unrecorded") == 600);
    CHECK(of(path, "semaphore") == 40 * 3);
    CHECK(of(path, "tvp") == 7);
    CHECK(of(path, "banks") == 2);
    CHECK(of(path, "ttu") == 19 * 7);
    CHECK(of(path, "noc") == 20 * 7 - 2);
}
