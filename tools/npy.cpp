// SPDX-License-Identifier: Apache-2.0
#include "tools/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include "isa/errors.hpp"
#include "isa/number/number.hpp"
#include "tools/output.hpp"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;
/// Longest text of a header that is read. NumPy's own limit (max_header_size).
constexpr std::size_t kMostHeader = 10'000;
/// Magic, version, length of the text (two bytes in version 1.0, then four).
constexpr std::size_t kMostPreamble = 12;
/// NumPy's limit of dimensions since 2.0.
constexpr std::size_t kMostDimensions = 64;
constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

constexpr std::array<std::string_view, 12> kTypes{"f2", "f4", "f8", "i1", "i2", "i4",
                                                  "i8", "u1", "u2", "u4", "u8", "b1"};
constexpr std::string_view kAllowedTypes = "allowed: <f2 <f4 <f8 |i1 <i2 <i4 <i8 |u1 <u2 <u4 <u8 |b1";

std::int64_t bytes_of(std::string_view type) {
    return type.back() - '0';
}

/// A file's own words in a message: not too many, and printable.
std::string quoted(std::string_view text) {
    constexpr std::size_t kMost = 40;
    std::string out = "\"";
    for (const char each : text.substr(0, kMost)) {
        out += each >= ' ' && each <= '~' ? each : '?';
    }
    return out + (text.size() > kMost ? "...\"" : "\"");
}

/// What the text of a header says.
struct Header {
    std::string type;
    bool fortran = false;
    std::vector<std::int64_t> shape;
};

/// Reads the dictionary of a header: a Python literal such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4),
/// }
class HeaderReader {
public:
    HeaderReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

    Header read() {
        expect('{');
        while (!accept('}')) {
            entry();
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        skip_blanks();
        if (!text_.empty()) {
            refuse("the end of the header");
        }
        if (!type_ || !fortran_ || !shape_) {
            throw InputError(where_, "the header lacks one of 'descr', 'fortran_order', 'shape'");
        }
        return {*type_, *fortran_, *shape_};
    }

private:
    [[noreturn]] void refuse(std::string_view allowed) const {
        throw InputError(where_, fmt::format("found {} in the header, allowed: {}",
                                             text_.empty() ? "its end" : quoted(text_), allowed));
    }
    void skip_blanks() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n"), text_.size())); }
    [[nodiscard]] bool next_is(char wanted) {
        skip_blanks();
        return !text_.empty() && text_.front() == wanted;
    }
    bool accept(char wanted) {
        const bool found = next_is(wanted);
        text_.remove_prefix(found ? 1 : 0);
        return found;
    }
    void expect(char wanted) {
        if (!accept(wanted)) {
            refuse(fmt::format("'{}'", wanted));
        }
    }

    void entry() {
        const std::string_view key = word();
        expect(':');
        if (key == "descr") {
            set(type_, key, type());
        } else if (key == "fortran_order") {
            set(fortran_, key, truth());
        } else if (key == "shape") {
            set(shape_, key, numbers());
        } else {
            throw InputError(
                where_, fmt::format("found {} in the header, allowed: 'descr', 'fortran_order', 'shape'", quoted(key)));
        }
    }
    template <class Value>
    void set(std::optional<Value>& field, std::string_view key, Value value) {
        if (field) {
            throw InputError(where_, fmt::format("the header gives '{}' twice", key));
        }
        field = std::move(value);
    }

    /// A string literal; none that we accept has escapes.
    std::string_view word() {
        const char quote = next_is('"') ? '"' : '\'';
        expect(quote);
        const std::size_t end = text_.find(quote);
        if (end == std::string_view::npos) {
            refuse("a string that ends");
        }
        const std::string_view out = text_.substr(0, end);
        text_.remove_prefix(end + 1);
        return out;
    }
    bool truth() {
        skip_blanks();
        for (const bool value : {false, true}) {
            const std::string_view name = value ? "True" : "False";
            if (text_.starts_with(name)) {
                text_.remove_prefix(name.size());
                return value;
            }
        }
        refuse("True, False");
    }
    std::vector<std::int64_t> numbers() {
        std::vector<std::int64_t> out;
        expect('(');
        while (!accept(')')) {
            out.push_back(number());
            if (out.size() > kMostDimensions) {
                throw InputError(where_, fmt::format("more than {} dimensions", kMostDimensions));
            }
            if (!accept(',')) {
                expect(')');
                break;
            }
        }
        return out;
    }
    std::int64_t number() {
        skip_blanks();
        const std::string_view all = text_;
        std::int64_t value = 0;
        std::size_t digits = 0;
        for (; digits < all.size() && all[digits] >= '0' && all[digits] <= '9'; ++digits) {
            const std::int64_t digit = all[digits] - '0';
            if (value > (kMostBytes - digit) / 10) {
                refuse("a dimension below 2^63");
            }
            value = 10 * value + digit;
        }
        if (digits == 0) {
            refuse("a whole number that is not negative");
        }
        text_.remove_prefix(digits);
        return value;
    }
    std::string type() {
        if (next_is('[') || next_is('(')) {
            throw InputError(
                where_, fmt::format("found a structured type, {}; save each of its fields by itself", kAllowedTypes));
        }
        return checked_type(word());
    }
    [[nodiscard]] std::string checked_type(std::string_view descr) const {
        const std::string_view type = descr.substr(descr.empty() ? 0 : 1);
        if (std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
            throw InputError(where_, fmt::format("found the type {}{}, {}", quoted(descr),
                                                 type.starts_with('O') ? " (Python objects)" : "", kAllowedTypes));
        }
        const char order = descr.front();
        if (order == '>' && bytes_of(type) > 1) {
            throw InputError(where_, fmt::format("found big-endian {}, {}; save a.astype(\"<{}\")", quoted(descr),
                                                 kAllowedTypes, type));
        }
        if (order != '<' && !(order == '|' && bytes_of(type) == 1)) {
            throw InputError(where_, fmt::format("found the type {}, {}", quoted(descr), kAllowedTypes));
        }
        return std::string(type);
    }

    std::string_view text_;  ///< what is left
    const std::string& where_;
    std::optional<std::string> type_;
    std::optional<bool> fortran_;
    std::optional<std::vector<std::int64_t>> shape_;
};

/// Elements of a shape; nothing if they, of `bytes` each, are too many to be counted.
std::optional<std::int64_t> elements_of(const std::vector<std::int64_t>& shape, std::int64_t bytes) {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
        return 0;
    }
    std::int64_t out = 1;
    for (const std::int64_t length : shape) {
        if (out > kMostBytes / bytes / length) {
            return std::nullopt;
        }
        out *= length;
    }
    return out;
}

/// In Fortran order the first dimension is contiguous: the same only if at most one is longer than 1.
void require_c_order(const Header& header, const std::string& where) {
    const auto longer =
        std::count_if(header.shape.begin(), header.shape.end(), [](std::int64_t length) { return length > 1; });
    if (header.fortran && longer > 1) {
        throw InputError(where, "found an array in Fortran order, allowed: C order; save np.ascontiguousarray(a)");
    }
}

/// An array without its data, and where that starts.
struct Described {
    Array array;
    std::size_t start = 0, bytes = 0;
};

/// `head`: the first kMostPreamble + kMostHeader bytes of a file, or all of it; `total`: bytes of the file.
Described describe(std::string_view head, std::uint64_t total, const std::string& where) {
    if (!head.starts_with(kMagic) || head.size() < kMagic.size() + 2) {
        throw InputError(where, "no .npy file: it does not start with \\x93NUMPY and a version");
    }
    const auto byte = [&](std::size_t at) { return static_cast<std::uint32_t>(static_cast<unsigned char>(head[at])); };
    const std::uint32_t major = byte(6);
    const std::uint32_t minor = byte(7);
    if (major < 1 || major > 3 || minor != 0) {
        throw InputError(where,
                         fmt::format("found version {}.{} of the .npy format, allowed: 1.0, 2.0, 3.0", major, minor));
    }
    const std::size_t preamble = major == 1 ? 10 : kMostPreamble;
    if (head.size() < preamble) {
        throw InputError(where, fmt::format("the file ends within the first {} bytes", preamble));
    }
    const std::size_t length = byte(8) | byte(9) << 8 | (major == 1 ? 0 : byte(10) << 16 | byte(11) << 24);
    if (length > kMostHeader) {
        throw InputError(where, fmt::format("found a header of {} bytes, allowed: {}", length, kMostHeader));
    }
    if (head.size() < preamble + length) {
        throw InputError(where, fmt::format("the file ends within its header of {} bytes", length));
    }
    Header header = HeaderReader(head.substr(preamble, length), where).read();
    require_c_order(header, where);
    const std::optional<std::int64_t> elements = elements_of(header.shape, bytes_of(header.type));
    if (!elements) {
        throw InputError(where, "the shape has more than 2^63 bytes");
    }
    const auto bytes = static_cast<std::uint64_t>(*elements * bytes_of(header.type));
    const std::uint64_t found = total - preamble - length;
    if (found != bytes) {
        throw InputError(where, fmt::format("found {} bytes of data, the header says {} ({} elements of {})", found,
                                            bytes, *elements, header.type));
    }
    return {{std::move(header.shape), std::move(header.type), {}}, preamble + length, bytes};
}

/// Calls use(index, value) with every element in its own type.
template <class Element, class Use>
void each_of(const std::vector<std::byte>& data, const Use& use) {
    for (std::size_t i = 0; i < data.size() / sizeof(Element); ++i) {
        Element value;
        std::memcpy(&value, &data[i * sizeof(Element)], sizeof(Element));
        use(i, value);
    }
}
template <class Use>
void each_integer(const Array& array, const std::string& where, const Use& use) {
    const std::string& type = array.type;
    if (type == "i1") {
        // Its two's complement by hand: the standard's 8-bit integer is a character to the linter.
        each_of<std::uint8_t>(array.data, [&](std::size_t i, int value) { use(i, value < 128 ? value : value - 256); });
    } else if (type == "i2") {
        each_of<std::int16_t>(array.data, use);
    } else if (type == "i4") {
        each_of<std::int32_t>(array.data, use);
    } else if (type == "i8") {
        each_of<std::int64_t>(array.data, use);
    } else if (type == "u1") {
        each_of<std::uint8_t>(array.data, use);
    } else if (type == "u2") {
        each_of<std::uint16_t>(array.data, use);
    } else if (type == "u4") {
        each_of<std::uint32_t>(array.data, use);
    } else if (type == "u8") {
        each_of<std::uint64_t>(array.data, use);
    } else if (type == "b1") {
        each_of<std::uint8_t>(array.data, [&](std::size_t i, std::uint8_t value) { use(i, value != 0 ? 1 : 0); });
    } else {
        throw InputError(where,
                         fmt::format("found elements of type {}, allowed: integers; save a.astype(np.int64)", type));
    }
}

/// FP32 holds an integer whose first and last one are at most 24 bits apart.
template <class Integer>
bool is_exact_in_fp32(Integer value) {
    auto magnitude = static_cast<std::uint64_t>(value);
    if (std::is_signed_v<Integer> && value < 0) {
        magnitude = -magnitude;
    }
    return magnitude == 0 || 64 - std::countl_zero(magnitude) - std::countr_zero(magnitude) <= 24;
}

// ---- writing

constexpr const char* kWhat = "NumPy file";

/// Version 1.0 up to the data, which starts at a multiple of 64 bytes.
std::string header_of(const char* descr, const std::vector<std::int64_t>& shape) {
    std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", descr);
    for (std::size_t i = 0; i < shape.size(); ++i) {
        text += fmt::format("{}{}", i > 0 ? ", " : "", shape[i]);
    }
    text += shape.size() == 1 ? ",), }" : "), }";
    const std::size_t preamble = kMagic.size() + 4;
    const std::size_t used = preamble + text.size() + 1;
    text.append((used + kAlignment - 1) / kAlignment * kAlignment - used, ' ');
    text += '\n';
    std::string out(kMagic);
    out.append({1, 0, static_cast<char>(text.size() & 0xFFU), static_cast<char>(text.size() >> 8)});
    return out + text;
}

std::string text_of(const char* descr, const std::vector<std::int64_t>& shape, std::span<const std::byte> data,
                    std::size_t element_bytes) {
    SLUICE_CHECK(shape.size() <= kMostDimensions, "an array of too many dimensions");
    const std::optional<std::int64_t> elements = elements_of(shape, static_cast<std::int64_t>(element_bytes));
    SLUICE_CHECK(elements && static_cast<std::uint64_t>(*elements) * element_bytes == data.size(),
                 "the shape does not fit the values");
    std::string bytes = header_of(descr, shape);
    bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
    return bytes;
}

}  // namespace

std::int64_t Array::size() const {
    return static_cast<std::int64_t>(data.size()) / bytes_of(type);
}

Array parse_npy(std::string_view bytes, const std::string& where) {
    Described described = describe(bytes.substr(0, kMostPreamble + kMostHeader), bytes.size(), where);
    const std::span<const char> data(bytes.data() + described.start, described.bytes);
    const std::span<const std::byte> as_bytes = std::as_bytes(data);
    described.array.data.assign(as_bytes.begin(), as_bytes.end());
    return std::move(described.array);
}

Array read_npy(const fs::path& file) {
    const std::string where = file.string();
    std::error_code error;
    if (fs::exists(file, error) && !fs::is_regular_file(file, error)) {
        throw InputError(where, "is no file");
    }
    const std::uint64_t total = fs::file_size(file, error);
    std::ifstream stream(file, std::ios::binary);
    if (error || !stream) {
        throw InputError(where, fmt::format("cannot be read: {}", error ? error.message() : std::strerror(errno)));
    }
    std::string head(static_cast<std::size_t>(std::min<std::uint64_t>(total, kMostPreamble + kMostHeader)), '\0');
    stream.read(head.data(), static_cast<std::streamsize>(head.size()));
    Described described = describe(head, total, where);
    described.array.data.resize(described.bytes);
    stream.seekg(static_cast<std::streamoff>(described.start));
    stream.read(reinterpret_cast<char*>(described.array.data.data()), static_cast<std::streamsize>(described.bytes));
    if (!stream) {
        throw InputError(where, "cannot be read to its end");
    }
    return std::move(described.array);
}

std::vector<float> as_floats(const Array& array, const std::string& where) {
    std::vector<float> out(static_cast<std::size_t>(array.size()));
    const auto convert = [&](std::size_t i, auto value) { out[i] = static_cast<float>(value); };
    if (array.type == "f4") {
        each_of<float>(array.data, convert);
    } else if (array.type == "f8") {
        each_of<double>(array.data, convert);
    } else if (array.type == "f2") {
        each_of<std::uint16_t>(
            array.data, [&](std::size_t i, std::uint16_t code) { out[i] = isa::decode(isa::Number::fp16, code); });
    } else {
        each_integer(array, where, [&](std::size_t i, auto value) {
            if (!is_exact_in_fp32(value)) {
                throw InputError(where,
                                 fmt::format("found {} as element {}, allowed: integers that FP32 holds exactly; "
                                             "save a.astype(np.float32)",
                                             value, i));
            }
            convert(i, value);
        });
    }
    return out;
}

std::vector<std::int64_t> as_integers(const Array& array, const std::string& where) {
    std::vector<std::int64_t> out(static_cast<std::size_t>(array.size()));
    each_integer(array, where, [&](std::size_t i, auto value) {
        if (!std::in_range<std::int64_t>(value)) {
            throw InputError(where, fmt::format("found {} as element {}, allowed: below 2^63", value, i));
        }
        out[i] = static_cast<std::int64_t>(value);
    });
    return out;
}

std::string npy_text(const std::vector<std::int64_t>& shape, std::span<const float> values) {
    return text_of("<f4", shape, std::as_bytes(values), sizeof(float));
}
std::string npy_text(const std::vector<std::int64_t>& shape, std::span<const std::int64_t> values) {
    return text_of("<i8", shape, std::as_bytes(values), sizeof(std::int64_t));
}
std::string npy_text(const std::vector<std::int64_t>& shape, std::span<const std::byte> values) {
    return text_of("|u1", shape, values, 1);
}

void write_npy(const fs::path& file, const std::vector<std::int64_t>& shape, std::span<const float> values) {
    ResultFile(file, kWhat).publish(npy_text(shape, values));
}
void write_npy(const fs::path& file, const std::vector<std::int64_t>& shape, std::span<const std::int64_t> values) {
    ResultFile(file, kWhat).publish(npy_text(shape, values));
}
void write_npy(const fs::path& file, const std::vector<std::int64_t>& shape, std::span<const std::byte> values) {
    ResultFile(file, kWhat).publish(npy_text(shape, values));
}

}  // namespace sluice::tools
