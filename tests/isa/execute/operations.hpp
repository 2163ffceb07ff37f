// SPDX-License-Identifier: Apache-2.0
#pragma once
// One instruction of tile 0 on memories of its own.
#include <random>
#include <string>
#include <vector>

#include "isa/execute/perform.hpp"
#include "tests/isa/execute/programs.hpp"

namespace sluice::test {

/// An instruction with its program, which leaves the semaphores that it signals changed.
class OneInstruction {
public:
    OneInstruction(const std::string& queue, const std::string& content, const std::string& declarations = "")
        : program_(unverified(declarations + tile(issue(queue, "it", content)))), numbers_(toy()) {
        resolver_.emplace(program_, toy(), numbers_);
        operation_ = resolver_->resolve(std::get<isa::Instruction>(program_.controls.front().body.front().body), {},
                                        {isa::Level::tile, 0});
    }
    OneInstruction(const OneInstruction&) = delete;
    OneInstruction& operator=(const OneInstruction&) = delete;

    [[nodiscard]] const isa::Operation& operation() const { return operation_; }
    [[nodiscard]] std::vector<isa::Access> accesses(std::int64_t part) const {
        return resolver_->accesses(operation_, part);
    }
    void run(isa::Memories& memories, std::int64_t part) const {
        if (const auto* dma = std::get_if<isa::DmaOperation>(&operation_.body)) {
            isa::write_dma(*dma, isa::read_dma(*dma, memories), memories);
        } else {
            isa::perform(operation_, part, memories);
        }
    }
    void run(isa::Memories& memories) const {
        for (std::int64_t part = 0; part < operation_.parts(); ++part) {
            run(memories, part);
        }
    }

private:
    isa::Program program_;
    isa::SemaphoreNumbers numbers_;
    std::optional<isa::Resolver> resolver_;
    isa::Operation operation_;
};

class Random {
public:
    explicit Random(std::uint64_t seed) : engine_(seed) {}
    std::int64_t between(std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
    }
    bool chance(int percent) { return between(1, 100) <= percent; }
    template <class Value>
    const Value& of(const std::vector<Value>& values) {
        return values[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(values.size()) - 1))];
    }

private:
    std::mt19937_64 engine_;
};

/// What the tensor unit takes.
inline std::vector<std::pair<isa::Format, isa::Format>> tensor_pairs() {
    std::vector<std::pair<isa::Format, isa::Format>> out;
    for (const isa::FormatInfo& a : isa::all_formats()) {
        for (const isa::FormatInfo& b : isa::all_formats()) {
            const bool shorts = a.element_bits <= 8 && b.element_bits <= 8 && a.format != isa::Format::raw &&
                                b.format != isa::Format::raw;
            if (shorts || (a.format == isa::Format::bf16 && b.format == isa::Format::bf16)) {
                out.emplace_back(a.format, b.format);
            }
        }
    }
    return out;
}

inline std::vector<isa::Format> number_formats(int least_bits, bool block_scaled) {
    std::vector<isa::Format> out;
    for (const isa::FormatInfo& format : isa::all_formats()) {
        if (format.format != isa::Format::raw && format.element_bits >= least_bits &&
            (block_scaled || !format.block_scaled)) {
            out.push_back(format.format);
        }
    }
    return out;
}

}  // namespace sluice::test
