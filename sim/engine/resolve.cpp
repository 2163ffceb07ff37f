// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/resolve.hpp"

#include <fmt/format.h>

#include <bit>

#include "isa/errors.hpp"
#include "sim/engine/streams.hpp"
#include "sim/engine/timing.hpp"

namespace sluice::sim {

namespace {

constexpr std::int64_t kMaxNode = std::int64_t{1} << 20;
struct Resolver {
    const isa::Environment& env;
    const Location& location;
    const std::string& where;
    EngineContext& context;
    Task& task;

    [[nodiscard]] std::int64_t value(const isa::Affine& affine) const { return affine.evaluate(env); }
    [[nodiscard]] std::int64_t positive(const isa::Affine& affine, const char* what) const {
        const std::int64_t result = value(affine);
        if (result < 1) {
            throw InputError(where, fmt::format("{} is {}, must be at least 1", what, result));
        }
        return result;
    }
    void within(std::int64_t first, std::int64_t end, std::int64_t limit, const char* what) const {
        if (first < 0 || end > limit) {
            throw InputError(where, fmt::format("{} [{}, {}) leaves its memory of {} bytes", what, first, end, limit));
        }
    }
    [[nodiscard]] std::int64_t tsram_bytes() const { return context.chip.tsram.bytes; }

    void operator()(const isa::FenceMacro&) { task.cycles = 1; }
    void operator()(const isa::DmaMacro& macro);
    void operator()(const isa::TensorMacro& macro);
    void operator()(const isa::VectorMacro& macro);
    void operator()(const isa::ReshapeMacro& macro);

    [[nodiscard]] TransferEnd end_of(const isa::MemRef& ref, bool destination) const;
    void check_extent(const TransferEnd& end, const DmaWalk::Shape& shape, bool destination) const;
    void operand(std::int64_t offset, std::int64_t count_a, std::int64_t stride_a, std::int64_t count_b,
                 std::int64_t stride_b, std::int64_t bytes, std::int64_t limit, const char* what) const;
    void operate(const isa::TensorMacro& macro, std::int64_t blocks, std::int64_t products);
};

EnergyEvent mac_event(isa::Format a, isa::Format b) {
    const isa::TensorRate rate_a = isa::info(a).rate;
    const isa::TensorRate rate_b = isa::info(b).rate;
    switch (std::max(rate_a, rate_b)) {
        case isa::TensorRate::fp4: return EnergyEvent::mac_fp4;
        case isa::TensorRate::fp6: return EnergyEvent::mac_fp6;
        case isa::TensorRate::bf16: return EnergyEvent::mac_bf16;
        default: break;
    }
    return std::min(rate_a, rate_b) == isa::TensorRate::fp4 ? EnergyEvent::mac_fp8xfp4 : EnergyEvent::mac_fp8;
}

void Resolver::operand(std::int64_t offset, std::int64_t count_a, std::int64_t stride_a, std::int64_t count_b,
                       std::int64_t stride_b, std::int64_t bytes, std::int64_t limit, const char* what) const {
    const std::int64_t reach_a = (count_a - 1) * stride_a;
    const std::int64_t reach_b = (count_b - 1) * stride_b;
    within(offset + std::min<std::int64_t>(reach_a, 0) + std::min<std::int64_t>(reach_b, 0),
           offset + std::max<std::int64_t>(reach_a, 0) + std::max<std::int64_t>(reach_b, 0) + bytes, limit, what);
}

void Resolver::operate(const isa::TensorMacro& macro, std::int64_t blocks, std::int64_t products) {
    const auto a_bytes = isa::block_bytes(macro.a_format);
    const auto b_bytes = isa::block_bytes(macro.b_format);
    const auto block_products = static_cast<std::uint64_t>(products);
    const auto accumulators = static_cast<std::uint64_t>(blocks * isa::kAccumulatorBlockBytes);
    task.tsram = {block_products * (a_bytes + b_bytes), macro.accumulate ? accumulators : 0, accumulators};
    constexpr std::uint64_t kMacsPerProduct = isa::kBlockEdge * isa::kBlockEdge * isa::kBlockEdge;
    task.energy.add(mac_event(macro.a_format, macro.b_format), block_products * kMacsPerProduct);
}

void Resolver::operator()(const isa::TensorMacro& macro) {
    const std::int64_t mb = positive(macro.mb, "mb");
    const std::int64_t nb = positive(macro.nb, "nb");
    const std::int64_t kb = positive(macro.kb, "kb");
    operand(value(macro.a_offset), mb, macro.a_stride_m, kb, macro.a_stride_k,
            static_cast<std::int64_t>(isa::block_bytes(macro.a_format)), tsram_bytes(), "operand A");
    operand(value(macro.b_offset), nb, macro.b_stride_n, kb, macro.b_stride_k,
            static_cast<std::int64_t>(isa::block_bytes(macro.b_format)), tsram_bytes(), "operand B");
    operand(value(macro.c_offset), mb, macro.c_stride_m, nb, macro.c_stride_n, isa::kAccumulatorBlockBytes,
            context.chip.tsram.output_region_bytes, "C in the output region");
    const TensorTiming timing =
        tensor_timing(mb, nb, kb, macro.a_format, macro.b_format, macro.accumulate, context.chip.ttu);
    task.cycles = timing.total;
    task.first_row = timing.first_row;
    task.row_cycles = timing.row;
    task.resource = Resource::ttu;
    if (macro.row_signal) {
        task.rows = mb;
        task.row_signal = resolve_signal(*macro.row_signal, env, where, context);
    }
    task.streams =
        tensor_streams(macro, {mb, nb, kb, value(macro.a_offset), value(macro.b_offset), value(macro.c_offset), {}},
                       timing, context.chip.ttu);
    operate(macro, mb * nb, mb * nb * kb);
}

void Resolver::operator()(const isa::VectorMacro& macro) {
    const auto it = context.vector_programs.find(macro.program);
    if (it == context.vector_programs.end()) {
        throw InputError(where, fmt::format("no vector program \"{}\"", macro.program));
    }
    const std::int64_t rows = positive(macro.rows, "rows");
    const std::int64_t cols = positive(macro.cols, "cols");
    for (const isa::VectorOperand& entry : macro.operands) {
        within(value(entry.offset), value(entry.offset) + 1, tsram_bytes(), "vector operand");
    }
    task.cycles = std::max<Cycle>(vector_cycles(*it->second, rows, cols, context.chip.tvp), 1);
    isa::VectorOperation operation{it->second, rows, cols, {}, 0};
    for (const isa::VectorOperand& entry : macro.operands) {
        operation.offsets.push_back(value(entry.offset));
    }
    task.streams = vector_streams(macro, operation, context.chip.tvp);
    task.resource = Resource::tvp;
    const VectorWork work = vector_work(*it->second, rows, cols);
    task.tsram = {0, work.read, work.written};
    task.energy.add(EnergyEvent::vec_fp32_op, work.operations);
    task.energy.add(EnergyEvent::vec_convert, work.conversions);
    task.energy.add(EnergyEvent::vec_transcendental, work.transcendentals);
}

void Resolver::operator()(const isa::ReshapeMacro& macro) {
    const std::int64_t rows = positive(macro.rows, "rows");
    const std::int64_t cols = positive(macro.cols, "cols");
    within(value(macro.src_offset), value(macro.src_offset) + 1, tsram_bytes(), "source");
    within(value(macro.dst_offset), value(macro.dst_offset) + 1, tsram_bytes(), "destination");
    task.cycles = reshape_cycles(rows, cols, macro.src_format, macro.dst_format, context.chip.reshaper);
    task.streams = reshape_streams(macro, {rows, cols, value(macro.src_offset), value(macro.dst_offset)}, task.cycles,
                                   context.chip.reshaper);
    task.resource = Resource::reshaper;
    const auto row_count = static_cast<Bytes>(rows);
    task.tsram = {0, row_count * isa::row_bytes(macro.src_format, cols),
                  row_count * isa::row_bytes(macro.dst_format, cols)};
    task.energy.add(EnergyEvent::reshaper_element, static_cast<std::uint64_t>(rows * cols));
}

TransferEnd Resolver::end_of(const isa::MemRef& ref, bool destination) const {
    TransferEnd end;
    end.space = ref.space;
    end.mask = ref.mask;
    const char* side = destination ? "destination" : "source";
    if (ref.space == isa::Space::hbm) {
        if (ref.mask != 0) {
            throw InputError(where, "a destination in HBM cannot be multicast");
        }
        return end;
    }
    if (!destination && ref.mask != 0) {
        throw InputError(where, "a source cannot have a multicast mask");
    }
    const std::int64_t unit = value(ref.unit);
    const bool tiles = ref.space == isa::Space::tsram;
    const std::int64_t units = tiles ? isa::tile_count(context.chip) : context.chip.soc.clusters;
    const std::int64_t last = unit + (ref.mask == 0 ? 0 : 63 - std::countl_zero(ref.mask));
    if (unit < 0 || last >= units) {
        throw InputError(where, fmt::format("{} unit {} of {}: the chip has {}", side, unit < 0 ? unit : last,
                                            isa::name(ref.space), units));
    }
    const std::int64_t first = unit + (ref.mask == 0 ? 0 : std::countr_zero(ref.mask));
    if (tiles && first / context.chip.soc.tiles_per_cluster != last / context.chip.soc.tiles_per_cluster) {
        throw InputError(where, "a multicast reaches the tiles of one cluster only");
    }
    end.unit = static_cast<std::uint32_t>(unit);
    return end;
}

void Resolver::check_extent(const TransferEnd& end, const DmaWalk::Shape& shape, bool destination) const {
    const std::int64_t* strides = destination ? shape.dst_strides : shape.src_strides;
    const auto offset = static_cast<std::int64_t>(destination ? shape.dst_offset : shape.src_offset);
    const std::int64_t run = destination ? shape.run_bytes * shape.dst_bits / shape.src_bits : shape.run_bytes;
    std::int64_t limit = tsram_bytes();
    if (end.space == isa::Space::hbm) {
        limit = static_cast<std::int64_t>(isa::hbm_bytes(context.chip));
    } else if (end.space == isa::Space::csram) {
        limit = context.chip.csram.bytes;
    }
    operand(offset, shape.counts[0], strides[0], shape.counts[1], strides[1], run, limit,
            destination ? "destination" : "source");
}

void Resolver::operator()(const isa::DmaMacro& macro) {
    Transfer& transfer = task;
    transfer.src = end_of(macro.src, false);
    transfer.dst = end_of(macro.dst, true);
    transfer.issuer = endpoint_of(location, context.chip);
    DmaWalk::Shape shape;
    shape.src_offset = static_cast<std::uint64_t>(value(macro.src.offset));
    shape.dst_offset = static_cast<std::uint64_t>(value(macro.dst.offset));
    shape.run_bytes = value(macro.run_bytes);
    if (macro.dims.size() > 2) {
        throw InputError(where, fmt::format("{} DMA dimensions beyond the run; at most 2", macro.dims.size()));
    }
    for (std::size_t i = 0; i < macro.dims.size(); ++i) {
        shape.counts[i] = value(macro.dims[i].count);
        shape.src_strides[i] = macro.dims[i].src_stride;
        shape.dst_strides[i] = macro.dims[i].dst_stride;
    }
    if (macro.src_format != macro.dst_format) {
        shape.src_bits = isa::info(macro.src_format).element_bits;
        shape.dst_bits = isa::info(macro.dst_format).element_bits;
    }
    shape.granule = static_cast<std::uint64_t>(context.chip.noc.packet_bytes);
    const bool from_hbm = transfer.src.space == isa::Space::hbm;
    const bool to_hbm = transfer.dst.space == isa::Space::hbm;
    shape.cut_src = from_hbm || !to_hbm;
    shape.cut_dst = to_hbm;
    if (from_hbm && to_hbm && shape.src_bits != shape.dst_bits) {
        throw InputError(where, "a copy within HBM cannot convert");
    }
    if (shape.run_bytes > 0 && shape.counts[0] > 0 && shape.counts[1] > 0) {
        check_extent(transfer.src, shape, false);
        check_extent(transfer.dst, shape, true);
    }
    const auto is_own = [&](const TransferEnd& end) {
        const bool same_level =
            end.space == (location.level == isa::Level::tile ? isa::Space::tsram : isa::Space::csram);
        return same_level && end.mask == 0 && end.unit == location.unit;
    };
    const bool own_source = is_own(transfer.src);
    task.outward = own_source && !is_own(transfer.dst);
    task.wire_is_dst = own_source;
    task.walk.start(shape);
}

}  // namespace

std::uint32_t endpoint_of(const Location& location, const isa::ChipSpec& chip) {
    return location.level == isa::Level::tile ? location.unit
                                              : static_cast<std::uint32_t>(isa::tile_count(chip)) + location.unit;
}

SemTake resolve_wait(const isa::SemUse& use, const isa::Environment& env, const std::string& where,
                     const EngineContext& context) {
    if (use.sem.mask != 0) {
        throw InputError(where, "a wait cannot have a mask");
    }
    const std::int64_t count = use.count.evaluate(env);
    if (count < 0) {
        throw InputError(where, fmt::format("waits for {}", count));
    }
    return {context.semaphores.index(use.sem.level, use.sem.unit.evaluate(env), use.sem.index.evaluate(env), where),
            count};
}

SemGive resolve_signal(const isa::SemUse& use, const isa::Environment& env, const std::string& where,
                       const EngineContext& context) {
    const std::int64_t unit = use.sem.unit.evaluate(env);
    const std::int64_t index = use.sem.index.evaluate(env);
    const std::int64_t count = use.count.evaluate(env);
    if (count < 0) {
        throw InputError(where, fmt::format("signals {}", count));
    }
    const std::int64_t last = use.sem.mask == 0 ? unit : unit + 63 - std::countl_zero(use.sem.mask);
    const std::int64_t first = use.sem.mask == 0 ? unit : unit + std::countr_zero(use.sem.mask);
    (void)context.semaphores.index(use.sem.level, first, index, where);
    (void)context.semaphores.index(use.sem.level, last, index, where);
    return {use.sem.level, static_cast<std::uint32_t>(unit), use.sem.mask, static_cast<std::uint32_t>(index), count};
}

Task* resolve(const isa::Instruction& instruction, const isa::Environment& env, const Location& location,
              const std::string& where, EngineContext& context) {
    const isa::ControlSpec& limits = context.chip.control;
    if (instruction.waits.size() > std::min<std::size_t>(static_cast<std::size_t>(limits.max_waits), Task::kMaxUses) ||
        instruction.signals.size() >
            std::min<std::size_t>(static_cast<std::size_t>(limits.max_signals), Task::kMaxUses)) {
        throw InputError(where,
                         fmt::format("{} waits and {} signals; the chip takes {} and {}", instruction.waits.size(),
                                     instruction.signals.size(), limits.max_waits, limits.max_signals));
    }
    Task* task = context.tasks.take();
    task->text = &instruction;
    task->where = &where;
    const std::int64_t node = instruction.node.evaluate(env);
    if (node < 0 || node >= kMaxNode) {
        throw InputError(where, fmt::format("plan node {} must lie in 0..{}", node, kMaxNode - 1));
    }
    task->node = static_cast<NodeId>(node);
    context.ledger.reserve_nodes(static_cast<std::size_t>(node) + 1);
    for (const isa::SemUse& use : instruction.waits) {
        task->waits[task->wait_count++] = resolve_wait(use, env, where, context);
    }
    for (const isa::SemUse& use : instruction.signals) {
        task->signals[task->signal_count++] = resolve_signal(use, env, where, context);
    }
    std::visit(Resolver{env, location, where, context, *task}, instruction.macro);
    const auto semaphore_operations =
        static_cast<std::uint64_t>(task->wait_count) + task->signal_count + static_cast<std::uint64_t>(task->rows);
    task->energy.add(EnergyEvent::semaphore_operation, semaphore_operations);
    task->energy.add(EnergyEvent::tsram_operand_read_byte, task->tsram.operand_read);
    task->energy.add(EnergyEvent::tsram_read_byte, task->tsram.read);
    task->energy.add(EnergyEvent::tsram_write_byte, task->tsram.written);
    return task;
}

}  // namespace sluice::sim
