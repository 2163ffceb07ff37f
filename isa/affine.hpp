// SPDX-License-Identifier: Apache-2.0
#pragma once
// Integer expressions over the indices of a control program: base + sum(stride * variable), optionally with the sum
// taken modulo a ring, which is how software walks a circular buffer. Evaluated by the control processors when an
// instruction is issued.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::isa {

/// Variables: loop indices i0..i7 by nesting depth, registers r0..r15, and the processor's own ids.
enum class Var : std::uint8_t {
    i0,
    i1,
    i2,
    i3,
    i4,
    i5,
    i6,
    i7,
    r0,
    r1,
    r2,
    r3,
    r4,
    r5,
    r6,
    r7,
    r8,
    r9,
    r10,
    r11,
    r12,
    r13,
    r14,
    r15,
    tile,  ///< logical tile within its cluster
    cluster,
    self,  ///< tile number on the chip: cluster * tiles_per_cluster + tile
};
constexpr std::size_t kVarCount = 27;
constexpr int kMaxLoopDepth = 8;
constexpr int kRegisterCount = 16;

/// "i0", "r3", "tile", "cluster", "self".
[[nodiscard]] std::string_view name(Var var);
[[nodiscard]] constexpr Var loop_var(int depth) {
    return static_cast<Var>(depth);
}
[[nodiscard]] constexpr Var register_var(int index) {
    return static_cast<Var>(8 + index);
}

/// Values of all variables at one moment of one control processor.
using Environment = std::array<std::int64_t, kVarCount>;

struct Term {
    Var var = Var::i0;
    std::int64_t stride = 0;
    friend bool operator==(const Term&, const Term&) = default;
};

struct Affine {
    std::int64_t base = 0;
    std::vector<Term> terms;
    /// 0: value = base + sum. Else value = base + (sum + phase) mod ring, in [base, base + ring).
    std::int64_t ring = 0;
    std::int64_t phase = 0;

    Affine() = default;
    Affine(std::int64_t constant) : base(constant) {}  // NOLINT(google-explicit-constructor): a constant is an Affine
    Affine(std::int64_t constant, std::vector<Term> sum) : base(constant), terms(std::move(sum)) {}

    [[nodiscard]] bool is_constant() const { return terms.empty() && ring == 0; }
    [[nodiscard]] std::int64_t evaluate(const Environment& env) const {
        std::int64_t sum = 0;
        for (const Term& term : terms) {
            sum += term.stride * env[static_cast<std::size_t>(term.var)];
        }
        if (ring == 0) {
            return base + sum;
        }
        const std::int64_t rest = (sum + phase) % ring;
        return base + (rest < 0 ? rest + ring : rest);
    }
    friend bool operator==(const Affine&, const Affine&) = default;
};

/// Arithmetic on plain (ring-free) expressions; terms of one variable are merged, zero strides dropped. A ring on the
/// left of `+` keeps its ring and takes a constant on the right as a shift of its base.
[[nodiscard]] Affine operator+(const Affine& a, const Affine& b);
[[nodiscard]] Affine operator-(const Affine& a, const Affine& b);
[[nodiscard]] Affine operator*(const Affine& a, std::int64_t factor);
[[nodiscard]] inline Affine variable(Var var, std::int64_t stride = 1) {
    return Affine(0, {{var, stride}});
}

}  // namespace sluice::isa
