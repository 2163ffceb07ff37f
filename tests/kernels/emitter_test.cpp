// SPDX-License-Identifier: Apache-2.0
// Does a split give every unit to one tile, and one unit more to the tiles that are meant?
#include "kernels/emitter.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <utility>

#include "tests/kernels/compiled.hpp"

using namespace sluice;
using isa::Affine;

namespace {

/// What the first SetRegister that a tile comes to says.
const isa::SetRegister* first_set(const isa::Block& block, const isa::Environment& env) {
    for (const isa::Statement& statement : block) {
        if (const auto* set = std::get_if<isa::SetRegister>(&statement.body)) {
            return set;
        }
        if (const auto* branch = std::get_if<isa::If>(&statement.body)) {
            const auto& body = branch->value.evaluate(env) >= 0 ? branch->then_body : branch->else_body;
            if (const isa::SetRegister* set = body ? first_set(*body, env) : nullptr) {
                return set;
            }
        }
    }
    return nullptr;
}

}  // namespace

TEST_CASE("every unit of a split is one tile's, wherever the tiles with one more begin") {
    const isa::ChipSpec chip = test::chip("maia200");
    const kernels::Grouping grouping{2, 2, chip.soc.tiles_per_cluster};
    const std::int64_t tiles = grouping.tiles_per_group();
    kernels::VectorPrograms vectors(isa::ScaleRounding::floor);
    for (const std::int64_t units : {1, 5, 17, 18, 19, 35, 36, 100}) {
        const kernels::Split split{units, tiles};
        for (std::int64_t wide_from = 0; wide_from < tiles; ++wide_from) {
            INFO(units << " units, one more from tile " << wide_from);
            const auto emit = std::make_unique<kernels::Emitter>(chip, grouping, 1, kernels::TileMemory{}, vectors);
            const Affine position = isa::variable(isa::Var::self) - emit->first_tile();
            // The register's range carries the number of units, its value the first of them.
            emit->for_split(split, position, wide_from, [&](std::int64_t count, const Affine& first) {
                emit->tile.set_register(kernels::reg::token, first, 0, count);
            });
            const isa::ControlProgram program = emit->tile.finish();
            std::map<std::int64_t, int> owners;
            for (std::int64_t tile = 0; tile < tiles; ++tile) {
                isa::Environment env{};
                env[static_cast<std::size_t>(isa::Var::self)] = emit->first_tile() + tile;
                const isa::SetRegister* set = first_set(program.body, env);
                REQUIRE(set != nullptr);
                const bool wide = (tile - wide_from + tiles) % tiles < split.remainder();
                CHECK(set->highest == split.least() + (wide ? 1 : 0));
                for (std::int64_t unit = 0; unit < set->highest; ++unit) {
                    ++owners[set->value.evaluate(env) + unit];
                }
            }
            CHECK(static_cast<std::int64_t>(owners.size()) == units);
            CHECK(owners.begin()->first == 0);
            CHECK(owners.rbegin()->first == units - 1);
        }
    }
}
