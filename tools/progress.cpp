// SPDX-License-Identifier: Apache-2.0
#include "tools/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace sluice::tools {
namespace {

constexpr const char* kEraseLine = "\r\033[K";

std::string clock_text(double seconds) {
    const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
    return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                         : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

ProgressLine::ProgressLine(bool wanted)
    : start_(std::chrono::steady_clock::now()), last_(start_), shown_(wanted && ::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
    if (shown_) {
        std::fputs(kEraseLine, stderr);
        std::fflush(stderr);
    }
}

void ProgressLine::update(const sim::Progress& progress) {
    if (shown_) {
        const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
        fmt::print(stderr, "{}{}", kEraseLine, text(progress, elapsed));
        std::fflush(stderr);
    }
}

void ProgressLine::update(const std::string& what) {
    const auto now = std::chrono::steady_clock::now();
    if (shown_ && now - last_ >= std::chrono::milliseconds(200)) {
        last_ = now;
        fmt::print(stderr, "{}{}", kEraseLine, what);
        std::fflush(stderr);
    }
}

std::string ProgressLine::text(const sim::Progress& progress, double elapsed_seconds) {
    constexpr std::size_t kBarWidth = 24;
    const double cycles = static_cast<double>(progress.cycle) / 1e6;
    const std::string speed =
        fmt::format("{:.2f} Mcycles  {:.2f} Mcycles/s", cycles, elapsed_seconds > 0 ? cycles / elapsed_seconds : 0.0);
    if (progress.instructions_total == 0) {
        return fmt::format("{} instructions  {}", progress.instructions_done, speed);
    }
    const double done = std::min(
        1.0, static_cast<double>(progress.instructions_done) / static_cast<double>(progress.instructions_total));
    const auto filled = static_cast<std::size_t>(done * static_cast<double>(kBarWidth));
    const std::string left = done > 0 ? clock_text(elapsed_seconds * (1 - done) / done) : "?";
    return fmt::format("[{}{}] {:3.0f} %  {}  {} left", std::string(filled, '#'), std::string(kBarWidth - filled, ' '),
                       100 * done, speed, left);
}

}  // namespace sluice::tools
