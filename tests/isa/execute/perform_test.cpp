// SPDX-License-Identifier: Apache-2.0
// Do operations leave the values that isa/README.md and program.hpp define? Each kind against a model of plain loops
// over plain arrays.
#include "isa/execute/perform.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "tests/isa/exact_sum.hpp"
#include "tests/isa/execute/operations.hpp"
#include "tests/support/files.hpp"

using namespace sluice;
using namespace sluice::isa;
using test::ExactSum;
using test::OneInstruction;
using test::Random;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kWindow = 65536;

/// The beginning of a memory as a plain array.
using Image = std::vector<std::byte>;

Image image_of(const Memories& memories, Space space, std::int64_t unit) {
    Image out(static_cast<std::size_t>(8 * kWindow));
    memories.at(space, unit).read(0, out);
    return out;
}
Image random_image(Random& random, std::int64_t bytes = 8 * kWindow) {
    Image out(static_cast<std::size_t>(bytes));
    for (std::byte& byte : out) {
        byte = static_cast<std::byte>(random.between(0, 255));
    }
    return out;
}

std::uint32_t bits_at(const Image& image, std::int64_t bit, int count) {
    std::uint32_t out = 0;
    for (int i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(bit + i);
        out |= (std::to_integer<std::uint32_t>(image[at / 8]) >> (at % 8) & 1U) << i;
    }
    return out;
}
void set_bits(Image& image, std::int64_t bit, int count, std::uint32_t value) {
    for (int i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(bit + i);
        const std::byte one = std::byte{1} << (at % 8);
        image[at / 8] = (value >> i & 1U) != 0 ? image[at / 8] | one : image[at / 8] & ~one;
    }
}

/// A matrix in memory: element (i, j) by its bits. `block` 0: rows of `row` bytes; else blocks of `held` rows.
struct Layout {
    Format format = Format::fp32;
    std::int64_t offset = 0, row = 0, block = 0, held = 32;

    [[nodiscard]] int bits() const { return info(format).element_bits; }
    [[nodiscard]] std::int64_t bit(std::int64_t i, std::int64_t j) const {
        if (block == 0) {
            return 8 * (offset + i * row) + j * bits();
        }
        return 8 * (offset + i / held * row + j / 32 * block) + (i % held * 32 + j % 32) * bits();
    }
    /// The byte of the scale of element (i, j).
    [[nodiscard]] std::size_t scale(std::int64_t i, std::int64_t j) const {
        return static_cast<std::size_t>(offset + i / held * row + j / 32 * block + held * 32 * bits() / 8 + i % held);
    }
    [[nodiscard]] float value(const Image& image, std::int64_t i, std::int64_t j) const {
        const float element = decode(info(format).element, bits_at(image, bit(i, j), bits()));
        return info(format).block_scaled ? std::ldexp(element, std::to_integer<int>(image[scale(i, j)]) - 127)
                                         : element;
    }
    void set(Image& image, std::int64_t i, std::int64_t j, float value) const {
        set_bits(image, bit(i, j), bits(), encode(info(format).element, value));
    }
    [[nodiscard]] std::string text() const {
        return fmt::format(" operand [{}] strides {} {}{}", offset, row, block,
                           held == 32 ? "" : fmt::format(" block_rows {}", held));
    }
};

/// What one vector macro makes of an image.
Image run_vector_on(const Image& image, const std::string& passes, const std::string& macro) {
    const OneInstruction it("tvp.0", "vector \"v\" " + macro, "vector \"v\" { " + passes + " }\n");
    Memories memories(test::toy());
    memories.at(Space::tsram, 0).write(0, image);
    it.run(memories);
    return image_of(memories, Space::tsram, 0);
}

bool same(float a, float b) {
    return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

// ---- DMA

namespace {

struct DmaShape {
    std::int64_t src, dst, run;
    std::array<std::int64_t, 2> counts{1, 1}, src_strides{0, 0}, dst_strides{0, 0};
    Format from = Format::raw, to = Format::raw;
};

DmaShape random_shape(Random& random) {
    DmaShape out{random.between(20000, 30000), random.between(20000, 30000), 4 * random.between(1, 30)};
    for (std::size_t i = 0; i < 2; ++i) {
        out.counts.at(i) = random.between(1, 4);
        out.src_strides.at(i) = random.between(-700, 700);
        out.dst_strides.at(i) = random.between(-700, 700);
    }
    return out;
}

std::string text_of(const DmaShape& shape, const std::string& from, const std::string& to) {
    std::string out = fmt::format("dma {}[{}] -> {}[{}] run {}", from, shape.src, to, shape.dst, shape.run);
    for (std::size_t i = 0; i < 2; ++i) {
        out +=
            fmt::format(" dim {} strides {} {}", shape.counts.at(i), shape.src_strides.at(i), shape.dst_strides.at(i));
    }
    return shape.from == Format::raw ? out : out + fmt::format(" convert {} {}", name(shape.from), name(shape.to));
}

void move(const DmaShape& shape, const Image& from, Image& to) {
    const int from_bits = shape.from == Format::raw ? 8 : info(shape.from).element_bits;
    const int to_bits = shape.to == Format::raw ? 8 : info(shape.to).element_bits;
    for (std::int64_t outer = 0; outer < shape.counts[1]; ++outer) {
        for (std::int64_t inner = 0; inner < shape.counts[0]; ++inner) {
            const std::int64_t source = shape.src + inner * shape.src_strides[0] + outer * shape.src_strides[1];
            const std::int64_t target = shape.dst + inner * shape.dst_strides[0] + outer * shape.dst_strides[1];
            for (std::int64_t i = 0; i < 8 * shape.run / from_bits; ++i) {
                std::uint32_t code = bits_at(from, 8 * source + i * from_bits, from_bits);
                if (shape.from != shape.to) {
                    code = encode(info(shape.to).element, decode(info(shape.from).element, code));
                }
                set_bits(to, 8 * target + i * to_bits, to_bits, code);
            }
        }
    }
}

}  // namespace

TEST_CASE("a DMA moves runs in up to three dimensions, forwards and backwards, and a multicast into every unit") {
    Random random(1);
    for (int i = 0; i < 60; ++i) {
        const DmaShape shape = random_shape(random);
        const bool to_both = i % 2 == 0;
        const OneInstruction it("tdma.0", text_of(shape, "tsram(self)", to_both ? "tsram(0 mask 3)" : "hbm(0)"));
        INFO(text_of(shape, "tsram(self)", to_both ? "tsram(0 mask 3)" : "hbm(0)"));
        Memories memories(test::toy());
        const Image source = random_image(random);
        const Image target = random_image(random);
        memories.at(Space::tsram, 0).write(0, source);
        memories.at(Space::tsram, 1).write(0, target);
        memories.hbm().write(0, target);
        it.run(memories);
        Image other = target;
        move(shape, source, other);
        Image own = source;
        move(shape, source, own);
        CHECK((image_of(memories, Space::tsram, 0) == (to_both ? own : source)));
        CHECK((image_of(memories, Space::tsram, 1) == (to_both ? other : target)));
        CHECK((image_of(memories, Space::hbm, 0) == (to_both ? target : other)));
    }
}

TEST_CASE("a DMA converts between e4m3, bf16 and fp32, codes of all kinds") {
    Random random(2);
    for (const Format from : {Format::e4m3, Format::bf16, Format::fp32}) {
        for (const Format to : {Format::e4m3, Format::bf16, Format::fp32}) {
            for (int i = 0; i < 5; ++i) {
                DmaShape shape = random_shape(random);
                shape.from = from;
                shape.to = to;
                const OneInstruction it("tdma.0", text_of(shape, "tsram(self)", "hbm(0)"));
                INFO(text_of(shape, "tsram(self)", "hbm(0)"));
                Memories memories(test::toy());
                const Image source = random_image(random);
                Image target = random_image(random);
                memories.at(Space::tsram, 0).write(0, source);
                memories.hbm().write(0, target);
                it.run(memories);
                move(shape, source, target);
                CHECK((image_of(memories, Space::hbm, 0) == target));
            }
        }
    }
}

// ---- tensor

namespace {

struct Product {
    Format a = Format::bf16, b = Format::bf16;
    std::int64_t mb = 1, nb = 1, kb = 1, last_rows = 32;
    bool transposed = false, accumulate = false;
    std::int64_t gap = 0;  ///< between blocks

    [[nodiscard]] static Layout blocks(Format format, std::int64_t offset, std::int64_t across, std::int64_t gap) {
        const auto size = static_cast<std::int64_t>(block_bytes(format)) + gap;
        return {format, offset, across * size, size};
    }
    [[nodiscard]] Layout layout_a() const { return blocks(a, 2 * kWindow, kb, gap); }
    /// Rows are n and columns k, or the other way round; the block of n and k stands in row n of blocks either way.
    [[nodiscard]] Layout layout_b() const { return blocks(b, 4 * kWindow, kb, gap); }
    [[nodiscard]] Layout layout_c() const { return blocks(Format::fp32, 0, nb, gap); }
    [[nodiscard]] std::int64_t rows() const { return 32 * (mb - 1) + last_rows; }
    [[nodiscard]] std::string text() const {
        const auto strides = [](const Layout& layout) {
            return fmt::format("strides {} {}", layout.row, layout.block);
        };
        return fmt::format("tensor {} x {} x {} last_rows {} a [{}] {} {} b [{}] {} {}{} c [0] {}{}", mb, nb, kb,
                           last_rows, layout_a().offset, strides(layout_a()), name(a), layout_b().offset,
                           strides(layout_b()), name(b), transposed ? " transposed" : "", strides(layout_c()),
                           accumulate ? " accumulate" : "");
    }
};

/// Codes of finite values near 1, and scales near 1.
Image operand_image(Random& random, const Product& product) {
    Image image = random_image(random);
    for (const Layout& layout : {product.layout_a(), product.layout_b()}) {
        const FormatInfo& format = info(layout.format);
        const std::int64_t end = layout.offset + 4 * layout.row;
        for (std::int64_t at = layout.offset; at < end; ++at) {
            std::byte& byte = image[static_cast<std::size_t>(at)];
            const bool high = format.element_bits == 8 || (format.element_bits == 16 && at % 2 == 1);
            byte = high ? byte & std::byte{0xBF} : byte;
        }
        for (std::int64_t row = 0; format.block_scaled && row < 32 * product.mb * product.nb; ++row) {
            for (std::int64_t k = 0; k < product.kb && row / 32 < 3; ++k) {
                image[layout.scale(row, 32 * k)] = static_cast<std::byte>(random.between(110, 140));
            }
        }
    }
    for (std::int64_t i = 0; i < 32 * product.mb; ++i) {
        for (std::int64_t j = 0; j < 32 * product.nb; ++j) {
            product.layout_c().set(image, i, j, static_cast<float>(random.between(-1000, 1000)) / 64);
        }
    }
    return image;
}

float element_b(const Product& product, const Image& image, std::int64_t n, std::int64_t k) {
    const Layout layout = product.layout_b();
    return product.transposed ? layout.value(image, n / 32 * 32 + k % 32, k / 32 * 32 + n % 32)
                              : layout.value(image, n, k);
}

/// One element of C as isa/number/README.md states it.
float dot(const Product& product, const Image& image, std::int64_t m, std::int64_t n) {
    float sum = product.accumulate ? product.layout_c().value(image, m, n) : 0.0F;
    const std::int64_t step = product.a == Format::bf16 ? 8 : 32;
    for (std::int64_t first = 0; first < 32 * product.kb; first += step) {
        ExactSum exact;
        exact.add(static_cast<double>(sum));
        double rounded = 0;
        for (std::int64_t k = first; k < first + step; ++k) {
            const double term = static_cast<double>(product.layout_a().value(image, m, k)) *
                                static_cast<double>(element_b(product, image, n, k));
            if (product.a == Format::bf16) {
                rounded += term;
            } else {
                exact.add(term);
            }
        }
        exact.add(rounded);
        sum = exact.rounded();
    }
    return sum;
}

void check(const Product& product, Random& random) {
    INFO(product.text());
    const OneInstruction it("ttu.0", product.text());
    Memories memories(test::toy());
    Image image = operand_image(random, product);
    memories.at(Space::tsram, 0).write(0, image);
    it.run(memories);
    Image expected = image;
    for (std::int64_t m = 0; m < product.rows(); ++m) {
        for (std::int64_t n = 0; n < 32 * product.nb; ++n) {
            set_bits(expected, product.layout_c().bit(m, n), 32,
                     std::bit_cast<std::uint32_t>(dot(product, image, m, n)));
        }
    }
    // All of the memory: rows beyond the last one, gaps and operands stay as they were.
    CHECK((image_of(memories, Space::tsram, 0) == expected));
}

}  // namespace

TEST_CASE("a tensor macro multiplies operands of every two formats") {
    Random random(3);
    for (const auto& [a, b] : test::tensor_pairs()) {
        Product product;
        product.a = a;
        product.b = b;
        product.kb = 2;
        product.transposed = !info(b).block_scaled && random.chance(50);
        product.accumulate = random.chance(50);
        product.last_rows = random.between(1, 3);
        check(product, random);
    }
}

TEST_CASE("a tensor macro walks its blocks by their strides, with whole and partial rows, added up or not") {
    Random random(4);
    for (int i = 0; i < 12; ++i) {
        Product product;
        const auto [a, b] = random.of(test::tensor_pairs());
        product.a = a;
        product.b = b;
        product.mb = random.between(1, 2);
        product.nb = random.between(1, 2);
        product.kb = random.between(1, 2);
        product.last_rows = random.between(1, 32);
        product.transposed = !info(b).block_scaled && random.chance(50);
        product.accumulate = random.chance(50);
        product.gap = 32 * random.between(0, 3);
        check(product, random);
    }
}

// ---- vector operations

namespace {

/// Values of all kinds, in three operands and a result of 32 columns in rows.
constexpr std::int64_t kRows = 40;

Image fp32_image(Random& random, const std::vector<float>& special) {
    Image image(static_cast<std::size_t>(8 * kWindow));
    for (std::int64_t at = 0; at < 3 * kWindow; at += 4) {
        const float value = random.chance(40) ? random.of(special)
                            : random.chance(50)
                                ? static_cast<float>(random.between(-3000, 3000)) / 128
                                : std::bit_cast<float>(static_cast<std::uint32_t>(random.between(0, 0xFFFFFFFF)));
        std::memcpy(&image[static_cast<std::size_t>(at)], &value, 4);
    }
    return image;
}

Layout rows_of(std::int64_t window, std::int64_t cols, Format format = Format::fp32) {
    return {format, window * kWindow, static_cast<std::int64_t>(row_bytes(format, cols)), 0};
}

void check_operation(const std::string& words, const std::function<float(float, float, float)>& model) {
    INFO(words);
    Random random(5);
    const Image image = fp32_image(random, {0.0F, -0.0F, 1.0F, -1.0F, kInfinity, -kInfinity, kNan, 0x1p-149F, 0x1p-126F,
                                            -0x1p127F, 0x1.fffffep127F, 88.8F, -104.0F});
    const std::string passes =
        "pass { v0 = load operand 0 fp32 v1 = load operand 1 fp32 v2 = load operand 2 fp32 v3 = " + words +
        " store operand 3 fp32 v3 }";
    const Image result =
        run_vector_on(image, passes,
                      fmt::format("rows {} cols 32{}{}{}{}", kRows, rows_of(0, 32).text(), rows_of(1, 32).text(),
                                  rows_of(2, 32).text(), rows_of(3, 32).text()));
    for (std::int64_t i = 0; i < kRows; ++i) {
        for (std::int64_t j = 0; j < 32; ++j) {
            const float a = rows_of(0, 32).value(image, i, j);
            const float b = rows_of(1, 32).value(image, i, j);
            const float c = rows_of(2, 32).value(image, i, j);
            const float found = rows_of(3, 32).value(result, i, j);
            INFO(a << " " << b << " " << c << " gives " << found << ", not " << model(a, b, c));
            REQUIRE(same(found, model(a, b, c)));
        }
    }
}

float nearest(double value) {
    return static_cast<float>(value);
}

}  // namespace

TEST_CASE("arithmetic of values is rounded once") {
    // Sums and products of two FP32 values are exact in binary64, or far from a tie (Figueroa, 1995).
    check_operation("add v0 v1", [](double a, double b, double) { return nearest(a + b); });
    check_operation("sub v0 v1", [](double a, double b, double) { return nearest(a - b); });
    check_operation("mul v0 v1", [](double a, double b, double) { return nearest(a * b); });
    check_operation("exp v0", [](double a, double, double) { return nearest(std::exp(a)); });
    check_operation("reciprocal v0", [](double a, double, double) { return nearest(1 / a); });
    check_operation("rsqrt v0", [](double a, double, double) { return nearest(1 / std::sqrt(a)); });
    check_operation("constant 0.1", [](double, double, double) { return nearest(0.1); });
    check_operation("fma v0 v1 v2", [](float a, float b, float c) {
        if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c)) {
            return nearest(static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c));
        }
        ExactSum sum;
        sum.add(static_cast<double>(a) * static_cast<double>(b));
        sum.add(static_cast<double>(c));
        const float rounded = sum.rounded();
        return rounded == 0 ? std::fma(a, b, c) : rounded;  // the sign of a zero is IEEE 754's
    });
}

TEST_CASE("a maximum or minimum does not hide a NaN") {
    const auto with_nan = [](float a, float b, float value) { return std::isnan(a) || std::isnan(b) ? kNan : value; };
    check_operation("keep_below v0 v1", [&](float a, float b, float) {
        return with_nan(a, b, a < b ? a : -std::numeric_limits<float>::infinity());
    });
    check_operation("max v0 v1", [&](float a, float b, float) { return with_nan(a, b, a < b ? b : a); });
    check_operation("min v0 v1", [&](float a, float b, float) { return with_nan(a, b, b < a ? b : a); });
}

// ---- operands

namespace {

Layout random_layout(Random& random, std::int64_t window, Format format, std::int64_t cols) {
    const std::int64_t offset = window * kWindow + random.between(0, 50);
    const int bits = info(format).element_bits;
    const std::int64_t way = info(format).block_scaled ? random.between(1, 2) : random.between(0, 2);
    if (way == 0) {
        return {format, offset, static_cast<std::int64_t>(row_bytes(format, cols)) + random.between(0, 9), 0};
    }
    const std::int64_t held = way == 1 ? 32 : random.between(1, 31);
    const std::int64_t block = held * (32 * bits / 8 + (info(format).block_scaled ? 1 : 0)) + random.between(0, 9);
    return {format, offset, ceil_div<std::int64_t>(cols, 32) * block + random.between(0, 9), block, held};
}

/// Scales near 1, and elements that are numbers.
void make_numbers(Image& image, const Layout& layout, std::int64_t rows, std::int64_t cols, Random& random) {
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < cols; ++j) {
            const int bits = layout.bits();
            std::uint32_t code = bits_at(image, layout.bit(i, j), bits);
            code = bits >= 8 ? code & ~(1U << (bits - 2)) : code;  // an exponent of at most half the range
            set_bits(image, layout.bit(i, j), bits, code);
            if (info(layout.format).block_scaled && j % 32 == 0) {
                image[layout.scale(i, j)] = static_cast<std::byte>(random.between(120, 134));
            }
        }
    }
}

}  // namespace

TEST_CASE("elements are loaded and stored in rows, in blocks and in packed blocks, in every format") {
    Random random(6);
    for (const Format from : test::number_formats(4, true)) {
        for (const Format to : test::number_formats(4, false)) {
            const bool whole = info(from).element_bits < 8 || info(from).block_scaled || info(to).element_bits < 8;
            const std::int64_t rows = random.between(1, 70);
            const std::int64_t cols = whole ? 32 * random.between(1, 3) : random.between(1, 100);
            const Layout source = random_layout(random, 0, from, cols);
            const Layout target = random_layout(random, 1, to, cols);
            Image image = random_image(random);
            make_numbers(image, source, rows, cols, random);
            const std::string macro = fmt::format("rows {} cols {}{}{}", rows, cols, source.text(), target.text());
            const Image result = run_vector_on(
                image, fmt::format("pass {{ v0 = load operand 0 {} store operand 1 {} v0 }}", name(from), name(to)),
                macro);
            INFO(name(from) << " to " << name(to) << " " << macro);
            Image expected = image;
            for (std::int64_t i = 0; i < rows; ++i) {
                for (std::int64_t j = 0; j < cols; ++j) {
                    target.set(expected, i, j, source.value(image, i, j));
                }
            }
            CHECK((result == expected));
        }
    }
}

TEST_CASE("one value a row and one value a column stand for all columns and all rows") {
    Random random(7);
    for (int round = 0; round < 20; ++round) {
        const std::int64_t rows = random.between(1, 70);
        const std::int64_t cols = random.between(1, 70);
        const Layout of_row = random_layout(random, 0, Format::bf16, 1);
        const Layout of_column = random_layout(random, 1, Format::fp16, cols);
        const Layout sum = random_layout(random, 2, Format::fp32, cols);
        const Layout copy = random_layout(random, 3, Format::e5m2, 1);
        Image image = random_image(random);
        make_numbers(image, of_row, rows, 1, random);
        make_numbers(image, of_column, 1, cols, random);
        const Image result = run_vector_on(
            image,
            "pass { v0 = load_row operand 0 bf16 v1 = load_col operand 1 fp16 v2 = add v0 v1 store operand 2 fp32 v2 "
            "store_row operand 3 e5m2 v0 }",
            fmt::format("rows {} cols {}{}{}{}{}", rows, cols, of_row.text(), of_column.text(), sum.text(),
                        copy.text()));
        Image expected = image;
        for (std::int64_t i = 0; i < rows; ++i) {
            copy.set(expected, i, 0, of_row.value(image, i, 0));
            for (std::int64_t j = 0; j < cols; ++j) {
                sum.set(expected, i, j, of_row.value(image, i, 0) + of_column.value(image, 0, j));
            }
        }
        CHECK((result == expected));
    }
}

// ---- passes, reductions, masks

namespace {

/// One row of values through a program that stores one value of it in operand 1.
float reduced(const std::string& words, const std::vector<float>& values) {
    const auto cols = static_cast<std::int64_t>(values.size());
    Image image(static_cast<std::size_t>(8 * kWindow));
    for (std::int64_t j = 0; j < cols; ++j) {
        rows_of(0, cols).set(image, 0, j, values[static_cast<std::size_t>(j)]);
    }
    const Image result = run_vector_on(
        image, "pass { v0 = load operand 0 fp32 v1 = " + words + " v0 } pass rows { store_row operand 1 fp32 v1 }",
        fmt::format("rows 1 cols {}{}{}", cols, rows_of(0, cols).text(), rows_of(1, 1).text()));
    return rows_of(1, 1).value(result, 0, 0);
}

}  // namespace

TEST_CASE("a sum along a row is added in binary64, ascending, and rounded once") {
    CHECK(reduced("row_sum", {1, 2, 3.5F}) == 6.5F);
    CHECK(reduced("row_sum", {-4}) == -4);
    // In FP32 each 1 would be lost; together they are one last place of 2^24.
    CHECK(reduced("row_sum", {0x1p24F, 1, 1}) == 0x1.000002p24F);
    // In binary64 the 1 is lost to 2^60 and the 3 is not, in this order alone.
    CHECK(reduced("row_sum", {0x1p60F, 1, -0x1p60F, 3}) == 3);
    CHECK(reduced("row_sum", {0x1p127F, 0x1p127F, -0x1p127F}) == 0x1p127F);
    CHECK(reduced("row_sum", {0x1p127F, 0x1p127F}) == kInfinity);
    CHECK(std::isnan(reduced("row_sum", {kInfinity, -kInfinity})));
    CHECK(reduced("row_sum", std::vector<float>(100, 0.5F)) == 50);
}

TEST_CASE("a maximum along a row is that of all columns, and NaN if there is one") {
    CHECK(reduced("row_max", {-5, -3, -4}) == -3);
    CHECK(reduced("row_max", {-kInfinity, -kInfinity}) == -kInfinity);
    CHECK(reduced("row_max", std::vector<float>(77, -2)) == -2);
    for (std::size_t at = 0; at < 40; ++at) {
        std::vector<float> values(40, 1);
        values[at] = 9;
        CHECK(reduced("row_max", values) == 9);
        values[at] = kNan;
        CHECK(std::isnan(reduced("row_max", values)));
    }
}

TEST_CASE("reductions and values of a row live on in later passes: a softmax") {
    Random random(8);
    const std::int64_t rows = 37;
    const std::int64_t cols = 45;
    Image image(static_cast<std::size_t>(8 * kWindow));
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < cols; ++j) {
            rows_of(0, cols).set(image, i, j, static_cast<float>(random.between(-4000, 4000)) / 256);
        }
    }
    const Image result = run_vector_on(
        image,
        "pass { v0 = load operand 0 fp32 v1 = row_max v0 } "
        "pass { v2 = load operand 0 fp32 v3 = sub v2 v1 v4 = exp v3 v5 = row_sum v4 store operand 1 fp32 v4 } "
        "pass rows { v6 = reciprocal v5 } "
        "pass { v7 = load operand 1 fp32 v8 = mul v7 v6 store operand 1 fp32 v8 }",
        fmt::format("rows {} cols {}{}{}", rows, cols, rows_of(0, cols).text(), rows_of(1, cols).text()));
    for (std::int64_t i = 0; i < rows; ++i) {
        float largest = -kInfinity;
        for (std::int64_t j = 0; j < cols; ++j) {
            largest = std::max(largest, rows_of(0, cols).value(image, i, j));
        }
        std::vector<float> powers;
        double sum = 0;
        for (std::int64_t j = 0; j < cols; ++j) {
            const float shifted = rows_of(0, cols).value(image, i, j) - largest;
            powers.push_back(nearest(std::exp(static_cast<double>(shifted))));
            sum += static_cast<double>(powers.back());
        }
        const float factor = nearest(1 / static_cast<double>(nearest(sum)));
        for (std::int64_t j = 0; j < cols; ++j) {
            REQUIRE(rows_of(1, cols).value(result, i, j) == powers[static_cast<std::size_t>(j)] * factor);
        }
    }
}

TEST_CASE("a mask keeps the columns up to its limit, by row one more each row of a block") {
    const std::int64_t rows = 70;
    const std::int64_t cols = 75;
    Image image(static_cast<std::size_t>(8 * kWindow));
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < cols; ++j) {
            rows_of(0, cols).set(image, i, j, static_cast<float>(i * 100 + j));
        }
    }
    for (const std::int64_t limit : {0, 1, 31, 32, 40, 74, 200}) {
        for (const bool by_row : {false, true}) {
            const Image result =
                run_vector_on(image, "pass { v0 = load operand 0 fp32 v1 = mask v0 store operand 1 fp32 v1 }",
                              fmt::format("rows {} cols {}{}{} mask {}{}", rows, cols, rows_of(0, cols).text(),
                                          rows_of(1, cols).text(), limit, by_row ? " by_row" : ""));
            std::int64_t wrong = 0;
            for (std::int64_t i = 0; i < rows; ++i) {
                for (std::int64_t j = 0; j < cols; ++j) {
                    const bool kept = j <= limit + (by_row ? i % 32 : 0);
                    const float expected = kept ? static_cast<float>(i * 100 + j) : -kInfinity;
                    wrong += rows_of(1, cols).value(result, i, j) == expected ? 0 : 1;
                }
            }
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("the largest magnitude is that of each 32 columns, of what is left at the end, and NaN if there is one") {
    const std::int64_t cols = 75;
    Image image(static_cast<std::size_t>(8 * kWindow));
    for (std::int64_t j = 0; j < cols; ++j) {
        rows_of(0, cols).set(image, 0, j, j < 32 ? -static_cast<float>(j) : static_cast<float>(j) / 4);
        rows_of(0, cols).set(image, 1, j, j == 40 ? kNan : -1.0F);
    }
    const Image result =
        run_vector_on(image, "pass { v0 = load operand 0 fp32 v1 = group_max_abs v0 store operand 1 fp32 v1 }",
                      fmt::format("rows 2 cols {}{}{}", cols, rows_of(0, cols).text(), rows_of(1, cols).text()));
    const std::array<float, 3> expected{31, 63.0F / 4, 74.0F / 4};
    for (std::int64_t j = 0; j < cols; ++j) {
        CHECK(rows_of(1, cols).value(result, 0, j) == expected.at(static_cast<std::size_t>(j / 32)));
        CHECK(same(rows_of(1, cols).value(result, 1, j), j / 32 == 1 ? kNan : 1.0F));
    }
}

// ---- block scales

namespace {

/// The scale's exponent as isa/number/README.md states it.
int scale_exponent(double largest, const NumberInfo& element, ScaleRounding rounding) {
    if (rounding == ScaleRounding::ceil) {
        int exponent = -127;
        while (largest > static_cast<double>(element.largest) * std::ldexp(1.0, exponent)) {
            ++exponent;
        }
        return exponent;
    }
    if (rounding == ScaleRounding::even) {
        const int lowest = std::ilogb(largest) - element.mantissa_bits;
        largest = std::ldexp(std::nearbyint(std::ldexp(largest, -lowest)), lowest);
    }
    return std::max(-127, std::ilogb(largest) - element.highest_exponent);
}

}  // namespace

TEST_CASE("block scales of the three roundings are stored with their elements, in blocks of any height") {
    Random random(9);
    const std::int64_t rows = 50;
    const std::int64_t cols = 96;
    for (const FormatInfo& format : all_formats()) {
        for (const ScaleRounding rounding : {ScaleRounding::floor, ScaleRounding::ceil, ScaleRounding::even}) {
            if (!format.block_scaled) {
                continue;
            }
            const Layout target = random_layout(random, 1, format.format, cols);
            Image image = random_image(random);
            for (std::int64_t i = 0; i < rows; ++i) {
                for (std::int64_t j = 0; j < cols; ++j) {
                    const auto digits = static_cast<float>(random.between(-1000, 1000));
                    rows_of(0, cols).set(image, i, j, std::ldexp(digits, static_cast<int>(i * 3 + j / 32 * 2) - 100));
                }
            }
            const Image result = run_vector_on(
                image,
                fmt::format("pass {{ v0 = load operand 0 fp32 v1 = group_max_abs v0 v2 = block_scale v1 {} {} "
                            "store operand 1 {} v0 v2 }}",
                            format.name, name(rounding), format.name),
                fmt::format("rows {} cols {}{}{}", rows, cols, rows_of(0, cols).text(), target.text()));
            Image expected = image;
            for (std::int64_t i = 0; i < rows; ++i) {
                for (std::int64_t group = 0; group < cols; group += 32) {
                    double largest = 0;
                    for (std::int64_t j = group; j < group + 32; ++j) {
                        largest = std::max(largest, std::abs(static_cast<double>(rows_of(0, cols).value(image, i, j))));
                    }
                    REQUIRE(largest > 0);
                    const int exponent = scale_exponent(largest, info(format.element), rounding);
                    expected[target.scale(i, group)] = static_cast<std::byte>(exponent + 127);
                    for (std::int64_t j = group; j < group + 32; ++j) {
                        target.set(expected, i, j, std::ldexp(rows_of(0, cols).value(image, i, j), -exponent));
                    }
                }
            }
            INFO(format.name << " " << name(rounding) << target.text());
            CHECK((result == expected));
        }
    }
}

TEST_CASE("a group with a NaN or an infinity gets the scale that is NaN, a group of zeros the smallest") {
    for (const float special : {kNan, kInfinity, -kInfinity, 0.0F}) {
        Image image(static_cast<std::size_t>(8 * kWindow));
        rows_of(0, 32).set(image, 0, 7, special);
        const Layout target{Format::mxfp4, kWindow, 544, 544};
        const Image result =
            run_vector_on(image,
                          "pass { v0 = load operand 0 fp32 v1 = group_max_abs v0 v2 = block_scale v1 mxfp4 floor "
                          "store operand 1 mxfp4 v0 v2 } ",
                          "rows 1 cols 32" + rows_of(0, 32).text() + target.text());
        CHECK(result[target.scale(0, 0)] == (special == 0 ? std::byte{0} : std::byte{0xFF}));
        CHECK(bits_at(result, target.bit(0, 7), 4) == 0);
    }
}

TEST_CASE("a NaN that a format cannot hold is an error, and one that it can is stored") {
    const auto store = [](const std::string& format) {
        Image image(static_cast<std::size_t>(8 * kWindow));
        rows_of(0, 32).set(image, 0, 3, kNan);
        return test::input_error([&] {
            run_vector_on(image, "pass { v0 = load operand 0 fp32 store operand 1 " + format + " v0 }",
                          "rows 1 cols 32" + rows_of(0, 32).text() + rows_of(1, 32).text());
        });
    };
    CHECK(store("e4m3").empty());
    CHECK(store("bf16").empty());
    CHECK(store("e2m3").find("NaN") != std::string::npos);
}

// ---- reshapes

TEST_CASE("a reshape puts every element where its kind says, converted or not, of any size") {
    Random random(10);
    for (int round = 0; round < 150; ++round) {
        const std::string kind = random.of<std::string>({"pack_blocks", "unpack_blocks", "transpose_blocks"});
        const bool transposes = kind == "transpose_blocks";
        const Format from = random.of(test::number_formats(4, false));
        const bool short_elements = info(from).element_bits < 8;
        const Format to = short_elements || random.chance(40) ? from : random.of(test::number_formats(8, false));
        const std::int64_t rows = short_elements ? 32 * random.between(1, 2) : random.between(1, 70);
        const std::int64_t cols = short_elements ? 32 * random.between(1, 2) : random.between(1, 70);
        const auto side = [&](bool blocked, Format format, std::int64_t window, std::int64_t width) {
            const std::int64_t block = blocked ? static_cast<std::int64_t>(block_bytes(format)) : 0;
            const std::int64_t row = blocked ? ceil_div<std::int64_t>(width, 32) * block
                                             : static_cast<std::int64_t>(row_bytes(format, width));
            return Layout{format, window * kWindow + random.between(0, 50), row + random.between(0, 50), block};
        };
        const Layout source = side(kind != "pack_blocks", from, 0, cols);
        const Layout target = side(kind != "unpack_blocks", to, 2, transposes ? rows : cols);
        const std::string text =
            fmt::format("reshape {} rows {} cols {} src [{}] stride {} {} dst [{}] stride {} {}", kind, rows, cols,
                        source.offset, source.row, name(from), target.offset, target.row, name(to));
        INFO(text);
        const OneInstruction it("reshaper.0", text);
        Memories memories(test::toy());
        const Image image = random_image(random);
        memories.at(Space::tsram, 0).write(0, image);
        it.run(memories);
        Image expected = image;
        for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t j = 0; j < cols; ++j) {
                const std::int64_t bit = transposes ? target.bit(j, i) : target.bit(i, j);
                const std::uint32_t code = bits_at(image, source.bit(i, j), source.bits());
                set_bits(expected, bit, target.bits(),
                         from == to ? code : encode(info(to).element, decode(info(from).element, code)));
            }
        }
        CHECK((image_of(memories, Space::tsram, 0) == expected));
    }
}
