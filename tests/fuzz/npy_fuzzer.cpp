// SPDX-License-Identifier: Apache-2.0
// NumPy's arrays: a file is refused by name, or its elements are all there and are the same once written and read
// again.
#include <algorithm>
#include <cstring>

#include "tests/fuzz/fuzzer.hpp"
#include "tools/npy.hpp"

using namespace sluice;

namespace {

void check_floats(const tools::Array& array) {
    const std::vector<float> values = tools::as_floats(array, "input");
    const tools::Array again = tools::parse_npy(tools::npy_text(array.shape, values), "written");
    fuzz::require(again.shape == array.shape && again.type == "f4", "a shape survives");
    const std::vector<float> same = tools::as_floats(again, "written");
    // Bit by bit, since a NaN equals nothing.
    fuzz::require(same.size() == values.size() &&
                      (values.empty() || std::memcmp(same.data(), values.data(), values.size() * sizeof(float)) == 0),
                  "numbers survive");
}

void check_integers(const tools::Array& array) {
    const std::vector<std::int64_t> values = tools::as_integers(array, "input");
    const tools::Array again = tools::parse_npy(tools::npy_text(array.shape, values), "written");
    fuzz::require(again.shape == array.shape && again.type == "i8", "a shape survives");
    fuzz::require(tools::as_integers(again, "written") == values, "integers survive");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    tools::Array array;
    if (!fuzz::accepts([&] { array = tools::parse_npy(fuzz::text_of(data, size), "input"); })) {
        return 0;
    }
    fuzz::require(array.size() >= 0, "an array has a size");
    fuzz::require(array.data.size() <= size, "an array holds no more than its file");
    (void)fuzz::accepts([&] { check_floats(array); });
    (void)fuzz::accepts([&] { check_integers(array); });
    return 0;
}
