// SPDX-License-Identifier: Apache-2.0
#pragma once
// DISA: the machine language. A Program holds control programs (control stream) that issue Instructions (data stream):
// wait on semaphores -> one macro -> signal semaphores. isa/README.md teaches the text form (.disa); text.hpp reads and
// writes it exactly; verifier.hpp checks a program against a chip.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "isa/affine.hpp"
#include "isa/format.hpp"
#include "isa/number/block_scale.hpp"
#include "isa/units.hpp"

namespace sluice::isa {

// ---- places -------------------------------------------------------------------------------------------------------

/// hbm: one flat address space (unit 0), spread over stacks by the chip's map. csram: unit = cluster. tsram: unit =
/// tile number on the chip (Var::self).
enum class Space : std::uint8_t { hbm, csram, tsram };

/// chip : 13 | space : 3 | unit : 8 | offset : 40.
struct Address {
    std::uint16_t chip = 0;
    Space space = Space::hbm;
    std::uint8_t unit = 0;
    std::uint64_t offset = 0;
    friend bool operator==(const Address&, const Address&) = default;
};
[[nodiscard]] std::uint64_t pack(const Address& address);
[[nodiscard]] Address unpack_address(std::uint64_t bits);

/// A place in memory as a control program names it. With a mask, a destination is multicast: bit i stands for
/// unit + i (tiles of one cluster, or clusters); the same offset in each.
struct MemRef {
    Space space = Space::hbm;
    Affine unit;
    std::uint64_t mask = 0;
    Affine offset;
    friend bool operator==(const MemRef&, const MemRef&) = default;
};

enum class Level : std::uint8_t { tile, cluster, chip };

/// chip : 13 | level : 3 | unit : 8 | index : 16.
struct SemId {
    std::uint16_t chip = 0;
    Level level = Level::tile;
    std::uint8_t unit = 0;
    std::uint16_t index = 0;
    friend bool operator==(const SemId&, const SemId&) = default;
};
[[nodiscard]] std::uint64_t pack(const SemId& id);
[[nodiscard]] SemId unpack_sem(std::uint64_t bits);

/// A semaphore as a control program names it; a mask signals unit + i for every bit i (never used in a wait).
struct SemRef {
    Level level = Level::tile;
    Affine unit;
    std::uint64_t mask = 0;
    Affine index;
    friend bool operator==(const SemRef&, const SemRef&) = default;
};

/// Wait: until value >= count, then subtract count, at issue. Signal: add count once the macro's last write is visible.
struct SemUse {
    SemRef sem;
    Affine count = 1;
    friend bool operator==(const SemUse&, const SemUse&) = default;
};

// ---- macros -------------------------------------------------------------------------------------------------------

struct DmaDim {
    Affine count = 1;
    std::int64_t src_stride = 0;  ///< bytes
    std::int64_t dst_stride = 0;
    friend bool operator==(const DmaDim&, const DmaDim&) = default;
};

/// Moves runs of `run_bytes` contiguous source bytes; the outer dimensions step over runs, last dimension slowest.
/// With src_format != dst_format, elements are converted at line rate and the destination run is
/// run_bytes * bits(dst) / bits(src) long; runs, offsets and strides are whole elements.
struct DmaMacro {
    MemRef src;
    MemRef dst;
    Affine run_bytes = 0;
    std::vector<DmaDim> dims;  ///< at most 2 beyond the run: 1-3 dimensions in all
    Format src_format = Format::raw;
    Format dst_format = Format::raw;
    friend bool operator==(const DmaMacro&, const DmaMacro&) = default;
};

/// C[mb x nb] (+)= A[mb x kb] * B[nb x kb]^T in 32 x 32 blocks. Operands lie in the tile's own TSRAM at byte offsets;
/// strides are bytes between blocks. C is FP32 in the output region. Loops run m, n, k with k innermost; a C block is
/// read (if accumulate) and written once per macro. Of the last block row of A and C only `last_rows` rows are read and
/// written; the time is that of a whole one. isa/number/README.md states the arithmetic.
struct TensorMacro {
    Affine mb = 1, nb = 1, kb = 1;
    Affine last_rows = kBlockEdge;
    Affine a_offset, b_offset, c_offset;
    std::int64_t a_stride_m = 0, a_stride_k = 0;
    std::int64_t b_stride_n = 0, b_stride_k = 0;
    std::int64_t c_stride_m = 0, c_stride_n = 0;
    Format a_format = Format::bf16;
    Format b_format = Format::bf16;
    bool b_transposed = false;  ///< B blocks are stored k-major (32 k rows of 32 n), as a V cache is
    bool accumulate = false;
    std::optional<SemUse> row_signal;  ///< signalled once per finished block row of C
    friend bool operator==(const TensorMacro&, const TensorMacro&) = default;
};

/// Runs a vector program over `rows` x `cols` elements. operands[i] is the memory operand i that the program's loads
/// and stores name.
struct VectorOperand {
    Affine offset;                  ///< in the tile's own TSRAM
    std::int64_t row_stride = 0;    ///< bytes between rows (row-major), or between 32-row block rows (blocked)
    std::int64_t block_stride = 0;  ///< bytes between 32 x 32 blocks of one block row; 0 = row-major
    std::int64_t block_rows =
        kBlockEdge;  ///< rows that a block holds: fewer in a packed block, whose scales follow them
    friend bool operator==(const VectorOperand&, const VectorOperand&) = default;
};
struct VectorMacro {
    std::string program;  ///< name of a VectorProgram
    Affine rows = 1, cols = 1;
    std::vector<VectorOperand> operands;
    /// VectorOp::mask keeps column j of row i where j <= mask_limit + (mask_by_row ? i mod 32 : 0).
    Affine mask_limit = 0;
    bool mask_by_row = false;
    friend bool operator==(const VectorMacro&, const VectorMacro&) = default;
};

enum class ReshapeKind : std::uint8_t { pack_blocks, unpack_blocks, transpose_blocks };

/// Rearranges rows x cols elements of the source between row-major and blocked layout inside the tile's TSRAM, or
/// transposes blocks within a blocked layout (the destination has cols x rows). Blocks of a block row are contiguous.
/// The formats are the same, or both unscaled and of at least 8 bits, and elements are converted on the way.
struct ReshapeMacro {
    ReshapeKind kind = ReshapeKind::pack_blocks;
    Affine rows = 1, cols = 1;
    Affine src_offset, dst_offset;
    std::int64_t src_stride = 0, dst_stride = 0;  ///< bytes between rows, or between block rows
    Format src_format = Format::bf16;
    Format dst_format = Format::bf16;
    friend bool operator==(const ReshapeMacro&, const ReshapeMacro&) = default;
};

/// No work: joins semaphores in the order of a queue. Takes one cycle.
struct FenceMacro {
    friend bool operator==(const FenceMacro&, const FenceMacro&) = default;
};

using Macro = std::variant<FenceMacro, DmaMacro, TensorMacro, VectorMacro, ReshapeMacro>;

enum class Engine : std::uint8_t { tdma, ttu, tvp, reshaper, cdma };

/// One in-order queue: an engine and its channel (DMA) or context (TTU, TVP); 0 for the reshaper.
struct QueueId {
    Engine engine = Engine::tdma;
    std::uint8_t lane = 0;
    friend bool operator==(const QueueId&, const QueueId&) = default;
};

struct Instruction {
    QueueId queue;
    std::vector<SemUse> waits;
    Macro macro;
    std::vector<SemUse> signals;
    Affine node;        ///< id of the plan node it serves
    std::string label;  ///< for people: shown in deadlock and race reports
    friend bool operator==(const Instruction&, const Instruction&) = default;
};

// ---- vector programs ----------------------------------------------------------------------------------------------

enum class VectorOp : std::uint8_t {
    load,      ///< d = operand[k], converted to fp32 on the way
    store,     ///< operand[k] = a (converted on store: one slot unless fp32); a block-scaled format: a / b, and scale b
    load_row,  ///< d = operand[k], one value a row, broadcast along the row
    store_row,  ///< operand[k] = a, one value a row
    load_col,   ///< d = operand[k], one value a column, the same in every row
    constant,   ///< d = value
    add,
    sub,
    mul,
    fma,
    max,
    min,
    keep_below,  ///< d = a where a < b, else -infinity
    exp,
    reciprocal,
    rsqrt,
    mask,           ///< d = a where the macro's mask keeps the column, else -infinity
    row_sum,        ///< reduction along the row, one value a row: in binary64 in ascending columns, rounded once
    row_max,        ///< NaN if there is one
    group_max_abs,  ///< max |a| over each 32 columns
    block_scale,    ///< power of two that scales elements of `format`, from the largest magnitude a of their group
};

struct VectorStep {
    VectorOp op = VectorOp::load;
    std::int8_t dst = -1;  ///< value register written
    std::int8_t a = -1, b = -1, c = -1;
    std::int8_t operand = -1;      ///< memory operand of loads and stores
    Format format = Format::fp32;  ///< memory format of loads and stores; of `block_scale`, that of the store
    double value = 0.0;            ///< of `constant`
    ScaleRounding rounding = ScaleRounding::floor;  ///< of `block_scale`
    friend bool operator==(const VectorStep&, const VectorStep&) = default;
};

/// One pass over the elements: every step for every element, then the reductions are available to the next pass.
/// `per_row`: the pass touches one value per row (cols = 1). Rows are independent of one another. Values are FP32,
/// every operation is rounded once to nearest even (exp, reciprocal and rsqrt from their binary64 value); only values
/// of a row (reductions, load_row, what a per_row pass computes, constants) live on in later passes.
struct VectorPass {
    bool per_row = false;
    std::vector<VectorStep> steps;
    friend bool operator==(const VectorPass&, const VectorPass&) = default;
};

struct VectorProgram {
    std::string name;
    std::vector<VectorPass> passes;
    friend bool operator==(const VectorProgram&, const VectorProgram&) = default;
};

// ---- control programs ---------------------------------------------------------------------------------------------

struct Statement;
using Block = std::vector<Statement>;

/// Runs body max(count, 0) times; the index is loop_var(depth of nesting).
struct Loop {
    Affine count = 0;
    std::shared_ptr<Block> body;
};
/// Runs `then_body` if value >= 0, else `else_body`.
struct If {
    Affine value;
    std::shared_ptr<Block> then_body;
    std::shared_ptr<Block> else_body;
};
struct WaitStatement {
    SemUse use;
};
struct SignalStatement {
    SemUse use;
};
/// Longest delay: two seconds at 2 GHz, more than any step waits, and few enough that no run's clock overflows.
constexpr std::int64_t kMaxDelayCycles = std::int64_t{1} << 32;
/// The control processor does nothing for `cycles`, 0 to kMaxDelayCycles; its queues go on. No effect on values.
struct DelayStatement {
    Affine cycles = 0;
};
/// register = table[element]; the table is a section of index values in local SRAM.
struct LoadIndex {
    std::uint8_t reg = 0;
    std::string table;
    Affine element;
};
/// register = value (set) or register += value (add). A register starts at 0. Where its new value leaves
/// [lowest, highest] the run stops with an error; the verifier takes the range as given.
struct SetRegister {
    std::uint8_t reg = 0;
    bool add = false;
    Affine value;
    std::int64_t lowest = 0;
    std::int64_t highest = 0;
};

struct Statement {
    std::variant<Instruction, Loop, If, WaitStatement, SignalStatement, DelayStatement, LoadIndex, SetRegister> body;
};
[[nodiscard]] bool operator==(const Statement& a, const Statement& b);

/// One control program, run by every control processor of its level in [first, first + count).
struct ControlProgram {
    std::string name;
    Level level = Level::tile;
    std::int64_t first = 0;  ///< tile number on the chip, cluster, or 0
    std::int64_t count = 1;
    Block body;
    friend bool operator==(const ControlProgram& a, const ControlProgram& b) = default;
};

// ---- the whole ----------------------------------------------------------------------------------------------------

/// What a region holds, for runs on values: a matrix of which each row is contiguous, or in 32 x 32 blocks, row by row
/// of blocks.
struct RegionTensor {
    std::int64_t rows = 1, cols = 1;
    Format format = Format::fp32;
    bool row_major = false;
    friend bool operator==(const RegionTensor&, const RegionTensor&) = default;
};
/// Bytes that it takes, whole blocks and bytes.
[[nodiscard]] Bytes tensor_bytes(const RegionTensor& tensor);

/// A named piece of memory: what lies where. For csram and tsram it exists in every unit of [first_unit,
/// first_unit + units).
struct Region {
    std::string name;
    Space space = Space::hbm;
    std::int64_t first_unit = 0;
    std::int64_t units = 1;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::optional<RegionTensor> holds;  ///< none: bytes
    bool input = false;                 ///< written by the host before the run
    bool output = false;                ///< read by the host after it
    friend bool operator==(const Region&, const Region&) = default;
};

/// A table of index values (token ids, page tables). In timing-only runs `source` "uniform" draws each value from
/// [lowest, highest] by splitmix64(seed, position); "sequence" counts up from lowest. A run on values may give them.
struct IndexTable {
    std::string name;
    std::int64_t count = 0;
    std::int64_t lowest = 0;
    std::int64_t highest = 0;
    std::string source = "uniform";
    std::uint64_t seed = 0;
    std::vector<std::int64_t> values;  ///< `count` of them instead of the source's, or none
    friend bool operator==(const IndexTable&, const IndexTable&) = default;
};
/// Throws InputError for an unknown source.
[[nodiscard]] std::int64_t index_value(const IndexTable& table, std::int64_t position);

struct SemInit {
    SemId sem;
    std::int64_t units = 1;  ///< the same value in `units` consecutive units
    std::int64_t value = 0;
    friend bool operator==(const SemInit&, const SemInit&) = default;
};

/// Plan nodes first, first + stride, ... (`count` of them): what instructions are accounted to. A `{}` in the name
/// stands for first_layer + position.
struct NodeRange {
    std::int64_t first = 0;
    std::int64_t count = 1;
    std::int64_t stride = 1;
    std::int64_t first_layer = 0;
    std::string name;
    friend bool operator==(const NodeRange&, const NodeRange&) = default;
};

struct Program {
    std::string name;
    std::string chip;  ///< name of the chip it was written for
    std::vector<NodeRange> nodes;
    std::vector<Region> regions;
    std::vector<IndexTable> tables;
    std::vector<SemInit> semaphores;
    std::vector<VectorProgram> vector_programs;
    std::vector<ControlProgram> controls;
    friend bool operator==(const Program&, const Program&) = default;
};

/// Names by node id; ids that no range covers are "node N". Throws InputError if ranges overlap or exceed 2^20 nodes.
[[nodiscard]] std::vector<std::string> node_names(const Program& program);

[[nodiscard]] const VectorProgram& find_vector_program(const Program& program, const std::string& name);

/// Control statements and instructions in the text of all control programs (not executions): its size.
[[nodiscard]] std::size_t statement_count(const Program& program);

[[nodiscard]] std::string_view name(Space space);
[[nodiscard]] std::string_view name(Level level);
[[nodiscard]] std::string_view name(Engine engine);
[[nodiscard]] std::string_view name(VectorOp op);
[[nodiscard]] std::string_view name(ReshapeKind kind);

}  // namespace sluice::isa
