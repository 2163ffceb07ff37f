// SPDX-License-Identifier: Apache-2.0
#include "isa/program.hpp"

#include <fmt/format.h>

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

constexpr std::int64_t kMaxNodes = 65'536;

std::uint64_t splitmix64(std::uint64_t state) {
    std::uint64_t z = state + 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

bool same_block(const std::shared_ptr<Block>& a, const std::shared_ptr<Block>& b) {
    const bool a_empty = !a || a->empty();
    const bool b_empty = !b || b->empty();
    return (a_empty && b_empty) || (!a_empty && !b_empty && *a == *b);
}

std::size_t count_block(const Block& block);

std::size_t count_block(const std::shared_ptr<Block>& block) {
    return block ? count_block(*block) : 0;
}

std::size_t count_block(const Block& block) {
    std::size_t total = 0;
    for (const Statement& statement : block) {
        total += 1;
        if (const auto* loop = std::get_if<Loop>(&statement.body)) {
            total += count_block(loop->body);
        } else if (const auto* branch = std::get_if<If>(&statement.body)) {
            total += count_block(branch->then_body) + count_block(branch->else_body);
        }
    }
    return total;
}

}  // namespace

std::uint64_t pack(const Address& address) {
    return (static_cast<std::uint64_t>(address.chip) << 51) | (static_cast<std::uint64_t>(address.space) << 48) |
           (static_cast<std::uint64_t>(address.unit) << 40) | address.offset;
}

Address unpack_address(std::uint64_t bits) {
    return {static_cast<std::uint16_t>(bits >> 51), static_cast<Space>((bits >> 48) & 0x7),
            static_cast<std::uint8_t>((bits >> 40) & 0xff), bits & ((std::uint64_t{1} << 40) - 1)};
}

std::uint64_t pack(const SemId& id) {
    return (static_cast<std::uint64_t>(id.chip) << 27) | (static_cast<std::uint64_t>(id.level) << 24) |
           (static_cast<std::uint64_t>(id.unit) << 16) | id.index;
}

SemId unpack_sem(std::uint64_t bits) {
    return {static_cast<std::uint16_t>(bits >> 27), static_cast<Level>((bits >> 24) & 0x7),
            static_cast<std::uint8_t>((bits >> 16) & 0xff), static_cast<std::uint16_t>(bits & 0xffff)};
}

bool operator==(const Statement& a, const Statement& b) {
    if (a.body.index() != b.body.index()) {
        return false;
    }
    struct Same {
        const Statement& other;
        bool operator()(const Instruction& x) const { return x == std::get<Instruction>(other.body); }
        bool operator()(const Loop& x) const {
            const Loop& y = std::get<Loop>(other.body);
            return x.count == y.count && same_block(x.body, y.body);
        }
        bool operator()(const If& x) const {
            const If& y = std::get<If>(other.body);
            return x.value == y.value && same_block(x.then_body, y.then_body) && same_block(x.else_body, y.else_body);
        }
        bool operator()(const WaitStatement& x) const { return x.use == std::get<WaitStatement>(other.body).use; }
        bool operator()(const SignalStatement& x) const { return x.use == std::get<SignalStatement>(other.body).use; }
        bool operator()(const DelayStatement& x) const {
            return x.cycles == std::get<DelayStatement>(other.body).cycles;
        }
        bool operator()(const LoadIndex& x) const {
            const LoadIndex& y = std::get<LoadIndex>(other.body);
            return x.reg == y.reg && x.table == y.table && x.element == y.element;
        }
        bool operator()(const SetRegister& x) const {
            const SetRegister& y = std::get<SetRegister>(other.body);
            return x.reg == y.reg && x.add == y.add && x.value == y.value && x.lowest == y.lowest &&
                   x.highest == y.highest;
        }
    };
    return std::visit(Same{b}, a.body);
}

std::int64_t index_value(const IndexTable& table, std::int64_t position) {
    if (!table.values.empty()) {
        return table.values.at(static_cast<std::size_t>(position));
    }
    if (table.source == "sequence") {
        return table.lowest + position % (table.highest - table.lowest + 1);
    }
    if (table.source == "uniform") {
        const auto span = static_cast<std::uint64_t>(table.highest - table.lowest) + 1;
        return table.lowest +
               static_cast<std::int64_t>(
                   splitmix64(table.seed * 0x100000001b3ULL + static_cast<std::uint64_t>(position)) % span);
    }
    throw InputError("index table " + table.name,
                     fmt::format("unknown source \"{}\"; known: uniform, sequence", table.source));
}

std::vector<std::string> node_names(const Program& program) {
    std::int64_t highest = -1;
    for (const NodeRange& range : program.nodes) {
        const bool sane = range.first >= 0 && range.count >= 1 && range.stride >= 1 && range.first < kMaxNodes &&
                          range.count <= kMaxNodes && range.stride <= kMaxNodes &&
                          range.first + (range.count - 1) * range.stride < kMaxNodes;
        if (!sane) {
            throw InputError("node " + range.name, fmt::format("ids must lie in 0..{}", kMaxNodes - 1));
        }
        highest = std::max(highest, range.first + (range.count - 1) * range.stride);
    }
    std::vector<std::string> names(static_cast<std::size_t>(highest + 1));
    for (const NodeRange& range : program.nodes) {
        for (std::int64_t i = 0; i < range.count; ++i) {
            std::string& slot = names[static_cast<std::size_t>(range.first + i * range.stride)];
            if (!slot.empty()) {
                throw InputError("node " + range.name,
                                 fmt::format("its id {} is \"{}\" already", range.first + i * range.stride, slot));
            }
            slot = range.name;
            if (const auto at = slot.find("{}"); at != std::string::npos) {
                slot.replace(at, 2, std::to_string(range.first_layer + i));
            }
        }
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i].empty()) {
            names[i] = fmt::format("node {}", i);
        }
    }
    return names;
}

const VectorProgram& find_vector_program(const Program& program, const std::string& name) {
    for (const VectorProgram& entry : program.vector_programs) {
        if (entry.name == name) {
            return entry;
        }
    }
    throw InputError("vector program " + name, "not defined in program " + program.name);
}

std::size_t statement_count(const Program& program) {
    std::size_t total = 0;
    for (const ControlProgram& control : program.controls) {
        total += count_block(control.body);
    }
    return total;
}

std::string_view name(Space space) {
    switch (space) {
        case Space::hbm: return "hbm";
        case Space::csram: return "csram";
        case Space::tsram: return "tsram";
    }
    return "?";
}

std::string_view name(Level level) {
    switch (level) {
        case Level::tile: return "tile";
        case Level::cluster: return "cluster";
        case Level::chip: return "chip";
    }
    return "?";
}

std::string_view name(Engine engine) {
    switch (engine) {
        case Engine::tdma: return "tdma";
        case Engine::ttu: return "ttu";
        case Engine::tvp: return "tvp";
        case Engine::reshaper: return "reshaper";
        case Engine::cdma: return "cdma";
    }
    return "?";
}

Bytes tensor_bytes(const RegionTensor& tensor) {
    const auto rows = static_cast<Bytes>(tensor.rows);
    if (tensor.row_major) {
        const Bytes bits = static_cast<Bytes>(tensor.cols) * static_cast<Bytes>(info(tensor.format).element_bits);
        return rows * ceil_div<Bytes>(bits, 8);
    }
    const auto blocks = [](std::int64_t size) { return static_cast<Bytes>(ceil_div(size, kBlockEdge)); };
    return blocks(tensor.rows) * blocks(tensor.cols) * block_bytes(tensor.format);
}

std::string_view name(VectorOp op) {
    switch (op) {
        case VectorOp::load: return "load";
        case VectorOp::store: return "store";
        case VectorOp::load_row: return "load_row";
        case VectorOp::store_row: return "store_row";
        case VectorOp::load_col: return "load_col";
        case VectorOp::constant: return "constant";
        case VectorOp::add: return "add";
        case VectorOp::sub: return "sub";
        case VectorOp::mul: return "mul";
        case VectorOp::fma: return "fma";
        case VectorOp::max: return "max";
        case VectorOp::min: return "min";
        case VectorOp::keep_below: return "keep_below";
        case VectorOp::exp: return "exp";
        case VectorOp::reciprocal: return "reciprocal";
        case VectorOp::rsqrt: return "rsqrt";
        case VectorOp::mask: return "mask";
        case VectorOp::row_sum: return "row_sum";
        case VectorOp::row_max: return "row_max";
        case VectorOp::group_max_abs: return "group_max_abs";
        case VectorOp::block_scale: return "block_scale";
    }
    return "?";
}

std::string_view name(ReshapeKind kind) {
    switch (kind) {
        case ReshapeKind::pack_blocks: return "pack_blocks";
        case ReshapeKind::unpack_blocks: return "unpack_blocks";
        case ReshapeKind::transpose_blocks: return "transpose_blocks";
    }
    return "?";
}

}  // namespace sluice::isa
