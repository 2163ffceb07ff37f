// SPDX-License-Identifier: Apache-2.0
#include "kernels/product.hpp"

#include <algorithm>

#include "isa/errors.hpp"

namespace sluice::kernels {

using isa::Affine;
using isa::DmaMacro;
using isa::MemRef;
using isa::SemUse;
using isa::Space;
using isa::TensorMacro;
using isa::Var;

namespace {

constexpr std::int64_t kFirstStepParts = 4;

/// Calls body(k blocks, first step, last step, offset in k blocks) for every k step; equal steps become a loop.
template <class Body>
void for_k_steps(ControlBuilder& builder, const Product& product, const Body& body) {
    const KSteps steps = k_steps(product.shape, product.tiling);
    if (steps.count == 1) {
        body(steps.last, true, true, Affine(0));
        return;
    }
    const std::int64_t first = steps.width(0);
    body(first, true, false, Affine(0));
    const auto loop = [&](std::int64_t from, std::int64_t end, std::int64_t width) {
        builder.loop(end - from,
                     [&](const Affine& i) { body(width, false, false, i * width + steps.first_block(from)); });
    };
    loop(1, steps.wide_count, steps.wide);
    loop(std::max<std::int64_t>(1, steps.wide_count), steps.count - 1, steps.narrow);
    body(steps.last, false, true, Affine(steps.first_block(steps.count - 1)));
}

/// The tile's side of one product, for tiles that have `units` units from `first_unit` on.
class TileProduct {
public:
    TileProduct(Emitter& emit, const Product& product, std::int64_t units, Affine first_unit)
        : emit_(emit),
          tile_(emit.tile),
          product_(product),
          units_(units),
          first_unit_(std::move(first_unit)),
          slice_stride_(product.shape.unit_blocks * product.shape.k_blocks * block(product.shape.b)),
          full_(product.shape.row_blocks / product.tiling.m),
          rest_(product.shape.row_blocks % product.tiling.m) {}

    void emit() {
        const std::int64_t chunks = product_.tiling.n_chunks;
        const std::int64_t width = units_ / chunks;
        const std::int64_t wider = units_ % chunks;
        tile_.loop(wider, [&](const Affine& c) { row_steps(width + 1, c * (width + 1), c); });
        tile_.loop(chunks - wider,
                   [&](const Affine& c) { row_steps(width, c * width + wider * (width + 1), c + wider); });
        // Chunks without units, always the last ones, leave nothing in the region.
        if (rest_ == 0 && units_ > 0) {
            drain(product_.tiling.m);
        }
    }

private:
    /// All rows of one n chunk. `iteration` counts the uses of the output region since it was last drained.
    void row_steps(std::int64_t width, const Affine& unit, const Affine& chunk_number) {
        const std::int64_t m = product_.tiling.m;
        chunk_number_ = chunk_number;
        tile_.loop(full_, [&](const Affine& i) {
            row_step_ = i;
            chunk(m, i * m, width, unit, rest_ == 0 ? chunk_number * full_ + i : i);
        });
        if (rest_ == 0) {
            return;
        }
        if (full_ > 0 && width > 0) {
            drain(m);
        }
        row_step_ = Affine(full_);
        chunk(rest_, Affine(full_ * m), width, unit, 0);
        if (width > 0) {
            drain(rest_);
        }
    }

    /// One output-stationary macro nest: m row blocks x `width` units over all of k.
    void chunk(std::int64_t m, const Affine& first_row, std::int64_t width, const Affine& unit,
               const Affine& iteration) {
        if (width == 0) {
            skip_chunk(m);
            return;
        }
        const std::int64_t n = width * product_.shape.unit_blocks;
        const Affine chunk_base = product_.weights + (first_unit_ + unit) * slice_stride_;
        for_k_steps(tile_, product_, [&](std::int64_t k, bool first, bool last, const Affine& k_offset) {
            stream(n, k, chunk_base, k_offset * (n * block(product_.shape.b)), last);
            if (first) {
                first_step(m, n, k, last, iteration);
            } else {
                TensorMacro step = macro(m, n, k, 0, k_offset, true);
                if (last) {
                    step.row_signal = SemUse{own_tile_sem(tile_sem::acc_done), 1};
                }
                tile_.issue(queue::kTensor, operand_waits(), step, operand_signals(), "multiply");
            }
            emit_.advance(tile_, reg::stream);
            if (!product_.local) {
                emit_.advance(tile_, reg::activation);
            }
        });
        for_row_groups(m, [&](std::int64_t at, std::int64_t rows) {
            for_pieces(rows, width, [&](std::int64_t done, std::int64_t units) {
                const std::int64_t column = done * product_.shape.unit_blocks;
                product_.epilogue({first_row + at, rows, first_unit_ + unit + done, units,
                                   (at * n + column) * isa::kAccumulatorBlockBytes, n * isa::kAccumulatorBlockBytes,
                                   done == 0, done + units == width});
            });
        });
    }

    template <class Body>
    void for_pieces(std::int64_t rows, std::int64_t units, const Body& body) {
        const std::int64_t most =
            std::max<std::int64_t>(1, product_.piece_blocks / (rows * product_.shape.unit_blocks));
        const std::int64_t pieces = ceil_div(units, most);
        const std::int64_t each = ceil_div(units, pieces);
        for (std::int64_t done = 0; done < units; done += each) {
            body(done, std::min(each, units - done));
        }
    }

    void stream(std::int64_t n, std::int64_t k, const Affine& chunk_base, const Affine& offset, bool last_k) {
        const bool from_panel = product_.panel >= 0;
        const MemRef src = from_panel
                               ? emit_.own_csram(isa::variable(Var::tile, panel_slot()) + offset + product_.panel)
                               : MemRef{Space::hbm, 0, 0, chunk_base + offset};
        const auto load = [&](bool first, bool last) {
            std::vector<SemUse> waits{{own_tile_sem(tile_sem::b_free), 1}};
            std::vector<SemUse> signals{{own_tile_sem(tile_sem::b_full), 1}};
            if (first) {
                waits.push_back({own_tile_sem(tile_sem::panel_full), 1});
            }
            if (last && last_k) {
                signals.push_back({own_cluster_sem(cluster_sem::panel_free), 1});
            }
            emit_.memory.stream.check_fits(n * k * block(product_.shape.b), product_.name + " weights");
            const DmaMacro macro{src,
                                 emit_.tsram(emit_.memory.stream.at()),
                                 n * k * block(product_.shape.b),
                                 {},
                                 isa::Format::raw,
                                 isa::Format::raw};
            tile_.issue(queue::kStream, waits, macro, signals, "stream weights");
        };
        if (!from_panel) {
            load(false, false);
            return;
        }
        // The first row step reads what has just come; the last one makes room for the next chunk, if there is one. A
        // group with fewer rows than others may have a single row step, which does both.
        const std::int64_t last_step = full_ + (rest_ > 0 ? 1 : 0) - 1;
        const auto by_step = [&](bool frees) {
            tile_.branch(
                row_step_ * -1, [&] { load(true, frees && last_step == 0); },
                [&] {
                    tile_.branch(
                        row_step_ - last_step, [&] { load(false, frees); }, [&] { load(false, false); });
                });
        };
        tile_.branch(
            Affine(product_.tiling.n_chunks - 2) - chunk_number_, [&] { by_step(true); }, [&] { by_step(false); });
    }
    [[nodiscard]] std::int64_t panel_slot() const { return panel_slot_bytes(product_.shape, product_.tiling); }

    /// The first k step overwrites the region: it runs in a few parts, each as soon as the epilogue has emptied its
    /// rows.
    void first_step(std::int64_t m, std::int64_t n, std::int64_t k, bool last, const Affine& iteration) {
        const std::int64_t part_rows = ceil_div(m, kFirstStepParts);
        tile_.branch(iteration - 1, [&] {
            const SemUse rows{own_tile_sem(tile_sem::acc_free), std::min(part_rows, m)};
            tile_.fence(queue::kTensor, {rows}, {}, "output region free");
        });
        for (std::int64_t at = 0; at < m; at += part_rows) {
            const std::int64_t rows = std::min(part_rows, m - at);
            TensorMacro part = macro(rows, n, k, at, 0, false);
            if (last) {
                part.row_signal = SemUse{own_tile_sem(tile_sem::acc_done), 1};
            }
            const std::vector<SemUse> signals = at + rows == m ? operand_signals() : std::vector<SemUse>{};
            const auto issue = [&](const std::vector<SemUse>& waits) {
                tile_.issue(queue::kTensor, waits, part, signals, "multiply");
            };
            if (at == 0) {
                issue(operand_waits());
            } else {
                const SemUse free{own_tile_sem(tile_sem::acc_free), rows};
                tile_.branch(
                    iteration - 1, [&] { issue({free}); }, [&] { issue({}); });
            }
        }
    }

    /// Tiles without units here still take part in the multicast and in the count of finished pieces. They count from
    /// the queue that waits for the multicast: from the store queue, which waits for nothing here, they would run ahead
    /// and pay in the next product for a tile that still works on this one.
    void skip_chunk(std::int64_t m) {
        tile_.loop(k_steps(product_.shape, product_.tiling).count, [&](const Affine&) {
            tile_.fence(queue::kTensor, {{own_tile_sem(tile_sem::a_full), 1}},
                        {{activation_slot_free(emit_.memory.activation), 1}}, "no work here");
            emit_.advance(tile_, reg::activation);
        });
        for_row_groups(m, [&](std::int64_t, std::int64_t) {
            if (!product_.finished.empty()) {
                tile_.fence(queue::kTensor, {}, product_.finished, "nothing to store");
            }
        });
    }

    /// Waits until the epilogue has emptied the region after the last macro.
    void drain(std::int64_t m) {
        tile_.fence(queue::kTensor, {{own_tile_sem(tile_sem::acc_free), m}}, {}, "output region free");
    }

    template <class Body>
    void for_row_groups(std::int64_t m, const Body& body) {
        const std::int64_t group = row_group_blocks(product_);
        for (std::int64_t at = 0; at < m; at += group) {
            body(at, std::min(group, m - at));
        }
    }

    /// Rows from `row` on of the row step, times k blocks from `k_offset` on.
    [[nodiscard]] TensorMacro macro(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t row,
                                    const Affine& k_offset, bool accumulate) const {
        TensorMacro out;
        out.mb = m;
        out.nb = n;
        out.kb = k;
        out.a_stride_k = block(product_.shape.a);
        out.a_stride_m = (product_.local ? product_.shape.k_blocks : k) * out.a_stride_k;
        out.b_stride_k = block(product_.shape.b);
        out.b_stride_n = k * out.b_stride_k;
        out.c_stride_n = isa::kAccumulatorBlockBytes;
        out.c_stride_m = n * isa::kAccumulatorBlockBytes;
        out.a_offset = product_.local ? k_offset * out.a_stride_k + row * out.a_stride_m + product_.local->base
                                      : emit_.memory.activation.at(row * out.a_stride_m);
        out.b_offset = emit_.memory.stream.at();
        out.c_offset = row * out.c_stride_m;
        out.a_format = product_.shape.a;
        out.b_format = product_.shape.b;
        out.accumulate = accumulate;
        out.last_rows = product_.local ? product_.local->rows : Affine(product_.valid_rows);
        return out;
    }

    [[nodiscard]] std::vector<SemUse> operand_waits() const {
        if (product_.local) {
            return {{own_tile_sem(tile_sem::b_full), 1}};
        }
        return {{own_tile_sem(tile_sem::a_full), 1}, {own_tile_sem(tile_sem::b_full), 1}};
    }
    [[nodiscard]] std::vector<SemUse> operand_signals() const {
        if (product_.local) {
            return {{own_tile_sem(tile_sem::b_free), 1}};
        }
        return {{own_tile_sem(tile_sem::b_free), 1}, {activation_slot_free(emit_.memory.activation), 1}};
    }

    Emitter& emit_;
    ControlBuilder& tile_;
    const Product& product_;
    std::int64_t units_;
    Affine first_unit_;
    std::int64_t slice_stride_;
    std::int64_t full_, rest_;  ///< row steps of m row blocks, and row blocks of the last one
    Affine row_step_, chunk_number_;
};

/// The cluster multicasts one chunk of A to its tiles.
void multicast(Emitter& emit, const Product& product, std::int64_t m, std::int64_t k, const Affine& first_row,
               const Affine& k_offset) {
    const std::int64_t a_block = block(product.shape.a);
    const std::int64_t row_stride = product.shape.k_blocks * a_block;
    emit.memory.activation.check_fits(m * k * a_block, product.name + " activations");
    BlockRows copy;
    copy.src = product.a;
    copy.src.offset = product.a.offset + first_row * row_stride + k_offset * a_block;
    copy.dst = {Space::tsram, isa::variable(Var::cluster, emit.grouping.tiles_per_cluster),
                low_mask(emit.grouping.tiles_per_cluster), emit.memory.activation.at()};
    copy.format = product.shape.a;
    copy.blocks = k;
    copy.row_blocks = m;
    copy.src_row_stride = row_stride;
    copy.dst_row_stride = k * a_block;
    copy.rows = m == 1 ? product.valid_rows : isa::kBlockEdge;
    issue_all(emit.cluster, queue::kCluster,
              {{activation_slot_free(emit.memory.activation), emit.grouping.tiles_per_cluster}}, copy_block_rows(copy),
              {{tiles_of_cluster_sem(emit.grouping, tile_sem::a_full), 1}}, "multicast activations");
    emit.advance(emit.cluster, reg::activation);
}

/// One k step of chunk `c` of every tile's weights, from HBM to the panel in CSRAM.
void fetch_panel(Emitter& emit, const Product& product, std::int64_t c, std::int64_t k, const Affine& k_offset) {
    ControlBuilder& cluster = emit.cluster;
    const std::int64_t tiles = emit.grouping.tiles_per_cluster;
    const Split split{product.shape.units, product.shape.tiles};
    const std::int64_t unit_bytes = product.shape.unit_blocks * product.shape.k_blocks * block(product.shape.b);
    const std::int64_t slot = panel_slot_bytes(product.shape, product.tiling);
    const auto copy = [&](const Affine& t, std::int64_t units, const Affine& first_unit) {
        const Split parts{units, product.tiling.n_chunks};
        const std::int64_t width = parts.least() + (c < parts.remainder() ? 1 : 0);
        const std::int64_t before = c * parts.least() + std::min(c, parts.remainder());
        const Affine offset = k_offset * (width * product.shape.unit_blocks * block(product.shape.b));
        const DmaMacro macro{{Space::hbm, 0, 0, product.weights + (first_unit + before) * unit_bytes + offset},
                             emit.own_csram(t * slot + offset + product.panel),
                             width * product.shape.unit_blocks * k * block(product.shape.b),
                             {},
                             isa::Format::raw,
                             isa::Format::raw};
        const isa::SemRef full{isa::Level::tile, isa::variable(Var::cluster, tiles) + t, 0, tile_sem::panel_full};
        cluster.issue(queue::kPanel, {}, macro, {{full, 1}}, "fetch panel");
    };
    cluster.loop(tiles, [&](const Affine& t) {
        const Affine position = t + (isa::variable(Var::cluster) - emit.first_cluster()) * tiles;
        cluster.branch(
            Affine(split.remainder() - 1) - position, [&] { copy(t, split.most(), position * split.most()); },
            [&] { copy(t, split.least(), position * split.least() + split.remainder()); });
    });
}

}  // namespace

std::int64_t row_group_blocks(const Product& product) {
    const Split split{product.shape.units, product.shape.tiles};
    const std::int64_t widest = ceil_div(split.most(), product.tiling.n_chunks) * product.shape.unit_blocks;
    return std::clamp<std::int64_t>(product.piece_blocks / widest, 1, product.tiling.m);
}

std::int64_t row_groups(const Product& product) {
    const std::int64_t group = row_group_blocks(product);
    const std::int64_t m = product.tiling.m;
    const std::int64_t full = product.shape.row_blocks / m;
    const std::int64_t rest = product.shape.row_blocks % m;
    return full * ceil_div(m, group) + ceil_div(rest, group);
}

std::int64_t finished_count(const Product& product) {
    return product.shape.tiles * product.tiling.n_chunks * row_groups(product);
}

std::int64_t weight_offset(const ProductShape& shape, const Tiling& tiling, std::int64_t unit,
                           std::int64_t block_of_unit, std::int64_t k_block) {
    const Split split{shape.units, shape.tiles};
    const std::int64_t in_wider_tiles = split.remainder() * split.most();
    const bool wider = unit < in_wider_tiles;
    const std::int64_t tile_units = wider ? split.most() : split.least();
    const std::int64_t in_tile = wider ? unit % tile_units : (unit - in_wider_tiles) % tile_units;
    const std::int64_t tile_first = unit - in_tile;
    // Chunks of a tile: the first ones take one unit more.
    const Split chunks{tile_units, tiling.n_chunks};
    const std::int64_t in_wider_chunks = chunks.remainder() * chunks.most();
    const bool wider_chunk = in_tile < in_wider_chunks;
    const std::int64_t width = wider_chunk ? chunks.most() : chunks.least();
    const std::int64_t in_chunk = wider_chunk ? in_tile % width : (in_tile - in_wider_chunks) % width;
    const std::int64_t chunk_first = tile_first + in_tile - in_chunk;
    const std::int64_t n_blocks = width * shape.unit_blocks;
    const KSteps steps = k_steps(shape, tiling);
    const std::int64_t step = steps.step_of(k_block);
    const std::int64_t first = steps.first_block(step);
    const std::int64_t before = chunk_first * shape.unit_blocks * shape.k_blocks + first * n_blocks;
    const std::int64_t n_block = in_chunk * shape.unit_blocks + block_of_unit;
    return (before + n_block * steps.width(step) + k_block - first) * block(shape.b);
}

void emit_product_tile(Emitter& emit, const Product& product) {
    const Split split{product.shape.units, product.shape.tiles};
    SLUICE_CHECK(product.panel < 0 || product.wide_from == 0, "panels are for the first tiles");
    emit.for_split(split, product.position, product.wide_from, [&](std::int64_t units, const Affine& first_unit) {
        TileProduct(emit, product, units, first_unit).emit();
    });
}

void emit_product_cluster(Emitter& emit, const Product& product) {
    ControlBuilder& cluster = emit.cluster;
    if (product.ready >= 0) {
        cluster.fence(queue::kCluster, {{own_cluster_sem(product.ready), product.ready_count}}, {},
                      product.name + " input complete");
    }
    const std::int64_t m = product.tiling.m;
    const std::int64_t full = product.shape.row_blocks / m;
    const std::int64_t rest = product.shape.row_blocks % m;
    const auto chunk = [&](const std::function<void(std::int64_t, const Affine&, const Affine&)>& fetch) {
        const auto row_step = [&](std::int64_t rows, const Affine& first_row, const Affine& i) {
            for_k_steps(cluster, product, [&](std::int64_t k, bool, bool, const Affine& k_offset) {
                fetch(k, k_offset, i);
                multicast(emit, product, rows, k, first_row, k_offset);
            });
        };
        cluster.loop(full, [&](const Affine& i) { row_step(m, i * m, i); });
        if (rest > 0) {
            row_step(rest, Affine(full * m), Affine(full));
        }
    };
    if (product.panel < 0) {
        cluster.loop(product.tiling.n_chunks,
                     [&](const Affine&) { chunk([](std::int64_t, const Affine&, const Affine&) {}); });
        return;
    }
    for (std::int64_t c = 0; c < product.tiling.n_chunks; ++c) {
        if (c > 0) {
            // Every tile has read its whole part; counted once a chunk, so that no tile pays for another.
            cluster.fence(queue::kPanel, {{own_cluster_sem(cluster_sem::panel_free), emit.grouping.tiles_per_cluster}},
                          {}, "panel free");
        }
        chunk([&, c](std::int64_t k, const Affine& k_offset, const Affine& i) {
            cluster.branch(i * -1, [&] { fetch_panel(emit, product, c, k, k_offset); });
        });
    }
}

isa::VectorOperand accumulator_operand(const Piece& piece, std::int64_t first, std::int64_t step) {
    return {piece.accumulator + first * isa::kAccumulatorBlockBytes, piece.accumulator_row_stride,
            step * isa::kAccumulatorBlockBytes};
}

std::vector<SemUse> piece_waits(const Piece& piece) {
    if (piece.first) {
        return {{own_tile_sem(tile_sem::acc_done), piece.row_blocks}};
    }
    return {};
}

std::vector<SemUse> piece_signals(const Piece& piece) {
    if (piece.last) {
        return {{own_tile_sem(tile_sem::acc_free), piece.row_blocks}};
    }
    return {};
}

void emit_epilogue(Emitter& emit, const Product& product, const Piece& piece, const isa::VectorMacro& macro,
                   std::vector<SemUse> extra_waits, std::vector<SemUse> extra_signals,
                   const std::vector<DmaMacro>& store) {
    std::vector<SemUse> waits = piece_waits(piece);
    waits.push_back({own_tile_sem(tile_sem::out_free), 1});
    waits.insert(waits.end(), extra_waits.begin(), extra_waits.end());
    std::vector<SemUse> signals = piece_signals(piece);
    signals.push_back({own_tile_sem(tile_sem::out_full), 1});
    signals.insert(signals.end(), extra_signals.begin(), extra_signals.end());
    emit.tile.issue(queue::kVector, waits, macro, signals, product.name + " epilogue");
    std::vector<SemUse> stored{{own_tile_sem(tile_sem::out_free), 1}};
    if (piece.last) {
        stored.insert(stored.end(), product.finished.begin(), product.finished.end());
    }
    issue_all(emit.tile, queue::kStore, {{own_tile_sem(tile_sem::out_full), 1}}, store, stored,
              product.name + " store");
    emit.advance(emit.tile, reg::out);
}

}  // namespace sluice::kernels
