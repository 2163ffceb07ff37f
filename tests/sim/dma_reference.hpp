// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rule of sim/engine/dma_engine.hpp, cycle by cycle and byte by byte. It reads instructions, not tasks, and shares
// no code with the engine.
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "isa/chip_spec.hpp"
#include "isa/format.hpp"
#include "isa/program.hpp"
#include "sim/engine/semaphore_file.hpp"

namespace sluice::test {

/// An instruction whose expressions are constants, and when its control processor has it ready.
struct Job {
    std::size_t channel = 0;
    Cycle issued = 0;
    isa::Instruction instruction;
    std::uint64_t seed = 0;  ///< of the times that its packets take
};

/// A signal that does not come from the engine.
struct Outside {
    Cycle sent = 0;
    std::size_t semaphore = 0;
    std::int64_t count = 0;
};

/// The engine, what surrounds it, and all that it is asked to do.
struct Case {
    sim::Location location{isa::Level::tile, 0};
    isa::DmaSpec dma;
    std::int64_t queue_depth = 1000;
    std::int64_t packet_bytes = 1024;
    Cycle signal_latency = 4;
    Cycle shortest_flight = 1, longest_flight = 1;  ///< of a packet, from its launch to its landing
    std::vector<Job> jobs;                          ///< in the order in which the control processor issues them
    std::vector<Outside> outside;
};

/// Cycles from the launch of a job's n-th packet to its landing, and to the call that announces it.
struct Flight {
    Cycle landing, certain;
};
inline Flight flight(const Case& life, const Job& job, std::size_t packet) {
    std::uint64_t hash = (job.seed + packet + 1) * 0x9e3779b97f4a7c15;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
    hash ^= hash >> 27;
    const Cycle landing = life.shortest_flight + hash % (life.longest_flight - life.shortest_flight + 1);
    return {landing, (hash >> 32) % (landing + 1)};
}

struct Piece {
    std::uint64_t src = 0, dst = 0;
    std::uint64_t src_bytes = 0, dst_bytes = 0;
    std::uint64_t wire_bytes = 0;  ///< of the side that crosses the network
    friend bool operator==(const Piece&, const Piece&) = default;
};

struct Sent {
    Cycle at = 0;
    std::size_t job = 0;
    Piece piece;
    friend bool operator==(const Sent&, const Sent&) = default;
};

/// What a life of the engine looks like from outside.
struct Life {
    enum State : std::size_t { kBusy, kMemory, kSemaphore, kControl, kIdle };
    std::vector<Sent> sent;
    std::vector<Cycle> completed;                ///< of every job
    std::vector<std::array<Cycle, 5>> accounts;  ///< of every channel: cycles in each state until the last completion
};

/// Byte after byte of the side that is cut, of a run: no packet crosses a granule of HBM, and if none of the two sides
/// is in HBM, none of the source. A byte of the other side goes with the byte that makes it whole.
inline void cut_run(const isa::DmaMacro& macro, std::uint64_t src, std::uint64_t dst, std::uint64_t granule,
                    std::vector<Piece>& out) {
    const bool to_hbm = macro.dst.space == isa::Space::hbm;
    const bool src_cut = macro.src.space == isa::Space::hbm || !to_hbm;
    const bool converts = macro.src_format != macro.dst_format;
    const auto src_bits = static_cast<std::uint64_t>(converts ? isa::info(macro.src_format).element_bits : 8);
    const auto dst_bits = static_cast<std::uint64_t>(converts ? isa::info(macro.dst_format).element_bits : 8);
    const auto run = static_cast<std::uint64_t>(macro.run_bytes.base);
    const std::uint64_t length = src_cut ? run : run * dst_bits / src_bits;
    Piece piece{src, dst, 0, 0, 0};
    for (std::uint64_t byte = 1; byte <= length; ++byte) {
        const std::uint64_t src_end = src + (src_cut ? byte : byte * src_bits / dst_bits);
        const std::uint64_t dst_end = dst + (src_cut ? byte * dst_bits / src_bits : byte);
        const bool src_granule_ends = src_cut && src_end % granule == 0;
        const bool dst_granule_ends = to_hbm && dst_end % granule == 0;
        if (byte == length || src_granule_ends || dst_granule_ends) {
            piece.src_bytes = src_end - piece.src;
            piece.dst_bytes = dst_end - piece.dst;
            out.push_back(piece);
            piece = {src_end, dst_end, 0, 0, 0};
        }
    }
}

/// A descriptor's packets in order: runs along the first dimension, those along the second.
inline std::vector<Piece> pieces_of(const isa::Instruction& instruction, std::int64_t granule) {
    std::vector<Piece> out;
    const auto* macro = std::get_if<isa::DmaMacro>(&instruction.macro);
    if (macro == nullptr) {
        return out;  // a fence
    }
    std::array<isa::DmaDim, 2> dims;
    std::copy(macro->dims.begin(), macro->dims.end(), dims.begin());
    for (std::int64_t j = 0; j < dims[1].count.base; ++j) {
        for (std::int64_t i = 0; i < dims[0].count.base; ++i) {
            const std::int64_t src = macro->src.offset.base + i * dims[0].src_stride + j * dims[1].src_stride;
            const std::int64_t dst = macro->dst.offset.base + i * dims[0].dst_stride + j * dims[1].dst_stride;
            cut_run(*macro, static_cast<std::uint64_t>(src), static_cast<std::uint64_t>(dst),
                    static_cast<std::uint64_t>(granule), out);
        }
    }
    return out;
}

/// In a cycle: (1) signals arrive, preparations end, queues are filled, preparations begin, as long as any of these
/// can; (2) what has landed by now is given back; (3) the outbound path sends what it can, then the inbound one; (4) if
/// anything was sent, what that let begin has its turn, as in (1), and the paths have theirs again; (5) descriptors
/// complete. What a channel does when nothing more happens is what it does in this cycle.
class DmaReference {
public:
    explicit DmaReference(const Case& life)
        : case_(life), channels_(static_cast<std::size_t>(life.dma.channels)), progress_(life.jobs.size()) {
        for (const Job& job : life.jobs) {
            pieces_.push_back(pieces_of(job.instruction, life.packet_bytes));
            for (Piece& piece : pieces_.back()) {
                // The engine converts: what leaves its SRAM crosses as destination bytes, what comes as source bytes.
                const bool leaves = is_own(std::get<isa::DmaMacro>(job.instruction.macro).src);
                piece.wire_bytes = leaves ? piece.dst_bytes : piece.src_bytes;
            }
        }
        for (const Outside& signal : life.outside) {
            arriving_[signal.sent + life.signal_latency].push_back({signal.semaphore, signal.count});
        }
    }

    Life run() {
        life_.completed.assign(case_.jobs.size(), 0);
        life_.accounts.assign(channels_.size(), {});
        for (now_ = 0;; ++now_) {
            tick();
            if (completed_ == case_.jobs.size()) {
                return life_;
            }
            for (std::size_t c = 0; c < channels_.size(); ++c) {
                ++life_.accounts[c].at(state(channels_[c]));
            }
        }
    }

private:
    struct Channel {
        std::deque<std::size_t> queue;
        std::optional<std::size_t> preparing, sending;
        bool prepared = false;
        Cycle prepared_at = 0;
        std::deque<std::size_t> draining;  ///< sent or sending, not complete
        bool used = false;
    };
    struct Progress {
        std::size_t sent = 0;
        Cycle landed = 0;
        [[nodiscard]] bool launched(const std::vector<Piece>& pieces) const { return sent == pieces.size(); }
    };
    struct Path {
        std::uint64_t left = 0;  ///< bytes that can still begin to cross in this cycle
        std::uint64_t owed = 0;  ///< bytes of the last packet that cross in later cycles
        std::size_t turn = 0;
        bool held = false;  ///< by the bound
    };
    struct Flying {
        Cycle landing;
        std::uint64_t bytes;
    };

    void tick() {
        for (const auto& [semaphore, count] : arriving_[now_]) {
            semaphores_[semaphore] += count;
        }
        arriving_.erase(now_);
        sent_now_ = false;
        settle();
        std::erase_if(flying_, [this](const Flying& packet) { return packet.landing <= now_; });
        for (Path& path : paths_) {
            path.left = static_cast<std::uint64_t>(case_.dma.bytes_per_cycle);
            path.held = false;
            cross(path, 0);
        }
        for (bool sent = true; sent;) {
            sent = send_all(outbound_);
            sent = send_all(inbound_) || sent;
            settle();
        }
        for (Channel& channel : channels_) {
            complete(channel);
        }
    }

    void settle() {
        bool again = true;
        while (again) {
            again = issue();
            for (Channel& channel : channels_) {
                channel.prepared = channel.prepared_at <= now_;
                const bool goes_on = hand_over(channel);
                again = prepare(channel) || goes_on || again;
            }
        }
    }
    /// The control processor: one instruction after the other, each into its queue as soon as there is room.
    bool issue() {
        if (next_ == case_.jobs.size() || case_.jobs[next_].issued > now_) {
            return false;
        }
        Channel& channel = channels_[case_.jobs[next_].channel];
        if (channel.queue.size() >= static_cast<std::size_t>(case_.queue_depth)) {
            return false;
        }
        channel.queue.push_back(next_++);
        channel.used = true;
        return true;
    }
    [[nodiscard]] const isa::Instruction& text(std::size_t job) const { return case_.jobs[job].instruction; }
    [[nodiscard]] bool is_fence(std::size_t job) const {
        return std::holds_alternative<isa::FenceMacro>(text(job).macro);
    }
    bool prepare(Channel& channel) {
        if (channel.preparing || channel.queue.empty() || !take(channel.queue.front())) {
            return false;
        }
        channel.preparing = channel.queue.front();
        channel.queue.pop_front();
        channel.prepared = false;
        channel.prepared_at = now_ + (is_fence(*channel.preparing) ? 1 : static_cast<Cycle>(case_.dma.setup_cycles));
        return true;
    }
    /// All waits, or none.
    bool take(std::size_t job) {
        const std::vector<isa::SemUse>& waits = text(job).waits;
        const auto there = [this](const isa::SemUse& wait) {
            return semaphores_[static_cast<std::size_t>(wait.sem.index.base)] >= wait.count.base;
        };
        if (!std::all_of(waits.begin(), waits.end(), there)) {
            return false;
        }
        for (const isa::SemUse& wait : waits) {
            semaphores_[static_cast<std::size_t>(wait.sem.index.base)] -= wait.count.base;
        }
        return true;
    }
    /// What is prepared is sent when the one before it has been.
    bool hand_over(Channel& channel) {
        if (channel.sending || !channel.preparing || !channel.prepared) {
            return false;
        }
        const std::size_t job = *channel.preparing;
        channel.preparing.reset();
        channel.draining.push_back(job);
        if (!pieces_[job].empty()) {
            channel.sending = job;
        }
        return true;
    }

    [[nodiscard]] bool is_own(const isa::MemRef& ref) const {
        const bool tile = case_.location.level == isa::Level::tile;
        return ref.space == (tile ? isa::Space::tsram : isa::Space::csram) && ref.mask == 0 &&
               ref.unit.base == case_.location.unit;
    }
    [[nodiscard]] const Path& path_of(std::size_t job) const {
        const auto& macro = std::get<isa::DmaMacro>(text(job).macro);
        return is_own(macro.src) && !is_own(macro.dst) ? outbound_ : inbound_;
    }

    bool send_all(Path& path) {
        bool any = false;
        while (send(path)) {
            any = true;
        }
        return any;
    }
    /// One packet, if the path is free in this cycle and the bound allows it.
    bool send(Path& path) {
        path.held = false;
        for (std::size_t k = 0; path.left > 0 && k < channels_.size(); ++k) {
            const std::size_t c = (path.turn + k) % channels_.size();
            if (!channels_[c].sending || &path_of(*channels_[c].sending) != &path) {
                continue;
            }
            const std::size_t job = *channels_[c].sending;
            const Piece& piece = pieces_[job][progress_[job].sent];
            path.held = !fits(piece.src_bytes);
            if (path.held) {
                return false;
            }
            path.turn = (c + 1) % channels_.size();
            cross(path, std::max(piece.src_bytes, piece.dst_bytes));
            launch(channels_[c], job, piece);
            return true;
        }
        return false;
    }
    [[nodiscard]] bool fits(std::uint64_t bytes) const {
        std::uint64_t flying = 0;
        for (const Flying& packet : flying_) {
            flying += packet.bytes;
        }
        return flying == 0 || flying + bytes <= static_cast<std::uint64_t>(case_.dma.max_inflight_bytes);
    }
    static void cross(Path& path, std::uint64_t bytes) {
        path.owed += bytes;
        const std::uint64_t now = std::min(path.owed, path.left);
        path.owed -= now;
        path.left -= now;
    }
    void launch(Channel& channel, std::size_t job, const Piece& piece) {
        Progress& progress = progress_[job];
        const Cycle landing = now_ + flight(case_, case_.jobs[job], progress.sent).landing;
        life_.sent.push_back({now_, job, piece});
        sent_now_ = true;
        flying_.push_back({landing, piece.src_bytes});
        progress.landed = std::max(progress.landed, landing);
        ++progress.sent;
        if (progress.launched(pieces_[job])) {
            channel.sending.reset();
            hand_over(channel);  // at once: it may send in this cycle
            prepare(channel);
        }
    }

    void complete(Channel& channel) {
        while (!channel.draining.empty()) {
            const std::size_t job = channel.draining.front();
            if (!progress_[job].launched(pieces_[job]) || progress_[job].landed > now_) {
                return;
            }
            life_.completed[job] = now_;
            ++completed_;
            for (const isa::SemUse& signal : text(job).signals) {
                arriving_[now_ + case_.signal_latency].push_back(
                    {static_cast<std::size_t>(signal.sem.index.base), signal.count.base});
            }
            channel.draining.pop_front();
        }
    }

    [[nodiscard]] Life::State state(const Channel& channel) const {
        if (channel.sending) {
            return path_of(*channel.sending).held ? Life::kMemory : Life::kBusy;
        }
        if (channel.preparing) {
            return Life::kBusy;
        }
        if (!channel.draining.empty()) {
            return Life::kMemory;
        }
        if (!channel.queue.empty()) {
            return Life::kSemaphore;
        }
        // The control processor has finished when it has issued all.
        return channel.used && next_ < case_.jobs.size() ? Life::kControl : Life::kIdle;
    }

    const Case& case_;
    std::vector<std::vector<Piece>> pieces_;
    std::vector<Channel> channels_;
    std::vector<Progress> progress_;
    std::array<Path, 2> paths_;
    Path& outbound_ = paths_[0];
    Path& inbound_ = paths_[1];
    std::vector<Flying> flying_;
    std::map<std::size_t, std::int64_t> semaphores_;  ///< by index
    std::map<Cycle, std::vector<std::pair<std::size_t, std::int64_t>>> arriving_;
    std::size_t next_ = 0;  ///< job that is to be issued
    std::size_t completed_ = 0;
    Cycle now_ = 0;
    bool sent_now_ = false;  ///< a packet, in this cycle
    Life life_;
};

}  // namespace sluice::test
