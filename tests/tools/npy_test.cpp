// SPDX-License-Identifier: Apache-2.0
#include "tools/npy.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/files.hpp"

namespace sluice::tools {
namespace {

using Catch::Matchers::Contains;
using test::input_error;

/// A file of version `major`.0 as the format's documentation describes it; the header is not padded.
std::string npy(const std::string& header, const std::string& data, int major = 1) {
    std::string out = "\x93NUMPY";
    out += static_cast<char>(major);
    out += '\0';
    const std::size_t length = header.size() + 1;
    for (int byte = 0; byte < (major == 1 ? 2 : 4); ++byte) {
        out += static_cast<char>(length >> (8 * byte) & 0xFFU);
    }
    return out + header + '\n' + data;
}
std::string header(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
    return "{'descr': " + descr + ", 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}
template <class Value>
std::string bytes_of(const std::vector<Value>& values) {
    std::string out(values.size() * sizeof(Value), '\0');
    std::memcpy(out.data(), values.data(), out.size());
    return out;
}
std::string message(const std::string& bytes) {
    return input_error([&] { static_cast<void>(parse_npy(bytes, "weights.npy")); });
}
std::string text_of(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

TEST_CASE("a file of each version is read") {
    const std::vector<float> values{1, -2.5, 3, 4, 5, 0x1p-149F};
    for (const int major : {1, 2, 3}) {
        INFO(major);
        const Array array = parse_npy(npy(header("'<f4'", "(2, 3)"), bytes_of(values), major), "a");
        CHECK(array.shape == std::vector<std::int64_t>{2, 3});
        CHECK(array.type == "f4");
        CHECK(array.size() == 6);
        CHECK(as_floats(array, "a") == values);
    }
}

template <class Value>
void check_integers(const std::string& descr) {
    INFO(descr);
    using Limits = std::numeric_limits<Value>;
    const bool wide = std::is_same_v<Value, std::uint64_t>;
    const Value most = wide ? static_cast<Value>(Limits::max() / 2) : Limits::max();
    const std::vector<Value> values{0, 1, 100, Limits::min(), most};
    const Array array = parse_npy(npy(header("'" + descr + "'", "(5,)"), bytes_of(values)), "a");
    CHECK(array.type == descr.substr(1));
    CHECK(as_integers(array, "a") == std::vector<std::int64_t>(values.begin(), values.end()));
}

TEST_CASE("integers of every size are read exactly") {
    check_integers<std::int8_t>("|i1");
    check_integers<std::int16_t>("<i2");
    check_integers<std::int32_t>("<i4");
    check_integers<std::int64_t>("<i8");
    check_integers<std::uint8_t>("|u1");
    check_integers<std::uint16_t>("<u2");
    check_integers<std::uint32_t>("<u4");
    check_integers<std::uint64_t>("<u8");
    const Array truth = parse_npy(npy(header("'|b1'", "(2,)"), std::string("\0\1", 2)), "a");
    CHECK(as_integers(truth, "a") == std::vector<std::int64_t>{0, 1});
    CHECK(as_floats(truth, "a") == std::vector<float>{0, 1});
}

TEST_CASE("halves are exact, and doubles are rounded to FP32") {
    const std::vector<std::uint16_t> codes{0x3C00, 0xC100, 0x0001};
    CHECK(as_floats(parse_npy(npy(header("'<f2'", "(3,)"), bytes_of(codes)), "a"), "a") ==
          std::vector<float>{1, -2.5, 0x1p-24F});
    const std::vector<double> values{1, 1 + 0x1p-24, 1 + 0x1p-24 + 0x1p-50, -1e300};
    CHECK(as_floats(parse_npy(npy(header("'<f8'", "(4,)"), bytes_of(values)), "a"), "a") ==
          std::vector<float>{1, 1, 1 + 0x1p-23F, -std::numeric_limits<float>::infinity()});
}

TEST_CASE("an integer that FP32 or a signed integer does not hold is named with its place") {
    const auto floats = [](std::int64_t value) {
        const Array array = parse_npy(npy(header("'<i8'", "(2,)"), bytes_of(std::vector<std::int64_t>{7, value})), "a");
        return input_error([&] { static_cast<void>(as_floats(array, "ids.npy")); });
    };
    for (const std::int64_t exact : {std::int64_t{1} << 24, -(std::int64_t{1} << 24), std::int64_t{0xFFFFFF} << 39,
                                     std::numeric_limits<std::int64_t>::min()}) {
        CHECK(floats(exact).empty());
    }
    CHECK_THAT(floats((1 << 24) + 1), Contains("ids.npy") && Contains("16777217") && Contains("element 1"));
    CHECK_THAT(floats(-(1 << 24) - 1), Contains("-16777217"));
    CHECK_FALSE(floats(std::numeric_limits<std::int64_t>::max()).empty());

    const Array large = parse_npy(npy(header("'<u8'", "(1,)"), bytes_of(std::vector<std::uint64_t>{1ULL << 63})), "a");
    CHECK_THAT(input_error([&] { static_cast<void>(as_integers(large, "ids.npy")); }),
               Contains("ids.npy") && Contains("9223372036854775808") && Contains("2^63"));
    CHECK(as_floats(large, "a") == std::vector<float>{0x1p63F});
    const Array fraction = parse_npy(npy(header("'<f4'", "(1,)"), bytes_of(std::vector<float>{1})), "a");
    CHECK_THAT(input_error([&] { static_cast<void>(as_integers(fraction, "ids.npy")); }),
               Contains("ids.npy") && Contains("f4") && Contains("np.int64"));
}

TEST_CASE("shapes of no dimension, of zero length and of one element are read") {
    const Array single = parse_npy(npy(header("'<f4'", "()"), bytes_of(std::vector<float>{3})), "a");
    CHECK(single.shape.empty());
    CHECK(single.size() == 1);
    const Array nothing = parse_npy(npy(header("'<f4'", "(0, 9223372036854775807, 4)"), ""), "a");
    CHECK(nothing.shape == std::vector<std::int64_t>{0, std::numeric_limits<std::int64_t>::max(), 4});
    CHECK(nothing.size() == 0);
    CHECK(as_floats(nothing, "a").empty());
}

TEST_CASE("a header may be written in other ways that Python reads the same") {
    const std::string data = bytes_of(std::vector<float>{1, 2});
    for (const char* each : {"{'shape': (2,), 'fortran_order': False, 'descr': '<f4'}",
                             "{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(2,)}",
                             " { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 2 , 1 , ) , }     ",
                             "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2, 1)}"}) {
        INFO(each);
        CHECK(message(npy(each, data)).empty());
    }
}

TEST_CASE("Fortran order is refused where it differs, with the remedy") {
    const std::string data(24, 'x');
    CHECK_THAT(message(npy(header("'<f4'", "(2, 3)", "True"), data)),
               Contains("weights.npy") && Contains("Fortran") && Contains("np.ascontiguousarray"));
    CHECK(message(npy(header("'<f4'", "(1, 6)", "True"), data)).empty());
    CHECK(message(npy(header("'<f4'", "(6,)", "True"), data)).empty());
}

TEST_CASE("types that are not read are named, with what is") {
    const std::string data(8, 'x');
    for (const char* descr : {"'|O'", "'<U2'", "'<c8'", "'|S8'", "'<M8[ns]'", "'<f16'", "'<f3'", "'f4'", "'<f'", "'<'",
                              "''", "'=f4'", "'|f4'", "'<f4 '", "'<i16'", "'|V8'"}) {
        INFO(descr);
        const std::string text = message(npy(header(descr, "(1,)"), data));
        CHECK_THAT(text, Contains("weights.npy") && Contains("allowed: <f2 <f4"));
    }
    CHECK_THAT(message(npy(header("'|O'", "(1,)"), data)), Contains("|O") && Contains("objects"));
    CHECK_THAT(message(npy(header("'>f4'", "(2,)"), data)), Contains("big-endian") && Contains("astype(\"<f4\")"));
    CHECK_THAT(message(npy(header("[('a', '<f4'), ('b', '<f4')]", "(1,)"), data)), Contains("structured"));
    CHECK_THAT(message(npy(header("('<f4', (2,))", "(1,)"), data)), Contains("structured"));
}

TEST_CASE("the bytes of data are exactly those of the shape") {
    for (const std::size_t length : {0U, 1U, 23U, 25U, 48U}) {
        INFO(length);
        CHECK_THAT(message(npy(header("'<f4'", "(2, 3)"), std::string(length, 'x'))),
                   Contains("weights.npy") && Contains("found " + std::to_string(length) + " bytes") && Contains("24"));
    }
}

TEST_CASE("huge and hostile shapes are refused before anything is allocated") {
    for (const char* shape : {"(9223372036854775807,)", "(4611686018427387904, 4)", "(3037000500, 3037000500)",
                              "(2305843009213693952,)", "(4294967296, 4294967296, 4294967296, 4294967296)"}) {
        INFO(shape);
        CHECK_THAT(message(npy(header("'<f4'", shape), "1234")), Contains("weights.npy") && Contains("2^63"));
    }
    CHECK_THAT(message(npy(header("'<f4'", "(2305843009213693951,)"), "1234")), Contains("found 4 bytes"));
    CHECK_THAT(message(npy(header("'<f4'", "(9223372036854775808,)"), "1234")), Contains("dimension below 2^63"));
    CHECK_THAT(message(npy(header("'<f4'", "(-1,)"), "")), Contains("not negative"));
    std::string ones = "(";
    for (int i = 0; i < 65; ++i) {
        ones += "1, ";
    }
    CHECK_THAT(message(npy(header("'<f4'", ones + ")"), "1234")), Contains("64 dimensions"));
}

TEST_CASE("a header that is no such dictionary is refused at the place") {
    const std::string rest = ", 'fortran_order': False, 'shape': (1,)}";
    for (const std::string& each : std::vector<std::string>{"",
                                                            "{",
                                                            "{}",
                                                            "[]",
                                                            "{'descr': '<f4'}",
                                                            "{'descr': '<f4'" + rest + "x",
                                                            "{'descr': '<f4",
                                                            "{'descr' '<f4'" + rest,
                                                            "{descr: '<f4'" + rest,
                                                            "{'descr': '<f4', 'descr': '<f4'" + rest,
                                                            "{'descr': '<f4', 'more': 1" + rest,
                                                            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
                                                            "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
                                                            "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
                                                            "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}",
                                                            "{'descr': '<f4',, 'fortran_order': False}",
                                                            "{'descr': '<f4', 'fortran_order': False, 'shape': (1L,)}",
                                                            "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
                                                            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}",
                                                            "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}",
                                                            "{'descr': 4" + rest}) {
        INFO(each);
        CHECK_THAT(message(npy(each, "1234")), Contains("weights.npy") && Contains("header"));
    }
    // What is not printable does not reach a terminal.
    CHECK_THAT(message(npy("{'descr': '\x1b[2J'" + rest, "1234")), Contains("?[2J") && !Contains("\x1b"));
}

TEST_CASE("what is no .npy file, of another version or too long a header says so") {
    CHECK_THAT(message(""), Contains("no .npy file"));
    CHECK_THAT(message("PK\3\4 an archive of arrays"), Contains("no .npy file"));
    for (const int major : {0, 4, 255}) {
        CHECK_THAT(message(npy(header("'<f4'", "(1,)"), "1234", major)), Contains("version " + std::to_string(major)));
    }
    std::string minor = npy(header("'<f4'", "(1,)"), "1234");
    minor[7] = 1;
    CHECK_THAT(message(minor), Contains("version 1.1"));
    CHECK(message(npy(header("'<f4'", "(1,)") + std::string(9'000, ' '), "1234")).empty());
    CHECK_THAT(message(npy(header("'<f4'", "(1,)") + std::string(10'000, ' '), "1234")), Contains("allowed: 10000"));
    CHECK_THAT(message(npy("", "", 2).replace(8, 4, "\xff\xff\xff\xff")), Contains("4294967295"));
}

TEST_CASE("a file that was cut anywhere, or has any byte changed, is read or refused") {
    const std::string whole = npy(header("'<f4'", "(2, 3)"), std::string(24, 'x'), 2);
    for (std::size_t length = 0; length < whole.size(); ++length) {
        INFO(length);
        CHECK_THAT(message(whole.substr(0, length)), Contains("weights.npy"));
    }
    CHECK_FALSE(message(whole + "x").empty());
    std::size_t refused = 0;
    for (std::size_t at = 0; at < whole.size() - 24; ++at) {
        for (int byte = 0; byte < 256; ++byte) {
            std::string changed = whole;
            changed[at] = static_cast<char>(byte);
            refused += message(changed).empty() ? 0 : 1;
        }
    }
    CHECK(refused > 0);
}

TEST_CASE("files are written as NumPy writes them") {
    const test::TemporaryFolder folder;
    const std::filesystem::path file = folder.path() / "a.npy";
    // 10 bytes, then text up to a multiple of 64.
    const auto expected = [](const std::string& text, const std::string& data) {
        return std::string("\x93NUMPY\1\0\x76\0", 10) + text + std::string(117 - text.size(), ' ') + '\n' + data;
    };
    const std::vector<float> floats{1, 2, -3};
    write_npy(file, {3}, floats);
    CHECK(text_of(file) == expected("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", bytes_of(floats)));

    const std::vector<std::int64_t> integers{1, -1, std::numeric_limits<std::int64_t>::min(), 4};
    write_npy(file, {2, 2}, integers);
    CHECK(text_of(file) == expected("{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }", bytes_of(integers)));
    CHECK(as_integers(read_npy(file), "a") == integers);

    const std::vector<std::byte> bytes{std::byte{0}, std::byte{255}};
    write_npy(file, {1, 2, 1}, bytes);
    CHECK(text_of(file) == expected("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 1), }", bytes_of(bytes)));
    CHECK(read_npy(file).data == bytes);

    write_npy(file, {}, std::vector<float>{5});
    CHECK(text_of(file) == expected("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", bytes_of<float>({5})));
    write_npy(file, {0, 7}, std::vector<float>{});
    CHECK(read_npy(file).shape == std::vector<std::int64_t>{0, 7});
}

TEST_CASE("every header that is written ends at a multiple of 64 bytes, and is read back") {
    const test::TemporaryFolder folder;
    const std::filesystem::path file = folder.path() / "a.npy";
    std::vector<std::int64_t> shape;
    for (int dimensions = 0; dimensions <= 64; ++dimensions) {
        write_npy(file, shape, std::vector<float>{7});
        CHECK((text_of(file).size() - 4) % 64 == 0);
        CHECK(read_npy(file).shape == shape);
        shape.push_back(1);
    }
}

TEST_CASE("a file is read from disk as from memory, beyond the longest header too") {
    const test::TemporaryFolder folder;
    std::vector<float> values(100'000);
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i) / 8;
    }
    write_npy(folder.path() / "a.npy", {1000, 100}, values);
    const Array array = read_npy(folder.path() / "a.npy");
    CHECK(array.shape == std::vector<std::int64_t>{1000, 100});
    CHECK(as_floats(array, "a") == values);
    CHECK(parse_npy(text_of(folder.path() / "a.npy"), "a").data == array.data);
}

TEST_CASE("a file that cannot be read or written is named, and an earlier one stays") {
    const test::TemporaryFolder folder;
    const auto read = [](const std::filesystem::path& file) {
        return input_error([&] { static_cast<void>(read_npy(file)); });
    };
    CHECK_THAT(read(folder.path() / "none.npy"), Contains("none.npy") && Contains("No such file"));
    CHECK_THAT(read(folder.path()), Contains("no file"));
    CHECK_THAT(read("/dev/zero"), Contains("no file"));
    CHECK_THAT(read(folder.write("text.npy", "hello")), Contains("text.npy") && Contains("no .npy file"));
    const std::vector<float> one{1};
    CHECK_THAT(input_error([&] { write_npy(folder.path() / "none/a.npy", {1}, one); }), Contains("none/a.npy"));
    write_npy(folder.path() / "a.npy", {1}, one);
    CHECK_THROWS_AS(write_npy(folder.path() / "a.npy", {2}, one), InvariantError);
    CHECK(as_floats(read_npy(folder.path() / "a.npy"), "a") == one);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);  // nothing half-written
}

}  // namespace
}  // namespace sluice::tools
