// SPDX-License-Identifier: Apache-2.0
// Every operator of the reference, by itself on a small graph, against its formula in binary64 and against sums that
// are exact.
#include "models/reference/executor.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "models/rotary.hpp"
#include "tests/support/files.hpp"

namespace sluice::models {
namespace {

using test::input_error;

/// Values that BF16 holds: whole 1/16ths within [-4, 4).
Matrix sixteenths(std::int64_t rows, std::int64_t cols, unsigned seed) {
    Matrix out(rows, cols);
    unsigned state = seed;
    for (float& value : out.values) {
        state = state * 1664525U + 1013904223U;
        value = static_cast<float>(static_cast<int>(state >> 25U) - 64) / 16;
    }
    return out;
}

/// One operator whose inputs are given in FP32; its result is the last tensor.
struct Single {
    Graph graph;
    Values inputs;

    TensorIndex give(const std::string& name, const Matrix& matrix, TensorRole role = TensorRole::operand,
                     Format format = Format::fp32) {
        const TensorIndex index = declare(name, matrix.rows, matrix.cols, role, format);
        inputs[index] = matrix;
        return index;
    }
    TensorIndex declare(const std::string& name, std::int64_t rows, std::int64_t cols,
                        TensorRole role = TensorRole::activation, Format format = Format::fp32) {
        graph.tensors.push_back({name, role, rows, cols, format});
        return static_cast<TensorIndex>(graph.tensors.size() - 1);
    }
    Values run(const OperatorBody& body, const ReferenceOptions& options = {}) {
        graph.operators = {{"only", -1, body}};
        return execute(graph, inputs, options);
    }
};

double wide(float value) {
    return static_cast<double>(value);
}

TEST_CASE("an embedding gives the rows that the tokens name") {
    Single single;
    Matrix ids(3, 1);
    ids.values = {4, 0, 4};
    const Matrix table = sixteenths(5, 6, 1);
    const TensorIndex tokens = single.give("ids", ids, TensorRole::token_ids, Format::raw);
    const TensorIndex rows = single.give("table", table, TensorRole::weight, Format::bf16);
    const TensorIndex out = single.declare("out", 3, 6);
    const Matrix found = single.run(Embedding{tokens, rows, out}).at(out);
    for (std::int64_t j = 0; j < 6; ++j) {
        CHECK(found.at(0, j) == table.at(4, j));
        CHECK(found.at(1, j) == table.at(0, j));
        CHECK(found.at(2, j) == table.at(4, j));
    }
    for (const float beyond : {5.0F, -1.0F, 1e9F}) {
        single.inputs.at(tokens).values[1] = beyond;
        const std::string said = input_error([&] { static_cast<void>(single.run(Embedding{tokens, rows, out})); });
        CHECK(said == "ids: token 1 is " + std::to_string(static_cast<long>(beyond)) + ", allowed: 0 to 4");
    }
}

TEST_CASE("a norm divides by the root of the mean square, to a few roundings of FP32") {
    Single single;
    const Matrix in = sixteenths(4, 100, 2);
    const Matrix weight = sixteenths(1, 100, 3);
    const TensorIndex from = single.give("in", in);
    const TensorIndex by = single.give("weight", weight, TensorRole::weight);
    const TensorIndex out = single.declare("out", 4, 100);
    const Matrix found = single.run(RmsNorm{from, by, out, 1e-3}).at(out);
    for (std::int64_t t = 0; t < 4; ++t) {
        double squares = 0;
        for (std::int64_t j = 0; j < 100; ++j) {
            squares += wide(in.at(t, j)) * wide(in.at(t, j));
        }
        const double root = std::sqrt(squares / 100 + 1e-3);
        for (std::int64_t j = 0; j < 100; ++j) {
            const double wanted = wide(in.at(t, j)) / root * wide(weight.at(0, j));
            CHECK(std::abs(wide(found.at(t, j)) - wanted) <= 0x1p-21 * std::abs(wanted));
        }
    }
}

TEST_CASE("a product of whole numbers is exact, and logits are rounded to their format") {
    for (const TensorRole role : {TensorRole::activation, TensorRole::output}) {
        Single single;
        Matrix in(2, 70);
        Matrix weight(3, 70);
        for (std::int64_t j = 0; j < 70; ++j) {
            in.at(0, j) = static_cast<float>(j % 7 - 3);
            in.at(1, j) = static_cast<float>(j % 4);
            for (std::int64_t n = 0; n < 3; ++n) {
                weight.at(n, j) = static_cast<float>((j + n) % 5 + 1);
            }
        }
        const TensorIndex from = single.give("in", in);
        const TensorIndex by = single.give("weight", weight, TensorRole::weight, Format::bf16);
        const TensorIndex out = single.declare("out", 2, 3, role, Format::bf16);
        const Matrix found = single.run(Linear{from, by, out, Format::bf16}).at(out);
        for (std::int64_t t = 0; t < 2; ++t) {
            for (std::int64_t n = 0; n < 3; ++n) {
                double sum = 0;
                for (std::int64_t j = 0; j < 70; ++j) {
                    sum += wide(in.at(t, j)) * wide(weight.at(n, j));
                }
                // 8 significant bits: of sums from 256 to 511 the even ones are left.
                const double unit = std::abs(sum) < 256 ? 1 : 2;
                REQUIRE(std::abs(sum) < 512);
                const double wanted = role == TensorRole::output ? std::nearbyint(sum / unit) * unit : sum;
                CHECK(wide(found.at(t, n)) == wanted);
            }
        }
    }
}

TEST_CASE("what enters a product is rounded to the operand format") {
    Single single;
    Matrix in(1, 32);
    in.at(0, 0) = 6;
    in.at(0, 1) = 2.4F;  // of E2M1 with the scale of 6, which is 1, the next are 2 and 3
    Matrix weight(1, 32);
    weight.at(0, 0) = 1;
    weight.at(0, 1) = 1;
    const TensorIndex from = single.give("in", in);
    const TensorIndex by = single.give("weight", weight, TensorRole::weight, Format::mxfp4);
    const TensorIndex out = single.declare("out", 1, 1);
    CHECK(single.run(Linear{from, by, out, Format::mxfp4}).at(out).at(0, 0) == 8);
}

TEST_CASE("a residual is rounded to BF16, ties to even") {
    Single single;
    Matrix a(1, 5);
    a.values = {256, 258, 1, 1, -256};
    Matrix b(1, 5);
    b.values = {1, 1, 0x1p-8F, 0x3p-8F, -1};
    const TensorIndex first = single.give("a", a);
    const TensorIndex second = single.give("b", b);
    const TensorIndex out = single.declare("out", 1, 5);
    CHECK(single.run(Add{first, second, out}).at(out).values == std::vector<float>{256, 260, 1, 1 + 0x1p-6F, -256});
}

TEST_CASE("a gated product is gate x sigmoid(gate) x up, to a few roundings of FP32") {
    Single single;
    const Matrix gate = sixteenths(3, 50, 4);
    const Matrix up = sixteenths(3, 50, 5);
    const TensorIndex first = single.give("gate", gate);
    const TensorIndex second = single.give("up", up);
    const TensorIndex out = single.declare("out", 3, 50);
    const Matrix found = single.run(Swiglu{first, second, out}).at(out);
    for (std::size_t i = 0; i < gate.values.size(); ++i) {
        const double g = wide(gate.values[i]);
        const double wanted = g / (1 + std::exp(-g)) * wide(up.values[i]);
        CHECK(std::abs(wide(found.values[i]) - wanted) <= 0x1p-21 * std::abs(wanted));
    }
}

TEST_CASE("the last token of every sequence is its last row") {
    Single single;
    const Matrix in = sixteenths(12, 3, 6);
    const TensorIndex from = single.give("in", in);
    const TensorIndex out = single.declare("out", 4, 3);
    const Matrix found = single.run(LastToken{from, out}).at(out);
    for (std::int64_t sequence = 0; sequence < 4; ++sequence) {
        for (std::int64_t j = 0; j < 3; ++j) {
            CHECK(found.at(sequence, j) == in.at(sequence * 3 + 2, j));
        }
    }
}

TEST_CASE("a position turns every pair of dimensions by its angle") {
    Single single;
    single.graph.workload.batch = 2;
    single.graph.workload.tokens = 3;
    single.graph.workload.context = 10;
    const Matrix in = sixteenths(6, 128, 7);
    Rope rope;
    rope.in = single.give("in", in);
    rope.out = single.declare("out", 6, 128);
    rope.heads = 2;
    rope.head_dim = 64;
    const Matrix found = single.run(rope).at(rope.out);
    for (std::int64_t t = 0; t < 6; ++t) {
        const auto position = static_cast<double>(10 - 3 + t % 3);
        for (std::int64_t head = 0; head < 2; ++head) {
            for (std::int64_t i = 0; i < 32; ++i) {
                const double angle = position * std::pow(10000.0, -static_cast<double>(i) / 32);
                const double x = wide(in.at(t, head * 64 + i));
                const double y = wide(in.at(t, head * 64 + 32 + i));
                // The angles' sines and cosines are BF16: 2^-9 of each.
                const double room = 0x1p-8 * (std::abs(x) + std::abs(y));
                CHECK(std::abs(wide(found.at(t, head * 64 + i)) - (x * std::cos(angle) - y * std::sin(angle))) <= room);
                CHECK(std::abs(wide(found.at(t, head * 64 + 32 + i)) - (x * std::sin(angle) + y * std::cos(angle))) <=
                      room);
            }
        }
    }
}

/// Attention over `context` positions of two sequences, four heads on two pairs of key and value.
struct AttentionStep {
    static constexpr std::int64_t kBatch = 2, kHeads = 4, kKvHeads = 2, kDim = 64;
    Single single;
    Attention op;
    std::int64_t tokens, context;
    Matrix q, k, v, past_k, past_v;

    AttentionStep(Phase phase, std::int64_t token_count, std::int64_t positions)
        : tokens(token_count),
          context(positions),
          q(sixteenths(kBatch * tokens, kHeads * kDim, 11)),
          k(sixteenths(kBatch * tokens, kKvHeads * kDim, 12)),
          v(sixteenths(kBatch * tokens, kKvHeads * kDim, 13)),
          past_k(sixteenths(kBatch * kKvHeads * context, kDim, 14)),
          past_v(sixteenths(kBatch * kKvHeads * context, kDim, 15)) {
        for (float& value : q.values) {
            value /= 4;  // scores of a few units: no single position outweighs all
        }
        Workload& work = single.graph.workload;
        work.phase = phase;
        work.batch = kBatch;
        work.tokens = tokens;
        work.context = context;
        op.q = single.give("q", q);
        op.k = single.give("k", k);
        op.v = single.give("v", v);
        op.k_cache = single.declare("k_cache", past_k.rows, kDim, TensorRole::kv_cache, Format::bf16);
        op.v_cache = single.declare("v_cache", past_v.rows, kDim, TensorRole::kv_cache, Format::bf16);
        op.out = single.declare("out", kBatch * tokens, kHeads * kDim);
        op.q_heads = kHeads;
        op.kv_heads = kKvHeads;
        op.head_dim = kDim;
        if (phase == Phase::decode) {
            single.inputs[op.k_cache] = past_k;
            single.inputs[op.v_cache] = past_v;
        }
    }

    /// Key or value of a position: of this step, or of those before.
    [[nodiscard]] double at(const Matrix& fresh, const Matrix& past, std::int64_t sequence, std::int64_t head,
                            std::int64_t position, std::int64_t d) const {
        const std::int64_t before = context - tokens;
        return wide(position < before ? past.at((sequence * kKvHeads + head) * context + position, d)
                                      : fresh.at(sequence * tokens + position - before, head * kDim + d));
    }

    /// The softmax of all scores at once, in binary64.
    [[nodiscard]] double plain(std::int64_t t, std::int64_t head, std::int64_t d) const {
        const std::int64_t sequence = t / tokens;
        const std::int64_t kv = head * kKvHeads / kHeads;
        double sum = 0;
        double mixed = 0;
        for (std::int64_t position = 0; position <= context - tokens + t % tokens; ++position) {
            double score = 0;
            for (std::int64_t i = 0; i < kDim; ++i) {
                score += wide(q.at(t, head * kDim + i)) * at(k, past_k, sequence, kv, position, i);
            }
            const double weight = std::exp(score / 8);  // sqrt(64)
            sum += weight;
            mixed += weight * at(v, past_v, sequence, kv, position, d);
        }
        return mixed / sum;
    }

    void check(std::int64_t chunk) {
        INFO("chunks of " << chunk);
        const Values found = single.run(op, {chunk});
        const Matrix& out = found.at(op.out);
        // Probabilities are rounded to BF16, to 2^-9 of each; values are at most 4. FP32's roundings are far below.
        constexpr double kRoom = 4 * 0x1p-9 + 0x1p-16;
        double furthest = 0;
        for (std::int64_t t = 0; t < out.rows; ++t) {
            for (std::int64_t head = 0; head < kHeads; ++head) {
                for (std::int64_t d = 0; d < kDim; ++d) {
                    furthest = std::max(furthest, std::abs(wide(out.at(t, head * kDim + d)) - plain(t, head, d)));
                }
            }
        }
        CHECK(furthest <= kRoom);
        CHECK(furthest > 0);
        check_cache(found.at(op.k_cache), k, past_k);
        check_cache(found.at(op.v_cache), v, past_v);
    }

    void check_cache(const Matrix& cache, const Matrix& fresh, const Matrix& past) const {
        bool equal = true;
        for (std::int64_t row = 0; row < cache.rows; ++row) {
            const std::int64_t pair = row / context;
            for (std::int64_t d = 0; d < kDim; ++d) {
                equal = equal &&
                        wide(cache.at(row, d)) == at(fresh, past, pair / kKvHeads, pair % kKvHeads, row % context, d);
            }
        }
        CHECK(equal);
    }
};

TEST_CASE("attention of a decode step is the softmax over the cache and the new position, whatever the chunks") {
    for (const std::int64_t context : {1, 32, 33, 100}) {
        INFO(context << " positions");
        AttentionStep step(Phase::decode, 1, context);
        if (context == 1) {
            // One position: its value is the result, exactly.
            const Values found = step.single.run(step.op);
            CHECK(wide(found.at(step.op.out).at(1, 3 * 64 + 5)) == wide(step.v.at(1, 64 + 5)));
            continue;
        }
        for (const std::int64_t chunk : {32, 64, 128}) {
            step.check(chunk);
        }
    }
}

TEST_CASE("attention of a prefill sees no position after its own") {
    AttentionStep step(Phase::prefill, 40, 40);
    step.check(32);
    step.check(64);
}

TEST_CASE("an input that is missing or has another shape is named") {
    Single single;
    const TensorIndex a = single.give("left", Matrix(2, 3));
    const TensorIndex b = single.give("right", Matrix(2, 3));
    const TensorIndex out = single.declare("out", 2, 3);
    single.inputs[b] = Matrix(3, 2);
    const auto said = [&] { return input_error([&] { static_cast<void>(single.run(Add{a, b, out})); }); };
    CHECK(said() == "right: found 3 x 2 values, allowed: 2 x 3");
    single.inputs.erase(b);
    CHECK(said() == "right: no values are given");
}

}  // namespace
}  // namespace sluice::models
