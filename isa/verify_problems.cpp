// SPDX-License-Identifier: Apache-2.0
#include "isa/verify_problems.hpp"

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {
constexpr std::size_t kMostReported = 10;
}

std::size_t Problems::note(const std::string& what) {
    if (noted_.size() == kMostReported) {
        more_ = true;
        return kNone;
    }
    noted_.push_back(where_ + ": " + what);
    return noted_.size() - 1;
}

void Problems::report() const {
    if (noted_.empty()) {
        return;
    }
    std::string all;
    for (const std::string& problem : noted_) {
        all += (all.empty() ? "" : "\n") + problem;
    }
    throw InputError("", all + (more_ ? "\n... and more" : ""));
}

}  // namespace sluice::isa
