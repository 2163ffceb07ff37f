// SPDX-License-Identifier: Apache-2.0
#pragma once
// A line on standard error while a simulation runs, if that is a terminal; erased at the end.
#include <chrono>
#include <string>

#include "sim/run.hpp"

namespace sluice::tools {

class ProgressLine {
public:
    explicit ProgressLine(bool wanted);
    ~ProgressLine();
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    /// False on anything but a terminal: nothing is shown then.
    [[nodiscard]] bool shown() const { return shown_; }
    void update(const sim::Progress& progress);
    /// Other work: says what it is at, at most five times a second.
    void update(const std::string& what);

    /// "[#####     ]  50 %  1.2 Mcycles  3.4 Mcycles/s  0:12 left"
    [[nodiscard]] static std::string text(const sim::Progress& progress, double elapsed_seconds);

private:
    std::chrono::steady_clock::time_point start_;
    std::chrono::steady_clock::time_point last_;
    bool shown_;
};

}  // namespace sluice::tools
