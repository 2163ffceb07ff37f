// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small programs for the toy chip, and what the verifier says of them.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "isa/chip_spec_reader.hpp"
#include "isa/text.hpp"
#include "isa/verifier.hpp"
#include "tests/support/files.hpp"

namespace sluice::test {

inline isa::ChipSpec toy_with(const std::vector<std::string>& sets) {
    return isa::read_chip("toy", sets, std::string(SLUICE_SOURCE_DIR) + "/configs").spec;
}
inline const isa::ChipSpec& toy() {
    static const isa::ChipSpec chip = toy_with({});
    return chip;
}

inline std::string header(const std::string& chip = "toy") {
    return fmt::format("disa 1\nprogram \"p\" chip \"{}\"\n", chip);
}
inline std::string control(const std::string& level, const std::string& body, std::int64_t count = 1) {
    return fmt::format("control \"main\" {} count {} from 0 {{\n{}\n}}\n", level, count, body);
}
/// A program of one tile.
inline std::string tile(const std::string& body, const std::string& declarations = "") {
    return header() + declarations + control("tile", body);
}
inline std::string cluster(const std::string& body) {
    return header() + control("cluster", body);
}
inline std::string issue(const std::string& queue, const std::string& content) {
    return fmt::format("issue {} \"the label\" node 0 {{ {} }}", queue, content);
}
inline std::string dma(const std::string& content) {
    return issue("tdma.0", "dma " + content);
}
inline std::string repeated(const std::string& text, std::int64_t count) {
    std::string out;
    for (std::int64_t i = 0; i < count; ++i) {
        out += text;
    }
    return out;
}
inline std::string vector(const std::string& steps, const std::string& name = "v") {
    return fmt::format("vector \"{}\" {{ pass {{ {} }} }}\n", name, steps);
}

inline std::string error(const std::string& text, const isa::ChipSpec& chip = toy()) {
    const isa::Program program = isa::read_text(text, "test");
    return input_error([&] { isa::verify(program, chip); });
}

inline const std::string kLabel = "control program main, tdma.0 \"the label\": ";

/// Accepted with the limit itself, refused one beyond it: `message` says where and what.
inline void check_limit(const std::string& within, const std::string& beyond, const std::string& where,
                        const std::string& message, const isa::ChipSpec& chip = toy()) {
    INFO(within);
    CHECK(error(within, chip) == "");
    INFO(beyond);
    const std::string found = error(beyond, chip);
    CHECK_THAT(found, Catch::StartsWith(where));
    CHECK_THAT(found, Catch::Contains(message));
}

class Random {
public:
    explicit Random(unsigned seed) : engine_(seed) {}
    std::int64_t pick(std::int64_t lowest, std::int64_t highest) {
        return std::uniform_int_distribution<std::int64_t>(lowest, highest)(engine_);
    }
    bool once_in(std::int64_t times) { return pick(1, times) == 1; }

private:
    std::mt19937 engine_;
};

/// Runs control statements plainly, every iteration for itself: the truth that the verifier is held against. Throws
/// Stopped where a register leaves its range, or after 100,000 statements.
class PlainRun {
public:
    struct Stopped : std::runtime_error {
        using std::runtime_error::runtime_error;
    };
    using Visit = std::function<void(const isa::Statement&, const isa::Environment&)>;

    PlainRun(const isa::Program& program, const isa::ChipSpec& chip, Visit visit) : visit_(std::move(visit)) {
        for (const isa::ControlProgram& control : program.controls) {
            for (std::int64_t unit = control.first; unit < control.first + control.count; ++unit) {
                env_ = {};
                const std::int64_t per_cluster = chip.soc.tiles_per_cluster;
                if (control.level == isa::Level::tile) {
                    set(isa::Var::self, unit);
                    set(isa::Var::tile, unit % per_cluster);
                    set(isa::Var::cluster, unit / per_cluster);
                } else if (control.level == isa::Level::cluster) {
                    set(isa::Var::cluster, unit);
                }
                depth_ = 0;
                block(control.body);
            }
        }
    }

private:
    void set(isa::Var var, std::int64_t value) { env_[static_cast<std::size_t>(var)] = value; }
    void block(const isa::Block& body) {
        for (const isa::Statement& statement : body) {
            if (++statements_ > 100'000) {
                throw Stopped("too long");
            }
            if (const auto* loop = std::get_if<isa::Loop>(&statement.body)) {
                const std::int64_t count = loop->count.evaluate(env_);
                const isa::Var index = isa::loop_var(depth_++);
                for (std::int64_t i = 0; i < count; ++i) {
                    set(index, i);
                    block(*loop->body);
                }
                set(index, 0);
                --depth_;
            } else if (const auto* branch = std::get_if<isa::If>(&statement.body)) {
                block(branch->value.evaluate(env_) >= 0 ? *branch->then_body : *branch->else_body);
            } else if (const auto* update = std::get_if<isa::SetRegister>(&statement.body)) {
                const isa::Var reg = isa::register_var(update->reg);
                const std::int64_t value =
                    update->value.evaluate(env_) + (update->add ? env_[static_cast<std::size_t>(reg)] : 0);
                if (value < update->lowest || value > update->highest) {
                    throw Stopped("out of range");
                }
                set(reg, value);
            } else {
                visit_(statement, env_);
            }
        }
    }

    Visit visit_;
    isa::Environment env_{};
    int depth_ = 0;
    std::int64_t statements_ = 0;
};

}  // namespace sluice::test
