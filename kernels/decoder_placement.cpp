// SPDX-License-Identifier: Apache-2.0
#include "kernels/decoder_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "isa/errors.hpp"
#include "isa/number/number.hpp"
#include "kernels/product.hpp"
#include "models/rotary.hpp"

namespace sluice::kernels {

using isa::Format;
using isa::kBlockEdge;
using models::Linear;
using models::TensorIndex;

namespace {

std::vector<std::byte> zeros(std::int64_t bytes) {
    return std::vector<std::byte>(static_cast<std::size_t>(bytes), std::byte{0});
}

/// Unit and block of the unit of block row `r` of q, k or v, whose units are `first` and the next ones: a block and the
/// one that it rotates with stand together, in v two neighbours.
struct QkvUnits {
    std::int64_t pairs, unit_pairs;  ///< of a head, of a unit
    std::int64_t heads, first;
    bool rotates;

    std::pair<std::int64_t, std::int64_t> operator()(std::int64_t r) const {
        const std::int64_t in_head = r % (2 * pairs);
        const std::int64_t pair = rotates ? in_head % pairs : in_head / 2;
        const std::int64_t half = rotates ? in_head / pairs : in_head % 2;
        return {first + pair / unit_pairs * heads + r / (2 * pairs), pair % unit_pairs * 2 + half};
    }
};

class DecoderPlaces {
public:
    explicit DecoderPlaces(const DecoderPlan& plan) : plan_(plan) {
        for (const models::Operator& op : plan.graph->operators) {
            operators_.emplace(op.name, &op);
        }
    }

    Placement all() {
        const auto& embedding = body<models::Embedding>("embed_tokens");
        out_.token_ids = embedding.ids;
        row_major(embedding.table, plan_.embedding);
        row_major(body<models::RmsNorm>("final_norm").weight, plan_.final_norm);
        for (std::size_t run = 0; run < plan_.model.runs.size(); ++run) {
            for (std::int64_t layer = 0; layer < plan_.model.runs[run].count; ++layer) {
                add_layer(run, layer);
            }
        }
        const auto& head = body<Linear>("lm_head");
        weights(head.weight, plan_.head_shape, plan_.head_tiling, plan_.head, [](std::int64_t r) {
            return std::pair{r, std::int64_t{0}};
        });
        logits(head.out);
        out_.constants.push_back({plan_.zeros, [] { return zeros(block(Format::bf16)); }});
        rotary();
        if (std::any_of(plan_.routing.begin(), plan_.routing.end(),
                        [](const RoutingShape& routing) { return routing.experts > 0; })) {
            out_.routing = [plan = plan_](const models::Graph& graph, const models::Values& inputs) {
                DecoderPlan own = plan;
                own.graph = &graph;
                return routing_tables(own, computed_routes(own, inputs));
            };
        }
        out_.attention_chunk = plan_.attention.chunk_blocks * kBlockEdge;
        return std::move(out_);
    }

private:
    template <class Body>
    const Body& body(const std::string& name) const {
        const auto found = operators_.find(name);
        SLUICE_CHECK(found != operators_.end(), "the graph has no operator " + name);
        return std::get<Body>(found->second->body);
    }
    [[nodiscard]] const models::Tensor& tensor(TensorIndex index) const {
        return plan_.graph->tensors.at(static_cast<std::size_t>(index));
    }

    void row_major(TensorIndex index, std::int64_t base) {
        out_.inputs.push_back({index, 0, tensor(index).rows, Format::bf16, nullptr, base});
    }

    /// `unit_of`: block row of the weight -> unit of the product and block of the unit.
    template <class UnitOf>
    void weights(TensorIndex index, const ProductShape& shape, const Tiling& tiling, std::int64_t base,
                 const UnitOf& unit_of) {
        out_.inputs.push_back({index, 0, tensor(index).rows, shape.b,
                               [=](std::int64_t r, std::int64_t c) {
                                   const auto [unit, block_of_unit] = unit_of(r);
                                   return base + weight_offset(shape, tiling, unit, block_of_unit, c);
                               },
                               0});
    }

    /// A vector in pieces of 32 columns; `order`: which piece of those that are stored a piece of the tensor is.
    template <class Order>
    void pieces(TensorIndex index, std::int64_t base, const Order& order) {
        MatrixPlace place{index, 0, 1, Format::bf16, nullptr, 0};
        place.piece = [=](std::int64_t c) { return base + order(c) * kBiasBytes; };
        out_.inputs.push_back(std::move(place));
    }
    template <class Order>
    void biases(const Linear& linear, std::int64_t base, const Order& order) {
        if (linear.bias != models::kNoTensor) {
            pieces(linear.bias, base, order);
        }
    }

    void add_layer(std::size_t run, std::int64_t layer) {
        const LayerShape& shape = plan_.model.runs[run].shape;
        const LayerPlace& place = plan_.layers[run];
        const std::int64_t base = place.base + layer * place.stride;
        const std::string prefix = fmt::format("layers.{}.", plan_.model.runs[run].first_layer + layer);
        row_major(body<models::RmsNorm>(prefix + "input_norm").weight, base + place.norm1);
        row_major(body<models::RmsNorm>(prefix + "mlp_norm").weight, base + place.norm2);

        const auto product = [&](const std::string& name, ProductIndex which, std::int64_t at, const auto& unit_of) {
            weights(body<Linear>(prefix + name).weight, product_shape(plan_, shape, which, plan_.most_row_blocks),
                    plan_.tilings[run][which], base + at, unit_of);
        };
        const std::int64_t pairs = head_pairs(shape);
        const std::int64_t unit_pairs = qkv_unit_pairs(shape);
        const std::int64_t parts = pairs / unit_pairs;
        const auto qkv = [&](const std::string& name, std::int64_t heads, std::int64_t first, bool rotates) {
            const QkvUnits units{pairs, unit_pairs, heads, first, rotates};
            product(name, kQkv, place.qkv, units);
            biases(body<Linear>(prefix + name), base + place.qkv_bias, [units](std::int64_t c) {
                const auto [unit, block_of_unit] = units(c);
                return unit * 2 * units.unit_pairs + block_of_unit;
            });
        };
        qkv("q_proj", shape.q_heads, 0, true);
        qkv("k_proj", shape.kv_heads, parts * shape.q_heads, true);
        qkv("v_proj", shape.kv_heads, parts * (shape.q_heads + shape.kv_heads), false);
        if (shape.head_norms) {
            const auto in_unit = [units = QkvUnits{pairs, pairs, 1, 0, true}](std::int64_t c) {
                return units(c).second;
            };
            pieces(body<models::HeadRmsNorm>(prefix + "q_norm").weight, base + place.head_norms, in_unit);
            pieces(body<models::HeadRmsNorm>(prefix + "k_norm").weight, base + place.head_norms + shape.head_dim * 2,
                   in_unit);
        }
        biases(body<Linear>(prefix + "o_proj"), base + place.o_bias, [](std::int64_t c) { return c; });
        const auto natural = [](std::int64_t r) { return std::pair{r, std::int64_t{0}}; };
        product("o_proj", kO, place.o, natural);
        const auto second = [](std::int64_t r) { return std::pair{r, std::int64_t{1}}; };
        if (shape.experts.count > 0) {
            product("router", kRouter, place.router, [](std::int64_t r) { return std::pair{std::int64_t{0}, r}; });
            const auto& experts = body<models::Experts>(prefix + "experts");
            expert_weights(run, experts.gate, kExpertUp, base + place.experts, natural);
            expert_weights(run, experts.up, kExpertUp, base + place.experts, second);
            expert_weights(run, experts.down, kExpertDown, base + place.experts + expert_up_bytes(plan_, shape),
                           natural);
        } else {
            product("gate_proj", kGateUp, place.gate_up, natural);
            product("up_proj", kGateUp, place.gate_up, second);
            product("down_proj", kDown, place.down, natural);
        }

        const auto& attention = body<models::Attention>(prefix + "attention");
        cache(attention.k_cache, place.k_cache + layer * place.cache_stride, true);
        cache(attention.v_cache, place.v_cache + layer * place.cache_stride, false);
    }

    /// The matrices of all experts, one behind another in the tensor; `base`: where the first one's lie.
    template <class UnitOf>
    void expert_weights(std::size_t run, TensorIndex index, ProductIndex which, std::int64_t base,
                        const UnitOf& unit_of) {
        const LayerShape& layer = plan_.model.runs[run].shape;
        const ProductShape shape = product_shape(plan_, layer, which, plan_.most_row_blocks);
        const Tiling& tiling = plan_.tilings[run][which];
        const std::int64_t rows = tensor(index).rows / layer.experts.count;
        for (std::int64_t expert = 0; expert < layer.experts.count; ++expert) {
            const std::int64_t at = base + expert * expert_bytes(plan_, layer);
            out_.inputs.push_back({index, expert * rows, rows, shape.b,
                                   [=](std::int64_t r, std::int64_t c) {
                                       const auto [unit, block_of_unit] = unit_of(r);
                                       return at + weight_offset(shape, tiling, unit, block_of_unit, c);
                                   },
                                   0});
        }
    }

    void cache(TensorIndex index, std::int64_t base, bool rotated) {
        const AttentionShape& shape = plan_.attention;
        const std::int64_t dims = shape.dim_blocks();
        const std::int64_t kv_block = block(shape.kv);
        for (std::int64_t i = 0; i < plan_.graph->workload.batch * shape.kv_heads; ++i) {
            const std::int64_t at = base + i * shape.cache_bytes();
            const auto offset = [=](std::int64_t r, std::int64_t c) {
                const std::int64_t stored_column = rotated ? c % (dims / 2) * 2 + c / (dims / 2) : c;
                return at + (r * dims + stored_column) * kv_block;
            };
            const MatrixPlace place{index, i * shape.context, shape.context, shape.kv, offset, 0};
            out_.outputs.push_back(place);
            if (!plan_.prefill()) {
                out_.inputs.push_back(place);
            }
        }
    }

    void logits(TensorIndex index) {
        const std::int64_t columns = plan_.head_shape.units;
        const auto rows_from = [&](std::int64_t first_row, std::int64_t rows, std::int64_t first_block) {
            out_.outputs.push_back({index, first_row, rows, Format::bf16,
                                    [=, base = plan_.logits](std::int64_t r, std::int64_t c) {
                                        return base + ((first_block + r) * columns + c) * block(Format::bf16);
                                    },
                                    0});
        };
        if (plan_.prefill()) {
            rows_from(0, plan_.graph->workload.batch, 0);
            return;
        }
        for (const std::vector<Chunk>& chunks : plan_.chunks) {
            for (const Chunk& chunk : chunks) {
                rows_from(chunk.first_row, chunk.tokens, chunk.logits_block);
            }
        }
    }

    /// Blocks of 32 positions: for every pair of dimension blocks, its cosines and its sines.
    void rotary() {
        const std::int64_t pairs = plan_.attention.head_dim / 64;
        const std::int64_t row_bytes = rotary_row_bytes(plan_.attention.head_dim);
        const auto blocks = static_cast<std::int64_t>(round_up(ceil_div(plan_.graph->workload.context, kBlockEdge),
                                                               plan_.attention.chunk_blocks * plan_.grouping.groups));
        const models::Rope rope = first_rope();
        out_.constants.push_back(
            {plan_.rope, [=] {
                 std::vector<std::byte> bytes = zeros(blocks * row_bytes);
                 for (std::int64_t position = 0; position < blocks * kBlockEdge; ++position) {
                     const models::RotaryRow row = models::rotary_row(rope, position);
                     for (std::int64_t i = 0; i < pairs * kBlockEdge; ++i) {
                         const std::int64_t at = position / kBlockEdge * row_bytes +
                                                 i / kBlockEdge * 2 * block(Format::bf16) +
                                                 (position % kBlockEdge * kBlockEdge + i % kBlockEdge) * 2;
                         put(bytes, at, row.cosine[static_cast<std::size_t>(i)]);
                         put(bytes, at + block(Format::bf16), row.sine[static_cast<std::size_t>(i)]);
                     }
                 }
                 return bytes;
             }});
    }
    [[nodiscard]] models::Rope first_rope() const {
        for (const models::Operator& op : plan_.graph->operators) {
            if (const auto* rope = std::get_if<models::Rope>(&op.body)) {
                return *rope;
            }
        }
        SLUICE_CHECK(false, "a decoder rotates its queries");
    }
    static void put(std::vector<std::byte>& bytes, std::int64_t at, float value) {
        const std::uint32_t code = isa::encode(isa::Number::bf16, value);
        bytes[static_cast<std::size_t>(at)] = static_cast<std::byte>(code & 0xFF);
        bytes[static_cast<std::size_t>(at) + 1] = static_cast<std::byte>(code >> 8);
    }

    const DecoderPlan& plan_;
    std::map<std::string, const models::Operator*> operators_;
    Placement out_;
};

}  // namespace

Placement decoder_placement(const DecoderPlan& plan) {
    return DecoderPlaces(plan).all();
}

}  // namespace sluice::kernels
