// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rule of sim/mem/bank_group.hpp, cycle by cycle and bank by bank. It shares the shapes of the interface, no code.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/mem/bank_group.hpp"

namespace sluice::test {

class BankReference {
public:
    struct Train {
        sim::AccessTrain shape;
        Cycle joined = 0;
        std::uint64_t beats_done = 0;
        Cycle last_beat = 0;  // if beats_done > 0
        Cycle stalled_in_a_row = 0;
        Cycle stalled = 0;
        bool ended = false;
        Cycle end = 0;
    };

    explicit BankReference(const sim::BankGroupSpec& spec) : spec_(spec) {}

    void join(const sim::AccessTrain& shape) {
        Train train;
        train.shape = shape;
        train.joined = now_;
        trains_.push_back(train);
    }

    /// One cycle.
    void tick() {
        counts_.cycles += all_ended() ? 0 : 1;
        const std::vector<std::size_t> order = this->order();
        const std::size_t nobody = order.size();
        std::vector<std::size_t> holder(spec_.banks, nobody);  // of each bank, as a position in the order
        for (std::size_t place = 0; place < order.size(); ++place) {
            Train& train = trains_[order[place]];
            const std::vector<std::size_t> banks = banks_of_next_beat(train);
            std::size_t first_holder = nobody;
            for (const std::size_t bank : banks) {
                first_holder = std::min(first_holder, holder[bank]);
            }
            if (first_holder == nobody) {
                for (const std::size_t bank : banks) {
                    holder[bank] = place;
                }
                cross(train);
            } else {
                ++train.stalled;
                ++train.stalled_in_a_row;
                ++counts_.stalled[train.shape.client][trains_[order[first_holder]].shape.client];
            }
        }
        ++now_;
    }

    [[nodiscard]] bool all_ended() const {
        return std::all_of(trains_.begin(), trains_.end(), [](const Train& train) { return train.ended; });
    }
    [[nodiscard]] Cycle now() const { return now_; }
    [[nodiscard]] const std::vector<Train>& trains() const { return trains_; }
    [[nodiscard]] const sim::BankCounts& counts() const { return counts_; }

    /// Indices of the trains that have ended: by end, client, order of joining.
    [[nodiscard]] std::vector<std::size_t> ended() const {
        std::vector<std::size_t> indices;
        for (std::size_t i = 0; i < trains_.size(); ++i) {
            if (trains_[i].ended) {
                indices.push_back(i);
            }
        }
        std::stable_sort(indices.begin(), indices.end(), [this](std::size_t a, std::size_t b) {
            if (trains_[a].end != trains_[b].end) {
                return trains_[a].end < trains_[b].end;
            }
            return trains_[a].shape.client < trains_[b].shape.client;
        });
        return indices;
    }

private:
    /// Rules 1 and 2.
    [[nodiscard]] std::vector<std::size_t> order() const {
        std::vector<std::size_t> indices;
        for (std::size_t i = 0; i < trains_.size(); ++i) {
            const Train& train = trains_[i];
            const bool rests = train.beats_done > 0 && now_ < train.last_beat + train.shape.interval;
            if (!train.ended && !rests) {
                indices.push_back(i);
            }
        }
        std::stable_sort(indices.begin(), indices.end(), [this](std::size_t a, std::size_t b) {
            const bool a_aged = trains_[a].stalled_in_a_row >= spec_.age_bound;
            const bool b_aged = trains_[b].stalled_in_a_row >= spec_.age_bound;
            if (a_aged != b_aged) {
                return a_aged;
            }
            if (a_aged && trains_[a].stalled_in_a_row != trains_[b].stalled_in_a_row) {
                return trains_[a].stalled_in_a_row > trains_[b].stalled_in_a_row;
            }
            return trains_[a].shape.client < trains_[b].shape.client;
        });
        return indices;
    }

    [[nodiscard]] std::vector<std::size_t> banks_of_next_beat(const Train& train) const {
        const auto width = static_cast<std::int64_t>(spec_.bank_bytes);
        const auto banks = static_cast<std::int64_t>(spec_.banks);
        const std::int64_t first = static_cast<std::int64_t>(train.shape.start) +
                                   static_cast<std::int64_t>(train.beats_done) * train.shape.stride;
        const std::int64_t last = first + static_cast<std::int64_t>(train.shape.bytes) - 1;
        std::vector<std::size_t> touched;
        for (std::int64_t bank = floor_div(first, width); bank <= floor_div(last, width); ++bank) {
            touched.push_back(static_cast<std::size_t>(bank - floor_div(bank, banks) * banks));
        }
        return touched;
    }

    static std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

    void cross(Train& train) {
        ++train.beats_done;
        train.last_beat = now_;
        train.stalled_in_a_row = 0;
        ++counts_.beats[train.shape.client];
        if (train.beats_done == train.shape.beats) {
            train.ended = true;
            train.end = now_ + 1;
        }
    }

    sim::BankGroupSpec spec_;
    std::vector<Train> trains_;  // in the order of joining
    sim::BankCounts counts_;
    Cycle now_ = 0;
};

}  // namespace sluice::test
