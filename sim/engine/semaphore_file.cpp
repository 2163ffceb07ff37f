// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/semaphore_file.hpp"

#include <fmt/format.h>

#include "isa/errors.hpp"

namespace sluice::sim {

namespace {
constexpr std::uint32_t kNoMessage = ~std::uint32_t{0};
}

SemaphoreFile::SemaphoreFile(const isa::ChipSpec& chip, Scheduler& scheduler, MessageNetwork& network)
    : chip_(chip),
      scheduler_(scheduler),
      network_(network),
      endpoints_(chip),
      limit_((std::int64_t{1} << chip.semaphores.width_bits) - 1),
      cluster_base_(static_cast<std::size_t>(isa::tile_count(chip) * chip.semaphores.per_tile)),
      chip_base_(cluster_base_ + static_cast<std::size_t>(chip.soc.clusters * chip.semaphores.per_cluster)),
      semaphores_(chip_base_ + static_cast<std::size_t>(chip.semaphores.per_chip)) {}

void SemaphoreFile::initialise(const isa::Program& program) {
    for (const isa::SemInit& init : program.semaphores) {
        for (std::int64_t i = 0; i < init.units; ++i) {
            const std::string where = fmt::format("initial value of {} semaphore {} #{}", isa::name(init.sem.level),
                                                  init.sem.unit + i, init.sem.index);
            if (init.value < 0 || init.value > limit_) {
                throw InputError(where, fmt::format("is {}, must lie in 0..{}", init.value, limit_));
            }
            semaphores_[index(init.sem.level, init.sem.unit + i, init.sem.index, where)].value = init.value;
        }
    }
}

SemIndex SemaphoreFile::index(isa::Level level, std::int64_t unit, std::int64_t number,
                              const std::string& where) const {
    const isa::SemaphoreSpec& spec = chip_.semaphores;
    std::int64_t units = 1;
    std::int64_t per_unit = spec.per_chip;
    std::size_t base = chip_base_;
    if (level == isa::Level::tile) {
        units = isa::tile_count(chip_);
        per_unit = spec.per_tile;
        base = 0;
    } else if (level == isa::Level::cluster) {
        units = chip_.soc.clusters;
        per_unit = spec.per_cluster;
        base = cluster_base_;
    }
    if (unit < 0 || unit >= units || number < 0 || number >= per_unit) {
        throw InputError(where, fmt::format("no {} semaphore {} #{}: the chip has {} units with {} each",
                                            isa::name(level), unit, number, units, per_unit));
    }
    return static_cast<SemIndex>(base + static_cast<std::size_t>(unit * per_unit + number));
}

std::size_t SemaphoreFile::try_take(const SemTake* takes, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        if (semaphores_[takes[i].semaphore].value < takes[i].count) {
            return i;
        }
    }
    for (std::size_t i = 0; i < count; ++i) {
        semaphores_[takes[i].semaphore].value -= takes[i].count;
    }
    return kTaken;
}

void SemaphoreFile::enlist(SemIndex index, SemWaiter& waiter) {
    Semaphore& semaphore = semaphores_[index];
    waiter.next_waiter_ = nullptr;
    if (semaphore.last != nullptr) {
        semaphore.last->next_waiter_ = &waiter;
    } else {
        semaphore.first = &waiter;
    }
    semaphore.last = &waiter;
}

Endpoint SemaphoreFile::endpoint(isa::Level level, std::uint32_t unit) const {
    switch (level) {
        case isa::Level::tile: return Endpoints::tile(unit);
        case isa::Level::cluster: return endpoints_.cluster(unit);
        case isa::Level::chip: break;
    }
    return endpoints_.chip();
}

Cycle SemaphoreFile::latency(const Location& from, isa::Level level, std::uint32_t unit) const {
    const isa::SemaphoreSpec& spec = chip_.semaphores;
    const auto tiles = static_cast<std::uint32_t>(chip_.soc.tiles_per_cluster);
    if (from.level == isa::Level::chip || level == isa::Level::chip) {
        return static_cast<Cycle>(spec.latency_global_cycles);
    }
    if (from.level == isa::Level::tile && level == isa::Level::tile && from.unit == unit) {
        return static_cast<Cycle>(spec.latency_local_cycles);
    }
    const std::uint32_t from_cluster = from.level == isa::Level::tile ? from.unit / tiles : from.unit;
    const std::uint32_t to_cluster = level == isa::Level::tile ? unit / tiles : unit;
    return static_cast<Cycle>(from_cluster == to_cluster ? spec.latency_cluster_cycles : spec.latency_global_cycles);
}

void SemaphoreFile::send(const Location& from, const SemGive& give, std::uint32_t unit, Cause cause,
                         const std::string* where) {
    const SemIndex target = index(give.level, unit, give.index, where != nullptr ? *where : "signal");
    std::uint32_t slot = free_message_;
    if (slot == kNoMessage) {
        slot = static_cast<std::uint32_t>(messages_.size());
        messages_.push_back({});
    } else {
        free_message_ = messages_[slot].next_free;
    }
    messages_[slot] = {target, give.count, cause, where, kNoMessage};
    network_.send(endpoint(from.level, from.unit), endpoint(give.level, unit), latency(from, give.level, unit), *this,
                  slot);
}

void SemaphoreFile::signal(const Location& from, const SemGive& give, Cause cause, const std::string* where) {
    if (give.count == 0) {
        return;
    }
    if (give.mask == 0) {
        send(from, give, give.unit, cause, where);
        return;
    }
    for (std::uint32_t bit = 0; bit < 64; ++bit) {
        if ((give.mask >> bit & 1U) != 0) {
            send(from, give, give.unit + bit, cause, where);
        }
    }
}

void SemaphoreFile::on_message(std::uint64_t payload) {
    const auto slot = static_cast<std::uint32_t>(payload);
    const Message message = messages_[slot];
    messages_[slot].next_free = free_message_;
    free_message_ = slot;
    Semaphore& semaphore = semaphores_[message.semaphore];
    semaphore.value += message.count;
    if (semaphore.value > limit_) {
        throw InputError(message.where != nullptr ? *message.where : "signal",
                         fmt::format("{} overflows at cycle {}: {} exceeds {}", describe(message.semaphore),
                                     scheduler_.now(), semaphore.value, limit_));
    }
    SemWaiter* waiter = semaphore.first;
    semaphore.first = nullptr;
    semaphore.last = nullptr;
    while (waiter != nullptr) {
        SemWaiter* next = waiter->next_waiter_;
        waiter->on_semaphore(message.cause);
        waiter = next;
    }
}

std::string SemaphoreFile::describe(SemIndex semaphore) const {
    const isa::SemaphoreSpec& spec = chip_.semaphores;
    if (semaphore >= chip_base_) {
        return fmt::format("chip semaphore #{}", semaphore - chip_base_);
    }
    if (semaphore >= cluster_base_) {
        const auto at = static_cast<std::int64_t>(semaphore - cluster_base_);
        return fmt::format("cluster {} semaphore #{}", at / spec.per_cluster, at % spec.per_cluster);
    }
    return fmt::format("tile {} semaphore #{}", semaphore / spec.per_tile, semaphore % spec.per_tile);
}

bool SemaphoreFile::gives(const SemGive& give, SemIndex semaphore) const {
    for (std::uint32_t bit = 0; bit < 64; ++bit) {
        const bool named = give.mask == 0 ? bit == 0 : (give.mask >> bit & 1U) != 0;
        if (named && index(give.level, give.unit + bit, give.index, "signal") == semaphore) {
            return true;
        }
    }
    return false;
}

}  // namespace sluice::sim
