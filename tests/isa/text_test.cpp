// SPDX-License-Identifier: Apache-2.0
// Does the text form say exactly what a program is, and is every kind of bad text refused at its place?
#include "isa/text.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "isa/chip_spec_reader.hpp"
#include "isa/verifier.hpp"
#include "tests/support/files.hpp"

using namespace sluice;
using namespace sluice::isa;

namespace {

Affine ring(std::int64_t base, std::vector<Term> terms, std::int64_t size, std::int64_t phase) {
    Affine out(base, std::move(terms));
    out.ring = size;
    out.phase = phase;
    return out;
}
std::shared_ptr<Block> block(Block body) {
    return std::make_shared<Block>(std::move(body));
}
SemUse sem(Level level, Affine unit, Affine index, Affine count = 1, std::uint64_t mask = 0) {
    return {{level, std::move(unit), mask, std::move(index)}, std::move(count)};
}

/// Uses every statement, every macro and every part of them.
Program everything() {
    Program p;
    p.name = "every \"thing\" \\ \n \xc3\xa9";
    p.chip = "toy";
    p.nodes = {{0, 1, 1, 0, "first"}, {1, 3, 2, 5, "layers.{}.x"}};
    p.regions = {
        {"weights", Space::hbm, 0, 1, 4096, 1u << 20, RegionTensor{33, 65, Format::mxfp6_e3m2, false}, true, false},
        {"both", Space::hbm, 0, 1, 0, 4096, RegionTensor{7, 5, Format::fp16, true}, true, true},
        {"results", Space::hbm, 0, 1, 0, 64, std::nullopt, false, true},
        {"ring", Space::tsram, 1, 1, 0, 4096, std::nullopt, false, false}};
    p.tables = {{"pages", 100, 3, 9, "uniform", ~std::uint64_t{0}, {}},
                {"tokens", 7, 0, 0, "sequence", 1, {}},
                {"given", 3, 0, 9, "uniform", 1, {9, 0, 4}}};
    p.semaphores = {{{0, Level::tile, 1, 63}, 1, 65535}, {{0, Level::chip, 0, 255}, 1, 0}};

    VectorProgram vector{"all", {}};
    VectorPass pass{false, {}};
    std::int8_t next = 0;
    const auto define = [&](VectorStep step) {
        step.dst = next++;
        pass.steps.push_back(step);
    };
    for (const VectorOp op : {VectorOp::load, VectorOp::load_row, VectorOp::load_col}) {
        VectorStep step;
        step.op = op;
        step.operand = 2;
        step.format = Format::bf16;
        define(step);
    }
    for (const double value : {1.0 / 3, 1e-5, -1e300, 5e-324, 0.1, 3.0, -0.0, 65504.0}) {
        VectorStep step;
        step.op = VectorOp::constant;
        step.value = value;
        define(step);
    }
    for (const VectorOp op :
         {VectorOp::add, VectorOp::sub, VectorOp::mul, VectorOp::max, VectorOp::min, VectorOp::keep_below}) {
        VectorStep step;
        step.op = op;
        step.a = 0, step.b = 1;
        define(step);
    }
    VectorStep fma;
    fma.op = VectorOp::fma;
    fma.a = 0, fma.b = 1, fma.c = 2;
    define(fma);
    for (const VectorOp op : {VectorOp::exp, VectorOp::reciprocal, VectorOp::rsqrt, VectorOp::mask, VectorOp::row_sum,
                              VectorOp::row_max, VectorOp::group_max_abs}) {
        VectorStep step;
        step.op = op;
        step.a = 3;
        define(step);
    }
    for (const ScaleRounding rounding : {ScaleRounding::floor, ScaleRounding::ceil, ScaleRounding::even}) {
        VectorStep step;
        step.op = VectorOp::block_scale;
        step.a = 3;
        step.format = Format::mxfp8_e5m2;
        step.rounding = rounding;
        define(step);
    }
    VectorPass rows{true, {}};
    for (const VectorOp op : {VectorOp::store, VectorOp::store_row}) {
        VectorStep step;
        step.op = op;
        step.operand = 0;
        step.a = 4;
        step.format = Format::fp32;
        rows.steps.push_back(step);
    }
    vector.passes = {pass, rows, {false, {}}};
    p.vector_programs = {vector, {"empty", {}}};

    DmaMacro dma;
    dma.src = {Space::hbm, 0, 0, Affine(-64, {{Var::i0, 4096}, {Var::i1, -1}, {Var::self, 1}})};
    dma.dst = {Space::tsram, Affine(0, {{Var::cluster, 2}}), 0x3, ring(1 << 19, {{Var::r1, 4096}}, 3 * 4096, 4096)};
    dma.run_bytes = Affine(64, {{Var::tile, 64}});
    dma.dims = {{Affine(3), -4096, 128}, {variable(Var::i0), 1 << 20, -64}};
    dma.src_format = Format::bf16;
    dma.dst_format = Format::e4m3;
    DmaMacro plain;
    plain.src = {Space::csram, variable(Var::cluster), 0, Affine(0)};
    plain.dst = {Space::tsram, variable(Var::self), 0, Affine(0)};
    plain.run_bytes = 32;

    TensorMacro tensor;
    tensor.last_rows = 31;
    tensor.mb = 2, tensor.nb = variable(Var::r15, 3), tensor.kb = Affine(1, {{Var::i0, 1}});
    tensor.a_offset = ring(32, {{Var::r0, 64}}, 128, -64);
    tensor.b_offset = 64, tensor.c_offset = variable(Var::i1, -4096);
    tensor.a_stride_m = -32, tensor.a_stride_k = 1056, tensor.b_stride_n = 544, tensor.b_stride_k = -544;
    tensor.c_stride_m = 8192, tensor.c_stride_n = -4096;
    tensor.a_format = Format::mxfp8, tensor.b_format = Format::mxfp4;
    tensor.b_transposed = tensor.accumulate = true;
    tensor.row_signal = sem(Level::cluster, variable(Var::cluster), 5, 2);

    VectorMacro macro;
    macro.program = "all";
    macro.rows = 32, macro.cols = variable(Var::i0, 32);
    macro.operands = {{Affine(0), -256, 0}, {ring(64, {}, 32, 0), 64, 2048, 7}, {}};
    macro.mask_limit = Affine(-3, {{Var::i1, 32}});
    macro.mask_by_row = true;
    VectorMacro masked;
    masked.program = "empty";
    masked.mask_by_row = true;  // with a limit of 0

    const auto reshape = [](ReshapeKind kind) {
        ReshapeMacro out;
        out.kind = kind;
        out.rows = 64, out.cols = variable(Var::r2, 32);
        out.src_offset = 128, out.dst_offset = variable(Var::tile, 4096);
        out.src_stride = -128, out.dst_stride = 2048;
        out.src_format = Format::mxfp6, out.dst_format = Format::fp32;
        return Macro{out};
    };

    ControlProgram tiles{"tiles", Level::tile, 0, 2, {}};
    Block inner{
        {Instruction{{Engine::tdma, 3},
                     {sem(Level::tile, variable(Var::self), 1), sem(Level::chip, 0, 2, variable(Var::i1, 2))},
                     dma,
                     {sem(Level::tile, Affine(0), variable(Var::i0), 7, 0x8000000000000001)},
                     Affine(1, {{Var::i0, 2}}),
                     "label \"x\""}},
        {Instruction{{Engine::ttu, 1}, {}, tensor, {}, 0, ""}},
        {Instruction{{Engine::tvp, 0}, {}, macro, {}, 0, "v"}},
        {Instruction{{Engine::tvp, 1}, {}, masked, {}, 0, "v"}},
        {Instruction{{Engine::reshaper, 0}, {}, reshape(ReshapeKind::pack_blocks), {}, 0, "r"}},
        {Instruction{{Engine::reshaper, 0}, {}, reshape(ReshapeKind::unpack_blocks), {}, 0, "r"}},
        {Instruction{{Engine::reshaper, 0}, {}, reshape(ReshapeKind::transpose_blocks), {}, 0, "r"}},
        {Instruction{{Engine::tdma, 0}, {}, FenceMacro{}, {}, 0, "f"}},
        {If{Affine(3, {{Var::i1, -1}}), block({{WaitStatement{sem(Level::tile, variable(Var::self), 3, 4)}}}),
            block({{SignalStatement{sem(Level::cluster, 0, 1, 1, 0xf)}}})}},
        {If{Affine(0), block({}), block({})}},
        {If{Affine(-1), block({{SetRegister{1, false, 1, 0, 1}}}), nullptr}},
    };
    tiles.body = {{Loop{2, block({{Loop{Affine(2, {{Var::i0, 1}}), block(inner)}}})}},
                  {Loop{0, nullptr}},
                  {LoadIndex{15, "pages", variable(Var::r0)}},
                  {SetRegister{0, false, Affine(-7), -7, 7}},
                  {SetRegister{0, true, Affine(1), -7, 7}},
                  {DelayStatement{kMaxDelayCycles}},
                  {DelayStatement{Affine(3, {{Var::self, 16}})}}};
    ControlProgram clusters{
        "clusters", Level::cluster, 0, 1, {{Instruction{{Engine::cdma, 7}, {}, plain, {}, 0, "c"}}}};
    p.controls = {tiles, clusters, {"chip", Level::chip, 0, 1, {}}};
    return p;
}

/// A program that is a header of one line and one control program, so that any shorter text is incomplete.
const std::string kSmall = R"(disa 1 program "small" chip "toy"
control "main" tile count 2 from 0 {
  r1 = 0 in 0..7
  r1 += 1 in 0..7
  r2 = table "t" [7 - r1]
  delay 100 + 8*r2
  loop 4 {
    issue tdma.0 "load" node 0 {
      wait tile(self)[3] x 2
      dma hbm(0)[4096*i0 + self] -> tsram(self mask 0x1)[32 + (1024*r1 + 64) % 4096] run 1024 dim 2 strides -32 64 convert bf16 e4m3
      signal cluster(cluster)[2]
    }
    if 3 - i0 >= 0 { wait chip(0)[1] } else { signal tile(self)[4] x 3 }
  }
  issue ttu.0 "multiply" node 0 {
    tensor 1 x 2 x 3 a [0] strides 32 64 mxfp8 b [64] strides 96 128 mxfp4 transposed c [0] strides 4096 8192 accumulate row_signal tile(self)[1]
  }
  issue tvp.1 "add" node 0 { vector "v" rows 32 cols 64 operand [0] strides 128 0 mask 3 by_row }
  issue reshaper.0 "pack" node 0 { reshape pack_blocks rows 32 cols 32 src [0] stride 64 bf16 dst [4096] stride 2048 bf16 }
}
)";

/// A text without its "@", and the line and column (from 1) where that stood.
struct Marked {
    std::string text;
    std::size_t line = 1, column = 1;
};
Marked marked(const std::string& text) {
    Marked out;
    const std::size_t at = text.find('@');
    REQUIRE(at != std::string::npos);
    out.text = text.substr(0, at) + text.substr(at + 1);
    for (std::size_t i = 0; i < at; ++i) {
        out.column = text[i] == '\n' ? 1 : out.column + 1;
        out.line += text[i] == '\n' ? 1 : 0;
    }
    return out;
}

/// `statement` inside a tile's control program.
std::string body(const std::string& statement) {
    return "disa 1\nprogram \"p\" chip \"toy\"\ncontrol \"c\" tile count 1 from 0 {\n  " + statement + "\n}\n";
}
std::string declaration(const std::string& text) {
    return "disa 1\nprogram \"p\" chip \"toy\"\n" + text + "\n";
}
std::string issue(const std::string& content) {
    return body("issue tdma.0 \"l\" node 0 { " + content + " }");
}
std::string nested(const std::string& open, int depth, const std::string& inside) {
    std::string out;
    for (int i = 0; i < depth; ++i) {
        out += open + " { ";
    }
    out += inside;
    for (int i = 0; i < depth; ++i) {
        out += " }";
    }
    return out;
}

}  // namespace

TEST_CASE("a program that uses everything is read back equal, and writes the same text") {
    const Program p = everything();
    const std::string text = write_text(p);
    const Program again = read_text(text, "again");
    CHECK((again == p));
    CHECK(write_text(again) == text);
    // What equality of floating-point numbers does not see.
    CHECK(std::signbit(again.vector_programs[0].passes[0].steps[9].value));
}

TEST_CASE("text that people write is read, and then round-trips") {
    const Program p = read_text(kSmall, "small");
    CHECK((read_text(write_text(p), "again") == p));
    CHECK(p.controls.at(0).body.size() == 8);
    const auto& loop = std::get<Loop>(p.controls[0].body[4].body);
    const auto& load = std::get<Instruction>(loop.body->at(0).body);
    const auto& dma = std::get<DmaMacro>(load.macro);
    CHECK(dma.src.offset == Affine(0, {{Var::i0, 4096}, {Var::self, 1}}));
    CHECK(dma.dst.offset == ring(32, {{Var::r1, 1024}}, 4096, 64));
    CHECK(dma.dims == std::vector<DmaDim>{{2, -32, 64}});
    // Order, blanks, comments and hex do not matter.
    CHECK((read_text(declaration("# nothing\n"), "x") == read_text("disa 0x1 program \"p\"\n\n chip\t\"toy\"", "x")));
    const auto offset = [](const std::string& sum) {
        const Program read = read_text(body("loop 2 { r0 = " + sum + " in 0..9 }"), "x");
        return std::get<SetRegister>(std::get<Loop>(read.controls[0].body[0].body).body->at(0).body).value;
    };
    CHECK(offset("-i0 + 3 - 0x10") == Affine(-13, {{Var::i0, -1}}));
    CHECK(offset("2*i0 + 1 - 3*self") == Affine(1, {{Var::i0, 2}, {Var::self, -3}}));
    CHECK(offset("(i0 - 4) % 8 + 1") == ring(1, {{Var::i0, 1}}, 8, -4));
}

TEST_CASE("every shorter text of a program is refused") {
    const std::string text = kSmall.substr(0, kSmall.rfind('}') + 1);
    const std::size_t header = text.find('\n');
    for (std::size_t length = 0; length < text.size(); ++length) {
        INFO(text.substr(0, length));
        const std::string error = test::input_error([&] { (void)read_text(text.substr(0, length), "cut"); });
        const bool whole = length == header || length == header + 1;  // a header alone is a program
        CHECK(error.empty() == whole);
        if (!whole) {
            CHECK_THAT(error, Catch::StartsWith("cut:"));
        }
    }
    CHECK(test::input_error([&] { (void)read_text(text, "whole"); }) == "");
}

TEST_CASE("a damaged text is read or refused, never worse") {
    std::mt19937 random(3);
    const std::string text = write_text(everything());
    const auto pick = [&random](std::size_t below) {
        return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
    };
    for (int i = 0; i < 3000; ++i) {
        std::string damaged = text;
        for (std::size_t n = 1 + pick(3); n > 0; --n) {
            switch (pick(3)) {
                case 0: damaged[pick(damaged.size())] = static_cast<char>(pick(256)); break;
                case 1: damaged.erase(pick(damaged.size()), 1 + pick(20)); break;
                default: damaged.insert(pick(damaged.size()), damaged.substr(pick(damaged.size()), 1 + pick(20)));
            }
        }
        Program read;
        const std::string error = test::input_error([&] { read = read_text(damaged, "damaged"); });
        if (error.empty()) {
            const std::string again = write_text(read);
            CHECK((read_text(again, "again") == read));
        }
    }
}

TEST_CASE("bad text is refused where it is bad") {
    const std::string most = "281474976710656";  // 2^48: the largest number of an expression
    const std::string above = "281474976710657";
    struct Bad {
        std::string text;  ///< "@" before the place that the message must name
        std::string message;
    };
    const std::vector<Bad> all{
        {"@", "expected `disa`"},
        {"@asm 1", "expected `disa`, found `asm`"},
        {"disa @2", "the version must be 1"},
        {"disa @one", "the version"},
        {"disa 1 program @name", "in double quotes"},
        {"disa 1 program \"p\" chip @", "found the end of the file"},
        {declaration("@loop 3 { }"), "expected a declaration"},
        {declaration("region \"r\" @dram units 1 from 0 offset 0 bytes 1"), "hbm, csram, tsram"},
        {declaration("region \"r\" hbm units @0 from 0 offset 0 bytes 1"), "must lie in 1..256"},
        {declaration("region \"r\" hbm units 1 from 0 offset @-1 bytes 1"), "must lie in 0.."},
        {declaration("node 0 \"n\" count @0 stride 1 layer 0"), "must lie in 1.."},
        {declaration("node @99999999999999999999 \"n\" count 1 stride 1 layer 0"), "below 2^64"},
        {declaration("table \"t\" count 1 range 5..@4 source \"uniform\" seed 0"), "must lie in 5.."},
        {declaration("table \"t\" count 1 range 0..4 source @\"zipf\" seed 0"), "uniform"},
        {declaration("table \"t\" count 1 range 0..4 source \"uniform\" seed @-1"), "a seed"},
        {declaration("init @core(0)[0] units 1 value 0"), "tile, cluster, chip"},
        {declaration("init tile(0)[@65536] units 1 value 0"), "must lie in 0..65535"},
        {declaration("vector \"v\" { @steps { } }"), "expected `pass`"},
        {declaration("vector \"v\" { pass { v0 = @loud } }"), "a vector operation"},
        {declaration("vector \"v\" { pass { @v128 = exp v0 } }"), "v0..v127"},
        {declaration("vector \"v\" { pass { v0 = load operand 0 @fp5 } }"), "fp5"},
        {declaration("vector \"v\" { pass { v0 = load operand @128 fp32 } }"), "must lie in 0..127"},
        {declaration("vector \"v\" { pass { v0 = constant @1e999 } }"), "finite"},
        {declaration("vector \"v\" { pass { v0 = constant @v1 } }"), "a constant"},
        {declaration("control \"c\" tile count @0 from 0 { }"), "must lie in 1..256"},
        {declaration("control \"c\" @core count 1 from 0 { }"), "a level"},
        {declaration("control @\"c"), "does not end on its line"},
        {declaration("control @\"\xff\" tile count 1 from 0 { }"), "not UTF-8"},
        {declaration("control @\"\\x41\" tile count 1 from 0 { }"), "escape"},
        {body("@jump 3"), "expected a statement"},
        {body("@r16 = 0 in 0..1"), "expected a statement"},
        {body("loop @{ }"), "a number or an index variable"},
        {body("loop 3 { r0 = @i1 in 0..9 }"), "a loop that is open here (1 are)"},
        {body("r0 = @i0 in 0..9"), "a loop that is open here (0 are)"},
        {body("r0 = 1 in 5..@4"), "must lie in 5.."},
        {body("r0 = 1 @to 5"), "expected `in`"},
        {body("r0 = r1 + 2*@r1 in 0..9"), "in the sum already"},
        {body("r0 = 3*@4 in 0..9"), "an index variable"},
        {body("r0 = @" + above + " in 0..9"), "must lie in"},
        {body("r0 = " + most + " + @1 in 0..9"), "too large"},
        {body("r0 = @0x10000000000000000 in 0..9"), "below 2^64"},
        {body("r0 = @r1 + (r2) % 8 in 0..9"), "only a constant may stand beside a ring"},
        {body("r0 = @(r2) % 8 + r1 in 0..9"), "only a constant may stand beside a ring"},
        {body("r0 = (r2) % 8 + @(r3) % 8 in 0..9"), "at most one ring"},
        {body("r0 = -@(r2) % 8 in 0..9"), "at most one ring"},
        {body("r0 = (@(r2) % 8) % 8 in 0..9"), "a number or an index variable"},
        {body("r0 = (r2) % @0 in 0..9"), "must lie in 1.."},
        {body("r0 = (r2) @+ 1 in 0..9"), "expected `%`"},
        {body("r0 = table @t [0]"), "in double quotes"},
        {body("if 1 @> 0 { }"), "expected `>=`"},
        {body("if 1 >= @1 { }"), "the right side must be 0"},
        {body("wait tile(0 mask @0)[0]"), "at least one bit"},
        {body("wait @hbm(0)[0]"), "a semaphore's level"},
        {body("issue @npu.0 \"l\" node 0 { fence }"), "tdma, ttu, tvp, reshaper, cdma"},
        {body("issue tdma.@256 \"l\" node 0 { fence }"), "must lie in 0..255"},
        {body("issue tdma.0 \"l\" @{ fence }"), "expected `node`"},
        {issue("@nothing"), "a macro (fence, dma, tensor, vector, reshape)"},
        {issue("fence @fence"), "expected `}`"},
        {issue("fence @wait tile(0)[0]"), "expected `}`"},
        {issue("dma @dram(0)[0] -> tsram(0)[0] run 1"), "a memory"},
        {issue("dma hbm(0)[0] @tsram(0)[0] run 1"), "expected `->`"},
        {issue("dma hbm(0)[0] -> tsram(0)[0] run 1 dim 2 strides @" + above + " 0"), "must lie in"},
        {issue("dma hbm(0)[0] -> tsram(0)[0] run 1 convert @int8 bf16"), "int8"},
        {issue("tensor 1 x 1 @1"), "expected `x`"},
        {issue("reshape @flip rows 1 cols 1"), "a rearrangement"},
        {body(nested("loop 2", 8, "loop @2 { }")), "at most 8 nested loops"},
        {body(nested("if 0 >= 0", 63, "if 0 >= 0 @{ }")), "at most 64 nested blocks"},
        {declaration("control \"c\" tile count 1 from 0 {\n  loop 2 {") + "@", "the end of the file"},
        {declaration("@\x01"), "expected a declaration"},
        {declaration("@\xc3\xa9"), "expected a declaration"},
        {declaration("control \"c\" tile count 1 from 0 { }\n@}"), "expected a declaration"},
    };
    for (const Bad& bad : all) {
        const Marked place = marked(bad.text);
        INFO(place.text);
        const std::string error = test::input_error([&] { (void)read_text(place.text, "bad.disa"); });
        CHECK_THAT(error, Catch::StartsWith(fmt::format("bad.disa:{}:{}: ", place.line, place.column)));
        CHECK_THAT(error, Catch::Contains(bad.message));
        // The last two lines: the source's, and a caret under the place.
        const std::size_t caret = error.rfind('\n') + 1;
        const std::size_t line = error.rfind('\n', caret - 2) + 1;
        if (place.column <= 120) {
            CHECK(error.substr(caret) == std::string(2 + place.column - 1, ' ') + "^");
        } else {
            CHECK(error.back() == '^');
        }
        CHECK(caret - line >= 3);
    }
}

TEST_CASE("what stands at a limit is accepted") {
    for (const std::string& text :
         {body("r0 = 281474976710656 in -281474976710656..281474976710656"), body(nested("loop 2", 8, "")),
          body(nested("if 0 >= 0", 63, "")), declaration("vector \"v\" { pass { v127 = load operand 127 fp32 } }"),
          declaration("init tile(255)[65535] units 256 value 281474976710656"),
          declaration("table \"t\" count 1 range 4..4 source \"sequence\" seed 18446744073709551615"),
          issue("dma hbm(0)[0] -> tsram(0)[0] run 1 dim 2 strides -281474976710656 281474976710656")}) {
        INFO(text);
        CHECK(test::input_error([&] { (void)read_text(text, "limit"); }) == "");
    }
}

TEST_CASE("the example in isa/README.md is a program for the toy chip") {
    std::ifstream file(std::string(SLUICE_SOURCE_DIR) + "/isa/README.md");
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const std::string fence = "```disa\n";
    std::size_t examples = 0;
    for (std::size_t at = text.find(fence); at != std::string::npos; at = text.find(fence, at)) {
        at += fence.size();
        const Program p = read_text(text.substr(at, text.find("```", at) - at), "isa/README.md");
        verify(p, read_chip("toy", {}, std::string(SLUICE_SOURCE_DIR) + "/configs").spec);
        CHECK((read_text(write_text(p), "again") == p));
        ++examples;
    }
    CHECK(examples >= 1);
}
