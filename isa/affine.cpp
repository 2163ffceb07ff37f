// SPDX-License-Identifier: Apache-2.0
#include "isa/affine.hpp"

#include <algorithm>

#include "isa/errors.hpp"

namespace sluice::isa {

std::string_view name(Var var) {
    static constexpr std::array<std::string_view, kVarCount> kNames{
        "i0", "i1", "i2", "i3", "i4",  "i5",  "i6",  "i7",  "r0",  "r1",  "r2",   "r3",      "r4",  "r5",
        "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "tile", "cluster", "self"};
    return kNames[static_cast<std::size_t>(var)];
}

Affine operator+(const Affine& a, const Affine& b) {
    if (a.ring != 0 || b.ring != 0) {
        const Affine& ring = a.ring != 0 ? a : b;
        const Affine& shift = a.ring != 0 ? b : a;
        SLUICE_CHECK(shift.is_constant(), "only a constant can be added to a ring address");
        Affine sum = ring;
        sum.base += shift.base;
        return sum;
    }
    Affine sum = a;
    sum.base += b.base;
    for (const Term& term : b.terms) {
        const auto same = std::find_if(sum.terms.begin(), sum.terms.end(),
                                       [&term](const Term& other) { return other.var == term.var; });
        if (same == sum.terms.end()) {
            sum.terms.push_back(term);
        } else {
            same->stride += term.stride;
        }
    }
    std::erase_if(sum.terms, [](const Term& term) { return term.stride == 0; });
    return sum;
}

Affine operator-(const Affine& a, const Affine& b) {
    return a + b * -1;
}

Affine operator*(const Affine& a, std::int64_t factor) {
    SLUICE_CHECK(a.ring == 0, "a ring address cannot be scaled");
    Affine product = a;
    product.base *= factor;
    for (Term& term : product.terms) {
        term.stride *= factor;
    }
    std::erase_if(product.terms, [](const Term& term) { return term.stride == 0; });
    return product;
}

}  // namespace sluice::isa
