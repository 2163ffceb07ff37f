// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays in NumPy's file format, `.npy`, versions 1.0 to 3.0:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
// Our own reader, since no library of Debian's withstands hostile files: cnpy is unmaintained, xtensor trusts the
// header.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::tools {

/// The last dimension lies contiguous (C order), little-endian.
struct Array {
    std::vector<std::int64_t> shape;  ///< empty: a single element
    std::string type;                 ///< f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8, b1 (bool): kind and bytes
    std::vector<std::byte> data;      ///< size() elements

    [[nodiscard]] std::int64_t size() const;
};

/// Throws InputError, which names the file, for whatever is no array of the types above in C order. Nothing is
/// allocated before the header and the number of bytes behind it agree.
[[nodiscard]] Array read_npy(const std::filesystem::path& file);
/// The same of a file's bytes; `where` is its name for messages.
[[nodiscard]] Array parse_npy(std::string_view bytes, const std::string& where);

/// Elements in order. f8 is rounded to FP32 (what is beyond its range becomes infinite). Throws InputError for an
/// integer that FP32 does not hold exactly.
[[nodiscard]] std::vector<float> as_floats(const Array& array, const std::string& where);
/// Of integers and bool. Throws InputError for other types, and for a u8 from 2^63.
[[nodiscard]] std::vector<std::int64_t> as_integers(const Array& array, const std::string& where);

/// A whole file of version 1.0 and type f4, i8 or u1. The shape has as many elements as there are values.
[[nodiscard]] std::string npy_text(const std::vector<std::int64_t>& shape, std::span<const float> values);
[[nodiscard]] std::string npy_text(const std::vector<std::int64_t>& shape, std::span<const std::int64_t> values);
[[nodiscard]] std::string npy_text(const std::vector<std::int64_t>& shape, std::span<const std::byte> values);

/// Writes version 1.0 of type f4, i8 or u1; an earlier file is replaced when the new one is complete. The shape has as
/// many elements as there are values. Throws InputError if the file cannot be written.
void write_npy(const std::filesystem::path& file, const std::vector<std::int64_t>& shape,
               std::span<const float> values);
void write_npy(const std::filesystem::path& file, const std::vector<std::int64_t>& shape,
               std::span<const std::int64_t> values);
void write_npy(const std::filesystem::path& file, const std::vector<std::int64_t>& shape,
               std::span<const std::byte> values);

}  // namespace sluice::tools
