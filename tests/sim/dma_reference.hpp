// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rule of sim/engine/dma_engine.hpp, cycle by cycle and byte by byte; it shares the shape of a descriptor, no code.
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "isa/chip_spec.hpp"
#include "sim/engine/task.hpp"

namespace sluice::test {

/// A descriptor: pieces that are sent one after the other.
struct Job {
    std::size_t channel = 0;
    Cycle pushed = 0;
    bool fence = false;
    bool outward = false;
    sim::DmaWalk::Shape shape;
    std::uint64_t seed = 0;  ///< of the times that its packets take
};

struct Piece {
    std::uint64_t src = 0, dst = 0;
    std::uint32_t src_bytes = 0, dst_bytes = 0;
    friend bool operator==(const Piece&, const Piece&) = default;
};

/// Cycles from the launch of a job's n-th packet to its landing, and to the moment when that is certain.
struct Flight {
    Cycle landing, certain;
};
inline Flight flight(const Job& job, std::size_t piece, std::int64_t longest) {
    std::mt19937_64 random(job.seed + piece);
    const auto landing = static_cast<Cycle>(std::uniform_int_distribution<std::int64_t>(1, longest)(random));
    return {landing, 1 + random() % landing};
}

struct Sent {
    Cycle at;
    std::size_t job;
    Piece piece;
    friend bool operator==(const Sent&, const Sent&) = default;
};

/// What a life of the engine looks like from outside.
struct Life {
    std::vector<Sent> sent;
    std::vector<Cycle> completed;                ///< of every job
    std::vector<std::array<Cycle, 3>> accounts;  ///< of every channel: busy, waiting for memory, idle
};

/// Byte after byte: packets end at granules of the side or sides that are cut.
inline std::vector<Piece> pieces_of(const Job& job) {
    std::vector<Piece> out;
    if (job.fence) {
        return out;
    }
    const sim::DmaWalk::Shape& s = job.shape;
    const auto up = [&](std::int64_t src_bytes) { return src_bytes * s.dst_bits / s.src_bits; };
    const auto down = [&](std::int64_t dst_bytes) { return dst_bytes * s.src_bits / s.dst_bits; };
    for (std::int64_t j = 0; j < s.counts[1]; ++j) {
        for (std::int64_t i = 0; i < s.counts[0]; ++i) {
            const auto src = static_cast<std::int64_t>(s.src_offset) + i * s.src_strides[0] + j * s.src_strides[1];
            const auto dst = static_cast<std::int64_t>(s.dst_offset) + i * s.dst_strides[0] + j * s.dst_strides[1];
            const std::int64_t length = s.cut_src ? s.run_bytes : up(s.run_bytes);
            const auto granule = static_cast<std::int64_t>(s.granule);
            for (std::int64_t from = 0, at = 1; at <= length; ++at) {
                const bool src_ends = s.cut_src && (src + at) % granule == 0;
                const bool dst_ends = s.cut_dst && (dst + at) % granule == 0;
                if (at < length && !src_ends && !dst_ends) {
                    continue;
                }
                const std::int64_t src_from = s.cut_src ? from : down(from);
                const std::int64_t src_to = s.cut_src ? at : down(at);
                const std::int64_t dst_from = s.cut_src ? up(from) : from;
                const std::int64_t dst_to = s.cut_src ? up(at) : at;
                out.push_back({static_cast<std::uint64_t>(src + src_from), static_cast<std::uint64_t>(dst + dst_from),
                               static_cast<std::uint32_t>(src_to - src_from),
                               static_cast<std::uint32_t>(dst_to - dst_from)});
                from = at;
            }
        }
    }
    return out;
}

/// Cycle after cycle: jobs come and are prepared, then packets that have landed are given back, then the outbound path
/// sends, then the inbound one, until neither can do more. Then one looks at what every channel does in this cycle.
class DmaReference {
public:
    DmaReference(const isa::DmaSpec& dma, const std::vector<Job>& jobs, std::int64_t longest_flight)
        : dma_(dma),
          jobs_(jobs),
          longest_flight_(longest_flight),
          channels_(static_cast<std::size_t>(dma.channels)),
          at_(jobs.size()) {
        for (const Job& job : jobs) {
            pieces_.push_back(pieces_of(job));
        }
    }

    Life run() {
        life_.completed.assign(jobs_.size(), kNotYet);
        life_.accounts.assign(channels_.size(), {});
        for (now_ = 0; !over(); ++now_) {
            tick();
        }
        // The last cycles are those before the last completion.
        const Cycle end = *std::max_element(life_.completed.begin(), life_.completed.end());
        for (std::size_t c = 0; c < channels_.size(); ++c) {
            for (Cycle cycle = 0; cycle < end; ++cycle) {
                ++life_.accounts[c].at(channels_[c].states.at(cycle));
            }
        }
        return life_;
    }

private:
    static constexpr Cycle kNotYet = ~Cycle{0};
    enum State : std::size_t { kBusy, kMemory, kIdle };
    struct Channel {
        std::deque<std::size_t> queue;
        std::optional<std::size_t> preparing, sending;
        Cycle prepared_at = 0;
        std::deque<std::size_t> draining;  ///< sent or sending, not complete
        Cycle last_completion = 0;
        std::vector<std::size_t> states;  ///< by cycle
    };
    struct Progress {
        std::size_t sent = 0;
        bool launched = false;  ///< all of it
        Cycle launched_at = 0, landed = 0;
    };

    [[nodiscard]] bool over() const {
        return std::all_of(life_.completed.begin(), life_.completed.end(), [this](Cycle at) { return at < now_; });
    }

    void tick() {
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            if (jobs_[i].pushed == now_) {
                channels_[jobs_[i].channel].queue.push_back(i);
            }
        }
        blocked_ = {};
        for (Channel& channel : channels_) {
            prepare(channel);
            promote(channel);
        }
        for (auto landing = in_flight_.begin(); landing != in_flight_.end();) {
            landing = landing->first <= now_ ? in_flight_.erase(landing) : std::next(landing);
        }
        for (bool again = true; again;) {
            again = send_all(true);
            again = send_all(false) || again;
        }
        for (Channel& channel : channels_) {
            complete(channel);
            channel.states.push_back(state(channel));
        }
    }

    void prepare(Channel& channel) {
        if (!channel.preparing && !channel.queue.empty()) {
            channel.preparing = channel.queue.front();
            channel.queue.pop_front();
            const bool fence = jobs_[*channel.preparing].fence;
            channel.prepared_at = now_ + (fence ? 1 : static_cast<Cycle>(dma_.setup_cycles));
        }
    }
    /// What is prepared is sent when the one before it has been.
    void promote(Channel& channel) {
        while (!channel.sending && channel.preparing && channel.prepared_at <= now_) {
            const std::size_t job = *channel.preparing;
            channel.preparing.reset();
            channel.draining.push_back(job);
            if (pieces_[job].empty()) {
                at_[job].launched = true;
                at_[job].launched_at = now_;
            } else {
                channel.sending = job;
            }
            prepare(channel);
        }
    }

    bool send_all(bool outward) {
        bool any = false;
        while (send(outward)) {
            any = true;
        }
        return any;
    }
    /// One packet, if the path is free in this cycle and the bound allows it.
    bool send(bool outward) {
        const std::size_t path = outward ? 1 : 0;
        const auto width = static_cast<std::uint64_t>(dma_.bytes_per_cycle);
        if (used_[path] >= (now_ + 1) * width) {
            return false;
        }
        for (std::size_t k = 0; k < channels_.size(); ++k) {
            Channel& channel = channels_[(turn_[path] + k) % channels_.size()];
            if (!channel.sending || jobs_[*channel.sending].outward != outward) {
                continue;
            }
            const std::size_t job = *channel.sending;
            const Piece& piece = pieces_[job][at_[job].sent];
            std::uint64_t flying = piece.src_bytes;
            for (const auto& [landing, bytes] : in_flight_) {
                flying += bytes;
            }
            if (!in_flight_.empty() && flying > static_cast<std::uint64_t>(dma_.max_inflight_bytes)) {
                blocked_[path] = true;
                return false;
            }
            turn_[path] = (turn_[path] + k + 1) % channels_.size();
            used_[path] = std::max(used_[path], now_ * width) + std::max(piece.src_bytes, piece.dst_bytes);
            launch(channel, job, piece);
            return true;
        }
        return false;
    }
    void launch(Channel& channel, std::size_t job, const Piece& piece) {
        Progress& progress = at_[job];
        const Cycle landing = now_ + flight(jobs_[job], progress.sent, longest_flight_).landing;
        life_.sent.push_back({now_, job, piece});
        in_flight_.emplace(landing, piece.src_bytes);
        progress.landed = std::max(progress.landed, landing);
        if (++progress.sent == pieces_[job].size()) {
            progress.launched = true;
            progress.launched_at = now_;
            channel.sending.reset();
            promote(channel);
        }
    }

    void complete(Channel& channel) {
        while (!channel.draining.empty()) {
            const std::size_t job = channel.draining.front();
            const Cycle at = std::max({at_[job].landed, at_[job].launched_at, channel.last_completion});
            if (!at_[job].launched || at > now_) {
                return;
            }
            life_.completed[job] = channel.last_completion = at;
            channel.draining.pop_front();
        }
    }

    [[nodiscard]] std::size_t state(const Channel& channel) const {
        if (channel.sending) {
            return blocked_[jobs_[*channel.sending].outward ? 1 : 0] ? kMemory : kBusy;
        }
        if (channel.preparing) {
            return kBusy;
        }
        return channel.draining.empty() ? kIdle : kMemory;
    }

    isa::DmaSpec dma_;
    const std::vector<Job>& jobs_;
    std::int64_t longest_flight_;
    std::vector<std::vector<Piece>> pieces_;
    std::vector<Channel> channels_;
    std::vector<Progress> at_;
    std::multimap<Cycle, std::uint64_t> in_flight_;  ///< bytes, by landing
    std::array<std::uint64_t, 2> used_{};            ///< byte slots of the paths that are taken
    std::array<std::size_t, 2> turn_{};
    std::array<bool, 2> blocked_{};
    Cycle now_ = 0;
    Life life_;
};

}  // namespace sluice::test
