// SPDX-License-Identifier: Apache-2.0
// The tensor unit's product against a sum without any rounding (exact_sum.hpp), bit by bit, for every pair of formats.
#include "isa/number/block.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "tests/isa/exact_sum.hpp"
#include "tests/support/files.hpp"

namespace sluice::isa {
namespace {

using Catch::Matchers::Contains;
using test::ExactSum;
using test::input_error;

constexpr std::size_t kEdge = 32;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
using Random = std::mt19937_64;
using Bytes = std::vector<std::byte>;

std::uint32_t bits_of(float value) {
    return std::bit_cast<std::uint32_t>(value);
}
/// Any finite FP32 value.
float random_float(Random& random) {
    for (;;) {
        const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
        if (std::isfinite(value)) {
            return value;
        }
    }
}

// ---- packing

/// Bit `index` of a row, counted from the lowest bit of its first byte.
bool row_bit(const Bytes& row, std::size_t index) {
    return (row[index / 8] >> (index % 8) & std::byte{1}) != std::byte{0};
}

TEST_CASE("element i of a row is its bits from i times the element's bits on") {
    Random random(1);
    for (const int bits : {4, 6, 8, 16, 32}) {
        const std::uint32_t mask = bits == 32 ? ~0U : (1U << bits) - 1;
        Bytes row(64 * static_cast<std::size_t>(bits) / 8, std::byte{0xA5});
        std::vector<std::uint32_t> codes(64);
        std::vector<std::size_t> order(64);
        for (std::size_t i = 0; i < 64; ++i) {
            codes[i] = static_cast<std::uint32_t>(random()) & mask;
            order[i] = i;
        }
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t i : order) {
            put_code(row, static_cast<std::int64_t>(i), bits, codes[i]);
        }
        for (std::size_t i = 0; i < 64; ++i) {
            CHECK(get_code(row, static_cast<std::int64_t>(i), bits) == codes[i]);
            std::uint32_t code = 0;
            for (std::size_t b = 0; b < static_cast<std::size_t>(bits); ++b) {
                code |= (row_bit(row, i * static_cast<std::size_t>(bits) + b) ? 1U : 0U) << b;
            }
            CHECK(code == codes[i]);
        }
    }
}

TEST_CASE("a code is written without its neighbours, and its high bits are left out") {
    for (const int bits : {4, 6, 8, 16}) {
        const std::size_t size = 8 * static_cast<std::size_t>(bits) / 8;
        for (std::int64_t i = 0; i < 8; ++i) {
            Bytes row(size, std::byte{0});
            put_code(row, i, bits, ~0U);
            for (std::int64_t other = 0; other < 8; ++other) {
                CHECK(get_code(row, other, bits) == (other == i ? (1U << bits) - 1 : 0));
            }
        }
    }
    Bytes pair(1);
    put_code(pair, 0, 4, 0x3);
    put_code(pair, 1, 4, 0xA);
    CHECK(pair[0] == std::byte{0xA3});  // the even element is the low nibble
}

TEST_CASE("a row of values is encoded and decoded as its elements are") {
    Random random(2);
    for (const FormatInfo& format : all_formats()) {
        if (format.format == Format::raw) {
            continue;
        }
        for (const std::size_t count : {0, 1, 2, 3, 5, 31, 32, 64, 77}) {
            const auto scale = static_cast<std::uint8_t>(120 + random() % 15);
            std::vector<float> values(count);
            for (float& value : values) {
                value = static_cast<float>(static_cast<int>(random() % 4096) - 2048) / 256;
            }
            const std::size_t used = (count * static_cast<std::size_t>(format.element_bits) + 7) / 8;
            Bytes data(used + 3, std::byte{0xFF});
            encode_row(format.format, values, std::byte{scale}, data);
            std::vector<float> back(count);
            decode_row(format.format, data, std::byte{scale}, back);
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint32_t code = format.block_scaled ? encode_scaled(format.element, values[i], scale)
                                                               : encode(format.element, values[i]);
                CHECK(get_code(data, static_cast<std::int64_t>(i), format.element_bits) == code);
                CHECK(back[i] == (format.block_scaled ? decode_scaled(format.element, code, scale)
                                                      : decode(format.element, code)));
            }
            for (std::size_t bit = count * static_cast<std::size_t>(format.element_bits); bit < 8 * data.size();
                 ++bit) {
                CHECK_FALSE(row_bit(data, bit));
            }
        }
    }
    Bytes data(4);
    std::vector<float> values(4);
    CHECK_THAT(input_error([&] { decode_row(Format::raw, data, std::byte{0}, values); }), Contains("raw"));
    CHECK_THAT(input_error([&] { encode_row(Format::raw, values, std::byte{0}, data); }), Contains("raw"));
}

// ---- blocks

/// What a random block is made of.
struct Mix {
    bool special;      ///< any code, NaN and infinity too; else finite elements
    int scale_middle;  ///< E8M0 codes from scale_middle - scale_spread to + scale_spread, at the ends 0 and 255
    int scale_spread;
};

Bytes random_block(const FormatInfo& format, const Mix& mix, Random& random) {
    Bytes out(static_cast<std::size_t>(block_bytes(format.format)));
    for (std::int64_t i = 0; i < 1024; ++i) {
        std::uint32_t code = 0;
        do {
            code = static_cast<std::uint32_t>(random());
        } while (!mix.special && !std::isfinite(decode(format.element, code)));
        put_code(out, i, format.element_bits, code);
    }
    for (std::size_t row = 0; format.block_scaled && row < kEdge; ++row) {
        const int any = static_cast<int>(random() % static_cast<std::uint64_t>(2 * mix.scale_spread + 1));
        const int scale = std::clamp(mix.scale_middle + any - mix.scale_spread, 0, mix.special ? 255 : 254);
        out[1024 * static_cast<std::size_t>(format.element_bits) / 8 + row] = static_cast<std::byte>(scale);
    }
    return out;
}

/// A block read by its definition in format.hpp.
struct Operand {
    const FormatInfo& format;
    const Bytes& bytes;
    bool transposed = false;

    [[nodiscard]] double element(std::size_t row, std::size_t k) const {
        const std::size_t index = transposed ? k * kEdge + row : row * kEdge + k;
        return static_cast<double>(
            decode(format.element, get_code(bytes, static_cast<std::int64_t>(index), format.element_bits)));
    }
    /// log2 of the row's scale; nothing for NaN.
    [[nodiscard]] std::optional<int> scale(std::size_t row) const {
        if (!format.block_scaled) {
            return 0;
        }
        const auto code = std::to_integer<int>(bytes[1024 * static_cast<std::size_t>(format.element_bits) / 8 + row]);
        return code == 255 ? std::nullopt : std::optional<int>(code - 127);
    }
};

/// accumulator + addend (times 2^exponent), each part given exactly.
float rounded_sum(float accumulator, const std::vector<double>& addends, int exponent) {
    double plain = 0;  // finite addends are far from overflow, so this is finite unless one of them is not
    for (const double addend : addends) {
        plain += addend;
    }
    if (!std::isfinite(plain) || !std::isfinite(accumulator)) {
        const auto sum = static_cast<float>(plain + static_cast<double>(accumulator));
        return std::isnan(sum) ? kNan : sum;
    }
    ExactSum sum;
    for (const double addend : addends) {
        sum.add(addend, exponent);
    }
    sum.add(static_cast<double>(accumulator));
    return sum.rounded();
}

/// The exact sum of 32 products, times the scales, is added with one rounding.
float narrow_product(const Operand& a, const Operand& b, std::size_t row, std::size_t column, float accumulator) {
    const std::optional<int> scale_a = a.scale(row);
    const std::optional<int> scale_b = b.scale(column);
    if (!scale_a || !scale_b) {
        return kNan;
    }
    std::vector<double> products;
    for (std::size_t k = 0; k < kEdge; ++k) {
        products.push_back(a.element(row, k) * b.element(column, k));  // at most 8 bits: exact
    }
    return rounded_sum(accumulator, products, *scale_a + *scale_b);
}

/// Eight products in ascending k in binary64; their sum is added with one rounding; four times.
float wide_product(const Operand& a, const Operand& b, std::size_t row, std::size_t column, float accumulator) {
    for (std::size_t step = 0; step < 4; ++step) {
        double sum = a.element(row, 8 * step) * b.element(column, 8 * step);
        for (std::size_t k = 8 * step + 1; k < 8 * step + 8; ++k) {
            sum = sum + a.element(row, k) * b.element(column, k);
        }
        const bool zeros = sum == 0 && accumulator == 0;  // signs of zero as IEEE 754 has them
        accumulator = zeros ? static_cast<float>(sum) + accumulator : rounded_sum(accumulator, {sum}, 0);
    }
    return accumulator;
}

float product(const Operand& a, const Operand& b, std::size_t row, std::size_t column, float accumulator) {
    return a.format.element_bits > 8 ? wide_product(a, b, row, column, accumulator)
                                     : narrow_product(a, b, row, column, accumulator);
}

/// Accumulators that are hard: of any size, and such that almost all is cancelled.
float random_accumulator(float product_alone, bool special, Random& random) {
    switch (random() % (special ? 8 : 7)) {
        case 0: return 0.0F;
        case 1: return -0.0F;
        case 2: return random_float(random);
        case 3: return std::isfinite(product_alone) ? -product_alone : 1.0F;
        case 4: return std::isfinite(product_alone) ? std::nextafter(-product_alone, 0.0F) : -1.0F;
        case 5: return std::isfinite(product_alone) ? product_alone * -0x1p20F : 0.0F;
        case 6: return std::isfinite(product_alone) ? product_alone * 0x1p-20F : 0.0F;
        default: return random() % 3 == 0 ? kNan : (random() % 2 == 0 ? kInfinity : -kInfinity);
    }
}

/// Multiplies two random blocks and compares `rows` rows of sums; the others must stay as they were.
void expect_product(const FormatInfo& a_format, const FormatInfo& b_format, const Mix& mix, bool transposed,
                    std::size_t rows, Random& random) {
    const Bytes a_bytes = random_block(a_format, mix, random);
    const Bytes b_bytes = random_block(b_format, mix, random);
    const Operand a{a_format, a_bytes};
    const Operand b{b_format, b_bytes, transposed};
    std::array<float, 1024> sums{};
    std::array<float, 1024> expected{};
    for (std::size_t i = 0; i < 1024; ++i) {
        sums[i] = random_accumulator(product(a, b, i / kEdge, i % kEdge, 0), mix.special, random);
        // An accumulator that is infinite by chance is one of the special ones.
        if (!mix.special && !std::isfinite(sums[i])) {
            sums[i] = 1;
        }
        expected[i] = i / kEdge < rows ? product(a, b, i / kEdge, i % kEdge, sums[i]) : sums[i];
    }
    OperandBlock a_loaded{};
    OperandBlock b_loaded{};
    load_operand(a_format.format, a_bytes, false, a_loaded);
    load_operand(b_format.format, b_bytes, transposed, b_loaded);
    const std::array<float, 1024> before = sums;
    multiply_blocks(a_format.format, a_loaded, b_format.format, b_loaded, static_cast<std::int64_t>(rows), sums);
    for (std::size_t i = 0; i < 1024; ++i) {
        if (bits_of(sums[i]) != bits_of(expected[i])) {
            CAPTURE(a_format.name, b_format.name, i, before[i], sums[i], expected[i]);
            CHECK(bits_of(sums[i]) == bits_of(expected[i]));
        }
    }
}

bool takes(const FormatInfo& a, const FormatInfo& b) {
    const bool wide = a.rate == TensorRate::bf16 || b.rate == TensorRate::bf16;
    return a.rate != TensorRate::none && b.rate != TensorRate::none && (!wide || a.format == b.format);
}

TEST_CASE("every pair of formats has the bits of the exact sum") {
    Random random(3);
    const std::vector<Mix> mixes{
        {false, 127, 3},    // scales of weights
        {false, 127, 127},  // any
        {false, 0, 20},     // FP32 subnormals, and all of it lost
        {false, 254, 90},   // sums beyond FP32
        {true, 127, 140},   // NaN and infinity in elements, scales and sums
    };
    int pairs = 0;
    for (const FormatInfo& a : all_formats()) {
        for (const FormatInfo& b : all_formats()) {
            if (!takes(a, b)) {
                continue;
            }
            ++pairs;
            for (const Mix& mix : mixes) {
                expect_product(a, b, mix, false, kEdge, random);
            }
        }
    }
    CHECK(pairs == 10 * 10 + 2);
}

TEST_CASE("a transposed block has k along its rows in memory") {
    Random random(4);
    for (const FormatInfo& format : all_formats()) {
        if (format.rate == TensorRate::none || format.block_scaled) {
            continue;
        }
        expect_product(format, format, {false, 127, 3}, true, kEdge, random);
    }
}

TEST_CASE("of a block of fewer rows, only those are touched") {
    Random random(5);
    for (const Format format : {Format::mxfp4, Format::mxfp8_e5m2, Format::bf16}) {
        for (const std::size_t rows : {0, 1, 17, 31}) {
            expect_product(info(format), info(format), {false, 127, 3}, false, rows, random);
        }
    }
}

TEST_CASE("a sum that cancels but for its smallest bit keeps that bit") {
    // E5M2, row 0: 57,344^2 - 57,344^2 + 2^-32, from an accumulator that is half a unit short of rounding up.
    Bytes a_bytes(1024);
    Bytes b_bytes(1024);
    const auto both = [&](std::size_t k, float a, float b) {
        a_bytes[k] = static_cast<std::byte>(encode(Number::e5m2, a));
        b_bytes[k] = static_cast<std::byte>(encode(Number::e5m2, b));
    };
    both(0, 57'344, 57'344);
    both(1, 0x1p-16F, 0x1p-16F);
    both(2, 57'344, -57'344);
    both(3, 0x1p-16F, 0x1p15F);  // 1/2
    OperandBlock a{};
    OperandBlock b{};
    load_operand(Format::e5m2, a_bytes, false, a);
    load_operand(Format::e5m2, b_bytes, false, b);
    std::array<float, 1024> sums{};
    sums[0] = 0x1p23F;  // its unit in the last place is 1: with exactly 1/2 it would stay even
    multiply_blocks(Format::e5m2, a, Format::e5m2, b, 1, sums);
    CHECK(sums[0] == 0x1p23F + 1);
}

// ---- one addition

TEST_CASE("the exact sum that is compared with rounds as IEEE 754 says") {
    const auto rounded = [](const std::vector<double>& parts) {
        ExactSum sum;
        for (const double part : parts) {
            sum.add(part);
        }
        return sum.rounded();
    };
    CHECK(rounded({}) == 0);
    CHECK(rounded({1, 0x1p-24}) == 1);                       // a tie, to even
    CHECK(rounded({1, 0x1p-24, 0x1p-900}) == 1 + 0x1p-23F);  // just above it
    CHECK(rounded({1, 0x1p-23, 0x1p-24}) == 1 + 0x1p-22F);   // a tie, to even
    CHECK(rounded({-1, -0x1p-24, -0x1p-900}) == -1 - 0x1p-23F);
    CHECK(rounded({0x1p900, 3, -0x1p900}) == 3);
    CHECK(rounded({0x1p-1074, -1}) == -1);
    CHECK(rounded({0x1p-150}) == 0);  // a tie with the smallest subnormal
    CHECK(rounded({0x1p-150, 0x1p-200}) == 0x1p-149F);
    CHECK(bits_of(rounded({-0x1p-151})) == bits_of(-0.0F));
    CHECK(rounded({0x1.FFFFFEp127, 0x1p102}) == std::numeric_limits<float>::max());
    CHECK(rounded({0x1.FFFFFEp127, 0x1p103}) == kInfinity);
    Random random(6);
    for (int i = 0; i < 20'000; ++i) {  // one binary64 value alone: the processor's own conversion
        const double value = std::ldexp(static_cast<double>(random_float(random)) + random_float(random),
                                        static_cast<int>(random() % 60) - 30);
        CHECK(rounded({value}) == static_cast<float>(value));
    }
}

TEST_CASE("one addition is rounded once") {
    Random random(7);
    for (int i = 0; i < 20'000; ++i) {
        const float accumulator = random_float(random);
        double addend = 0;
        switch (i % 4) {
            case 0: addend = std::bit_cast<double>(random()); break;
            case 1: addend = std::ldexp(static_cast<double>(accumulator), -24) * (1 + 0x1p-52); break;
            case 2:
                addend = -static_cast<double>(accumulator) * (1 + static_cast<double>(random() % 64) * 0x1p-52);
                break;
            default: {
                // Of a size with the accumulator, and of 53 bits.
                const auto digits = static_cast<double>(static_cast<std::int64_t>(random()) >> 11);
                addend = std::ldexp(digits, std::ilogb(accumulator) - 52 + static_cast<int>(random() % 61) - 30);
            }
        }
        if (!std::isfinite(addend)) {
            continue;
        }
        const float expected = rounded_sum(accumulator, {addend}, 0);
        if (bits_of(add_rounded_once(accumulator, addend)) != bits_of(expected)) {
            CAPTURE(accumulator, addend);
            CHECK(add_rounded_once(accumulator, addend) == expected);
        }
    }
    // Rounded to binary64 first, this would be a tie.
    CHECK(add_rounded_once(1.0F, 0x1p-24 + 0x1p-60) == 1 + 0x1p-23F);
    CHECK(add_rounded_once(1.0F, 0x1p-24 - 0x1p-60) == 1);
    CHECK(add_rounded_once(0x1p-149F, 0x1p-150 - 0x1p-203) == 0x1p-149F);
}

TEST_CASE("zeros, infinities and NaNs add as IEEE 754 says") {
    CHECK(bits_of(add_rounded_once(0.0F, -0.0)) == bits_of(0.0F));
    CHECK(bits_of(add_rounded_once(-0.0F, -0.0)) == bits_of(-0.0F));
    CHECK(bits_of(add_rounded_once(3.0F, -3.0)) == bits_of(0.0F));
    CHECK(bits_of(add_rounded_once(-0.0F, -0x1p-200)) == bits_of(-0.0F));
    CHECK(add_rounded_once(std::numeric_limits<float>::max(), 0x1p103) == kInfinity);
    CHECK(add_rounded_once(kInfinity, -0x1p300) == kInfinity);
    CHECK(add_rounded_once(1.0F, -std::numeric_limits<double>::infinity()) == -kInfinity);
    for (const float sum : {add_rounded_once(kInfinity, -std::numeric_limits<double>::infinity()),
                            add_rounded_once(-kNan, 1.0), add_rounded_once(std::bit_cast<float>(0x7F800001U), 1.0),
                            add_rounded_once(1.0F, -std::numeric_limits<double>::quiet_NaN())}) {
        CHECK(bits_of(sum) == 0x7FC00000);
    }
}

// ---- what is refused

TEST_CASE("raw and FP32 are no operands, and block scales cannot be transposed") {
    OperandBlock out{};
    for (const FormatInfo& format : all_formats()) {
        const Bytes bytes(static_cast<std::size_t>(block_bytes(format.format)));
        const bool refused = format.rate == TensorRate::none;
        const std::string plain = input_error([&] { load_operand(format.format, bytes, false, out); });
        const std::string transposed = input_error([&] { load_operand(format.format, bytes, true, out); });
        CHECK(plain.empty() == !refused);
        CHECK(transposed.empty() == (!refused && !format.block_scaled));
        if (!transposed.empty()) {
            CHECK_THAT(transposed, Contains(std::string(format.name)));
        }
    }
    CHECK_THROWS_AS(load_operand(Format::mxfp8, Bytes(1024), false, out), InvariantError);
    std::array<float, 1024> sums{};
    CHECK_THROWS_AS(multiply_blocks(Format::bf16, out, Format::e4m3, out, 32, sums), InvariantError);
    CHECK_THROWS_AS(multiply_blocks(Format::bf16, out, Format::bf16, out, 33, sums), InvariantError);
}

}  // namespace
}  // namespace sluice::isa
