// SPDX-License-Identifier: Apache-2.0
// Does an operation touch exactly the bytes that are said to be its own? Random macros of all kinds run twice: with
// nothing else written, and with everything else written at random. Both must leave the same bytes where the macro
// writes, every one of them written, and no other byte changed.
#include <catch2/catch.hpp>
#include <map>

#include "tests/isa/execute/operations.hpp"
#include "tests/support/files.hpp"

using namespace sluice;
using namespace sluice::isa;
using test::OneInstruction;
using test::Random;

namespace {

constexpr std::int64_t kWindow = 65536;  ///< of a vector macro's operand
constexpr std::array kSpaces{std::pair{Space::hbm, std::int64_t{1}}, std::pair{Space::csram, std::int64_t{1}},
                             std::pair{Space::tsram, std::int64_t{2}}};
constexpr std::int64_t kUsed = 8 * kWindow;  ///< of every memory

using Marks = std::map<std::pair<Space, std::int64_t>, std::vector<char>>;  ///< of the used bytes of each memory

Marks marks(const std::vector<Access>& accesses, bool write) {
    Marks out;
    for (const auto& [space, units] : kSpaces) {
        for (std::int64_t unit = 0; unit < units; ++unit) {
            out[{space, unit}].assign(kUsed, 0);
        }
    }
    for (const Access& access : accesses) {
        std::vector<char>& of_memory = out.at({access.space, access.unit});
        for (std::int64_t outer = 0; outer < access.counts[1] && access.write == write; ++outer) {
            for (std::int64_t inner = 0; inner < access.counts[0]; ++inner) {
                const std::int64_t at = access.offset + outer * access.strides[1] + inner * access.strides[0];
                REQUIRE((at >= 0 && at + access.run <= kUsed));
                std::fill_n(of_memory.begin() + at, access.run, 1);
            }
        }
    }
    return out;
}

/// Bytes from which no format makes a NaN, an infinity or only zeros: scaled ones need scales near 1.
struct ByteRange {
    std::int64_t low = 0, high = 255;
};
constexpr ByteRange kUnscaled{0x30, 0x3F};
constexpr ByteRange kScaled{0x74, 0x7B};
ByteRange bytes_for(Format format) {
    return info(format).block_scaled ? kScaled : kUnscaled;
}

struct Case {
    std::string queue, content, declarations;
    std::map<std::int64_t, ByteRange> windows;  ///< what to read; elsewhere anything
};

void write_byte(Memories& memories, const std::pair<Space, std::int64_t>& where, std::size_t at, std::byte value) {
    memories.at(where.first, where.second).write(at, std::span(&value, 1));
}

/// The bytes that the macro reads, and all others too if `junk` is not null.
void fill(Memories& memories, const Marks& reads, const Case& test, std::uint64_t seed, Random* junk) {
    Random random(seed);
    for (const auto& [where, of_memory] : reads) {
        if (junk != nullptr) {
            std::vector<std::byte> noise(of_memory.size());
            for (std::byte& byte : noise) {
                byte = static_cast<std::byte>(junk->between(0, 255));
            }
            memories.at(where.first, where.second).write(0, noise);
        }
        for (std::size_t at = 0; at < of_memory.size(); ++at) {
            if (of_memory[at] != 0) {
                const auto range = test.windows.find(static_cast<std::int64_t>(at) / kWindow);
                const ByteRange bytes = range == test.windows.end() ? ByteRange{} : range->second;
                write_byte(memories, where, at, static_cast<std::byte>(random.between(bytes.low, bytes.high)));
            }
        }
    }
}

std::vector<std::byte> all_of(const Memories& memories, const std::pair<Space, std::int64_t>& where) {
    std::vector<std::byte> out(kUsed);
    memories.at(where.first, where.second).read(0, out);
    return out;
}

/// Runs a part and checks it.
void check_part(const OneInstruction& it, const Case& test, std::int64_t part, std::uint64_t seed) {
    const std::vector<Access> accesses = it.accesses(part);
    const Marks reads = marks(accesses, false);
    const Marks writes = marks(accesses, true);
    Memories bare(test::toy());
    fill(bare, reads, test, seed, nullptr);
    Memories before(test::toy());
    fill(before, reads, test, seed, nullptr);
    REQUIRE(find_unwritten(accesses, bare) == std::nullopt);
    it.run(bare, part);
    Memories noisy(test::toy());
    Random noise(seed + 1);
    fill(noisy, reads, test, seed, &noise);
    std::map<std::pair<Space, std::int64_t>, std::vector<std::byte>> noisy_before;
    for (const auto& [where, of_memory] : writes) {
        noisy_before[where] = all_of(noisy, where);
    }
    it.run(noisy, part);

    for (const auto& [where, of_memory] : writes) {
        const std::vector<std::byte> result = all_of(bare, where);
        const std::vector<std::byte> noisy_result = all_of(noisy, where);
        std::size_t wrong = 0;
        for (std::size_t at = 0; at < of_memory.size(); ++at) {
            if (of_memory[at] == 0) {
                wrong += noisy_result[at] == noisy_before[where][at] ? 0U : 1U;
                continue;
            }
            wrong += result[at] == noisy_result[at] ? 0U : 1U;
            wrong += bare.at(where.first, where.second).first_unwritten(at, 1) ? 1U : 0U;
            write_byte(before, where, at, result[at]);
        }
        CHECK(wrong == 0);
        // With the result put in by hand, it is the memory that the macro left: nothing else was written.
        CHECK(bare.at(where.first, where.second).first_difference(before.at(where.first, where.second)) ==
              std::nullopt);
    }
}

void check(const Case& test, std::uint64_t seed) {
    INFO("seed " << seed << "\n" << test.declarations << test.content);
    const OneInstruction it(test.queue, test.content, test.declarations);
    for (std::int64_t part = 0; part < it.operation().parts(); ++part) {
        check_part(it, test, part, seed);
    }
}

// ---- random macros

Case random_dma(Random& random) {
    const std::int64_t run = random.between(1, 40) * 4;
    std::string dims;
    const std::int64_t dimensions = random.between(0, 2);
    for (std::int64_t i = 0; i < dimensions; ++i) {
        dims += fmt::format(" dim {} strides {} {}", random.between(1, 5), random.between(-300, 300),
                            random.between(0, 1) == 0 ? random.between(700, 900) : -random.between(700, 900));
    }
    const std::vector<std::string> formats{"e4m3", "bf16", "fp32"};
    const std::string convert =
        random.chance(50) ? fmt::format(" convert {} {}", random.of(formats), random.of(formats)) : "";
    // Far enough from both ends for strides of either sign.
    const std::string own = fmt::format("tsram(self)[{}]", random.between(20000, 30000));
    const std::string other =
        fmt::format("{}[{}]", random.of<std::string>({"hbm(0)", "csram(0)", "tsram(1)"}), random.between(20000, 30000));
    const std::string spread = fmt::format("tsram(0 mask 3)[{}]", random.between(50000, 60000));
    const std::int64_t way = random.between(0, 2);
    const std::string ends = way == 1 ? other + " -> " + own : own + " -> " + (way == 0 ? other : spread);
    return {"tdma.0", fmt::format("dma {} run {}{}{}", ends, run, dims, convert), "", {}};
}

Case random_tensor(Random& random) {
    const auto [a, b] = random.of(test::tensor_pairs());
    const auto a_bytes = static_cast<std::int64_t>(block_bytes(a));
    const auto b_bytes = static_cast<std::int64_t>(block_bytes(b));
    const std::int64_t mb = random.between(1, 3);
    const std::int64_t nb = random.between(1, 2);
    const std::int64_t kb = random.between(1, 3);
    const std::int64_t gap = 32 * random.between(0, 3);
    std::string text = fmt::format("tensor {} x {} x {}", mb, nb, kb);
    if (random.chance(50)) {
        text += fmt::format(" last_rows {}", random.between(1, 32));
    }
    text += fmt::format(" a [{}] strides {} {} {}", 2 * kWindow, kb * (a_bytes + gap), a_bytes + gap, name(a));
    text += fmt::format(" b [{}] strides {} {} {}", 3 * kWindow, b_bytes + gap, nb * (b_bytes + gap), name(b));
    if (!info(b).block_scaled && random.chance(50)) {
        text += " transposed";
    }
    text += fmt::format(" c [0] strides {} {}", nb * (4096 + gap), 4096 + gap);
    text += random.chance(50) ? " accumulate" : "";
    text += random.chance(50) ? " row_signal tile(self)[1]" : "";
    return {"ttu.0", text, "", {{0, kUnscaled}, {2, bytes_for(a)}, {3, bytes_for(b)}}};
}

/// Where operand `number` lies: in rows, in blocks, or in blocks of fewer rows.
std::string random_operand(Random& random, std::int64_t number, Format format, std::int64_t cols, bool may_be_rows) {
    const FormatInfo& about = info(format);
    const std::int64_t offset = number * kWindow + random.between(0, 100);
    if (!about.block_scaled && (may_be_rows || random.chance(50))) {
        const std::int64_t row = cols * about.element_bits / 8 + random.between(0, 20);
        return fmt::format(" operand [{}] strides {} 0", offset, row);
    }
    const std::int64_t held = random.chance(50) ? 32 : random.between(1, 31);
    const std::int64_t block = held * (kBlockEdge * about.element_bits / 8 + 1) + random.between(0, 20);
    const std::int64_t row = ceil_div(cols, kBlockEdge) * block + random.between(0, 20);
    return fmt::format(" operand [{}] strides {} {}{}", offset, row, block,
                       held == 32 ? "" : fmt::format(" block_rows {}", held));
}

Case random_vector(Random& random) {
    const Format element = random.of(test::number_formats(4, true));
    const Format row = random.of(test::number_formats(8, false));
    const Format column = random.of(test::number_formats(8, false));
    const Format stored = random.of(test::number_formats(4, true));
    const Format sum = random.of(test::number_formats(8, false));
    const bool whole = info(element).element_bits < 8 || info(element).block_scaled || info(stored).element_bits < 8 ||
                       info(stored).block_scaled;
    const std::int64_t rows = random.between(1, 70);
    const std::int64_t cols = whole ? 32 * random.between(1, 3) : random.between(1, 100);
    const std::string store =
        info(stored).block_scaled
            ? fmt::format("v4 = group_max_abs v3 v5 = block_scale v4 {} ceil store operand 3 {} v3 v5", name(stored),
                          name(stored))
            : fmt::format("store operand 3 {} v3", name(stored));
    const std::string declarations = fmt::format(
        "vector \"v\" {{ pass {{ v0 = load operand 0 {} v1 = load_row operand 1 {} v2 = load_col operand 2 {} "
        "v3 = fma v0 v1 v2 {} v6 = row_sum v0 }} "
        "pass rows {{ v7 = load operand 1 {} v8 = add v6 v7 store_row operand 4 {} v8 store operand 5 {} v7 }} }}\n",
        name(element), name(row), name(column), store, name(row), name(sum), name(sum));
    Case out{"tvp.0", fmt::format("vector \"v\" rows {} cols {}", rows, cols), declarations, {}};
    const std::array formats{element, row, column, stored, sum, sum};
    for (std::size_t i = 0; i < formats.size(); ++i) {
        out.content += random_operand(random, static_cast<std::int64_t>(i), formats.at(i), cols, i == 4);
        out.windows[static_cast<std::int64_t>(i)] = bytes_for(formats.at(i));
    }
    return out;
}

Case random_reshape(Random& random) {
    const std::string kind = random.of<std::string>({"pack_blocks", "unpack_blocks", "transpose_blocks"});
    Format from = random.of(test::number_formats(4, false));
    Format to = from;
    if (info(from).element_bits >= 8 && random.chance(50)) {
        to = random.of(test::number_formats(8, false));
    }
    if (random.chance(10)) {
        from = to = Format::raw;
    }
    const std::int64_t step = info(from).element_bits < 8 ? 32 : 1;
    const std::int64_t rows = step == 1 ? random.between(1, 70) : step * random.between(1, 2);
    const std::int64_t cols = step == 1 ? random.between(1, 70) : step * random.between(1, 2);
    const auto stride = [&](bool blocked, Format format, std::int64_t width) {
        const std::int64_t size = blocked ? ceil_div(width, kBlockEdge) * static_cast<std::int64_t>(block_bytes(format))
                                          : static_cast<std::int64_t>(row_bytes(format, width));
        return size + random.between(0, 40);
    };
    const std::string text = fmt::format(
        "reshape {} rows {} cols {} src [{}] stride {} {} dst [{}] stride {} {}", kind, rows, cols,
        random.between(0, 99), stride(kind != "pack_blocks", from, cols), name(from), kWindow + random.between(0, 99),
        stride(kind != "unpack_blocks", to, kind == "transpose_blocks" ? rows : cols), name(to));
    return {"reshaper.0", text, "", {{0, kUnscaled}}};
}

}  // namespace

TEST_CASE("a DMA touches the bytes that it is said to touch") {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        Random random(seed);
        check(random_dma(random), seed);
    }
}

TEST_CASE("a tensor macro, and each of its block rows, touches the bytes that it is said to touch") {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        Random random(seed);
        check(random_tensor(random), seed);
    }
}

TEST_CASE("a vector macro touches the bytes that it is said to touch") {
    for (std::uint64_t seed = 1; seed <= 150; ++seed) {
        Random random(seed);
        check(random_vector(random), seed);
    }
}

TEST_CASE("a reshape touches the bytes that it is said to touch") {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        Random random(seed);
        check(random_reshape(random), seed);
    }
}

TEST_CASE("operations on bytes that nothing defines are refused") {
    const auto reshape = [](const std::string& kind, int rows, int cols, const std::string& format) {
        return test::input_error([&] {
            const OneInstruction it(
                "reshaper.0",
                fmt::format("reshape {} rows {} cols {} src [0] stride 4096 {} dst [65536] stride 4096 {}", kind, rows,
                            cols, format, format));
        });
    };
    CHECK(reshape("pack_blocks", 5, 32, "e2m3").empty());
    CHECK_THAT(reshape("pack_blocks", 32, 33, "e2m3"), Catch::Contains("32 x 33 elements of e2m3 are no whole blocks"));
    CHECK_THAT(reshape("transpose_blocks", 5, 32, "e3m2"), Catch::Contains("reshaper.0 \"it\" of tile 0: 5 x 32"));
    CHECK_THAT(reshape("unpack_blocks", 32, 32, "mxfp8"), Catch::Contains("the reshaper does not take mxfp8"));
    CHECK(reshape("transpose_blocks", 5, 7, "e4m3").empty());

    const auto per_row = [](const std::string& format) {
        return test::input_error([&] {
            const OneInstruction it("tvp.0", "vector \"v\" rows 1 cols 32 operand [0] strides 1056 1056",
                                    "vector \"v\" { pass rows { v0 = load operand 0 " + format + " } }\n");
        });
    };
    CHECK(per_row("e4m3").empty());
    CHECK_THAT(per_row("mxfp8"), Catch::Contains("takes single values of at least 8 bits, not mxfp8"));
    CHECK_THAT(per_row("e2m3"), Catch::Contains("takes single values of at least 8 bits, not e2m3"));
}
