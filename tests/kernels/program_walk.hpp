// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a program asks for, counted without a simulator: a plain interpreter runs every control program by itself, with
// no time and no semaphores, and adds up what its instructions move and multiply.
#include <algorithm>
#include <cstdint>
#include <variant>

#include "isa/chip_spec.hpp"
#include "isa/program.hpp"

namespace sluice::test {

struct Asked {
    std::uint64_t issued = 0;  ///< instructions, waits, signals, delays and table loads of the control processors
    std::uint64_t hbm_read = 0, hbm_written = 0;  ///< bytes of whole 32-byte beats, run by run
    std::uint64_t macs = 0;
};

class ProgramWalk {
public:
    ProgramWalk(const isa::Program& program, const isa::ChipSpec& chip) : program_(program), chip_(chip) {
        for (const isa::ControlProgram& control : program.controls) {
            for (std::int64_t unit = control.first; unit < control.first + control.count; ++unit) {
                env_ = {};
                const std::int64_t per_cluster = chip_.soc.tiles_per_cluster;
                const bool tile = control.level == isa::Level::tile;
                set(isa::Var::self, tile ? unit : 0);
                set(isa::Var::tile, tile ? unit % per_cluster : 0);
                set(isa::Var::cluster, tile ? unit / per_cluster : control.level == isa::Level::cluster ? unit : 0);
                depth_ = 0;
                block(control.body);
            }
        }
    }
    [[nodiscard]] const Asked& asked() const { return asked_; }

    void operator()(const isa::Instruction& instruction) {
        ++asked_.issued;
        std::visit(*this, instruction.macro);
    }
    void operator()(const isa::Loop& loop) {
        const std::int64_t count = loop.count.evaluate(env_);
        const isa::Var index = isa::loop_var(depth_++);
        for (std::int64_t i = 0; i < count; ++i) {
            set(index, i);
            block(*loop.body);
        }
        set(index, 0);
        --depth_;
    }
    void operator()(const isa::If& branch) {
        const auto& body = branch.value.evaluate(env_) >= 0 ? branch.then_body : branch.else_body;
        if (body) {
            block(*body);
        }
    }
    void operator()(const isa::WaitStatement& /*wait*/) { ++asked_.issued; }
    void operator()(const isa::SignalStatement& /*signal*/) { ++asked_.issued; }
    void operator()(const isa::DelayStatement& delay) { asked_.issued += delay.cycles.evaluate(env_) > 0 ? 1 : 0; }
    void operator()(const isa::LoadIndex& load) {
        ++asked_.issued;
        const auto table = std::find_if(program_.tables.begin(), program_.tables.end(),
                                        [&load](const isa::IndexTable& entry) { return entry.name == load.table; });
        set(isa::register_var(load.reg), isa::index_value(*table, load.element.evaluate(env_)));
    }
    void operator()(const isa::SetRegister& update) {
        const isa::Var reg = isa::register_var(update.reg);
        set(reg, update.value.evaluate(env_) + (update.add ? env_[static_cast<std::size_t>(reg)] : 0));
    }

    void operator()(const isa::FenceMacro& /*fence*/) {}
    void operator()(const isa::VectorMacro& /*vector*/) {}
    void operator()(const isa::ReshapeMacro& /*reshape*/) {}
    void operator()(const isa::TensorMacro& tensor) {
        asked_.macs += static_cast<std::uint64_t>(tensor.mb.evaluate(env_) * tensor.nb.evaluate(env_) *
                                                  tensor.kb.evaluate(env_) * 32 * 32 * 32);
    }
    void operator()(const isa::DmaMacro& dma) {
        const std::int64_t run = dma.run_bytes.evaluate(env_);
        if (dma.src.space == isa::Space::hbm) {
            asked_.hbm_read += beats(dma, dma.src.offset.evaluate(env_), run, true);
        }
        if (dma.dst.space == isa::Space::hbm) {
            asked_.hbm_written += beats(dma, dma.dst.offset.evaluate(env_), run, false);
        }
    }

private:
    void set(isa::Var var, std::int64_t value) { env_[static_cast<std::size_t>(var)] = value; }
    void block(const isa::Block& body) {
        for (const isa::Statement& statement : body) {
            std::visit(*this, statement.body);
        }
    }
    [[nodiscard]] std::uint64_t beats(const isa::DmaMacro& dma, std::int64_t offset, std::int64_t run, bool src) const {
        const auto dim = [&](std::size_t i) {
            return i < dma.dims.size() ? std::pair{dma.dims[i].count.evaluate(env_),
                                                   src ? dma.dims[i].src_stride : dma.dims[i].dst_stride}
                                       : std::pair{std::int64_t{1}, std::int64_t{0}};
        };
        const auto [inner, inner_stride] = dim(0);
        const auto [outer, outer_stride] = dim(1);
        std::uint64_t bytes = 0;
        for (std::int64_t j = 0; j < outer; ++j) {
            for (std::int64_t i = 0; i < inner; ++i) {
                const std::int64_t at = offset + i * inner_stride + j * outer_stride;
                bytes += static_cast<std::uint64_t>(((at + run + 31) / 32 - at / 32) * 32);
            }
        }
        return bytes;
    }

    const isa::Program& program_;
    const isa::ChipSpec& chip_;
    isa::Environment env_{};
    int depth_ = 0;
    Asked asked_;
};

}  // namespace sluice::test
