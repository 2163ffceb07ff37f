// SPDX-License-Identifier: Apache-2.0
// Is a program's text cut into the right words, and does a message point at the place?
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "isa/text_lexer.hpp"
#include "tests/support/files.hpp"

using namespace sluice;
using namespace sluice::isa;
using Kind = Lexer::Kind;

namespace {

std::vector<std::pair<Kind, std::string>> words(const std::string& text) {
    Lexer in(text, "text");
    std::vector<std::pair<Kind, std::string>> out;
    while (in.peek().kind != Kind::end) {
        const Lexer::Token token = in.next();
        out.emplace_back(token.kind, token.text);
    }
    return out;
}

}  // namespace

TEST_CASE("text is cut into words, numbers, fractions, strings and punctuation") {
    using All = std::vector<std::pair<Kind, std::string>>;
    CHECK(words("loop i0 # the rest\n{}") ==
          All{{Kind::word, "loop"}, {Kind::word, "i0"}, {Kind::punctuation, "{"}, {Kind::punctuation, "}"}});
    CHECK(words("1..2") == All{{Kind::number, "1"}, {Kind::punctuation, ".."}, {Kind::number, "2"}});
    CHECK(words("1.5 1e-05 2E+3 0xe-1") == All{{Kind::fraction, "1.5"},
                                               {Kind::fraction, "1e-05"},
                                               {Kind::fraction, "2E+3"},
                                               {Kind::number, "0xe"},
                                               {Kind::punctuation, "-"},
                                               {Kind::number, "1"}});
    CHECK(
        words("->>=+=-") ==
        All{{Kind::punctuation, "->"}, {Kind::punctuation, ">="}, {Kind::punctuation, "+="}, {Kind::punctuation, "-"}});
    CHECK(words(R"("a \" b" "# no comment")") ==
          All{{Kind::string, R"("a \" b")"}, {Kind::string, R"("# no comment")"}});
    CHECK(words("").empty());
    CHECK(words(" \t\r\n# only a comment").empty());
}

TEST_CASE("whole numbers are read in decimal and hex, up to 64 bits") {
    const auto read = [](const std::string& text) { return Lexer(text, "text").unsigned_integer("a number"); };
    CHECK(read("0") == 0);
    CHECK(read("0xfF") == 255);
    CHECK(read("18446744073709551615") == ~std::uint64_t{0});
    CHECK(read("0xffffffffffffffff") == ~std::uint64_t{0});
    for (const char* bad : {"18446744073709551616", "0x10000000000000000", "0x", "12ab", "1.5", "-1", "word", ""}) {
        INFO(bad);
        CHECK(test::input_error([&] { (void)read(bad); }) != "");
    }
}

TEST_CASE("a whole number keeps its limits") {
    const auto read = [](const std::string& text, std::int64_t lowest, std::int64_t highest) {
        return Lexer(text, "text").integer("a number", lowest, highest);
    };
    CHECK(read("-5", -5, 7) == -5);
    CHECK(read("7", -5, 7) == 7);
    CHECK_THAT(test::input_error([&] { (void)read("8", -5, 7); }), Catch::Contains("must lie in -5..7"));
    CHECK_THAT(test::input_error([&] { (void)read("-6", -5, 7); }), Catch::Contains("must lie in -5..7"));
    CHECK_THAT(test::input_error([&] { (void)read("18446744073709551615", -5, 7); }), Catch::Contains("must lie in"));
}

TEST_CASE("real numbers are finite") {
    const auto read = [](const std::string& text) { return Lexer(text, "text").real("a constant"); };
    CHECK(read("1e-05") == 1e-5);
    CHECK(read("-0.33333333333333331") == -1.0 / 3);
    CHECK(read("3") == 3.0);
    for (const char* bad : {"1e999", "0x10", "1e", "nan", "inf", "-"}) {
        INFO(bad);
        CHECK(test::input_error([&] { (void)read(bad); }) != "");
    }
}

TEST_CASE("a message names source, line and column, and a caret stands under the place") {
    const std::string error = test::input_error([] {
        Lexer in("first\n  second third\n", "file.disa");
        (void)in.next();
        (void)in.next();
        in.expect("fourth");
    });
    CHECK(error == "file.disa:2:10: expected `fourth`, found `third`\n    second third\n           ^");
}

TEST_CASE("of a long line the part around the place is shown") {
    const std::string error = test::input_error([] { Lexer(std::string(1000, ' ') + "here", "f").expect("there"); });
    CHECK_THAT(error, Catch::StartsWith("f:1:1001: "));
    const std::size_t line = error.find('\n') + 1;
    const std::size_t caret = error.rfind('\n') + 1;
    CHECK(error.find("here", line) - line == error.find('^', caret) - caret);
    CHECK(error.size() < 400);
}

TEST_CASE("strings end on their line and are UTF-8") {
    const auto read = [](const std::string& text) { return Lexer(text, "f").string("a name"); };
    CHECK(read(R"("a\n\"\\\u00e9")") == "a\n\"\\\xc3\xa9");
    CHECK(read("\"\xc3\xa9\"") == "\xc3\xa9");
    for (const std::string bad : {"\"open", "\"open\n\"", "\"open\\\"", "\"\\q\"", "\"\xc3\"", "\"\xff\"", "word"}) {
        INFO(bad);
        CHECK_THAT(test::input_error([&] { (void)read(bad); }), Catch::StartsWith("f:1:1: "));
    }
}
