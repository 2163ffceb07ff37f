// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the fuzzers share. An InputError is the right answer to a bad file. Anything else that is thrown, a promise of
// ours that does not hold, and whatever the sanitizers see ends the process: a find.
#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "isa/errors.hpp"

namespace sluice::fuzz {

/// The bytes as text; libFuzzer gives a null pointer for none.
inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
    return size == 0 ? std::string_view() : std::string_view(reinterpret_cast<const char*>(data), size);
}

inline void require(bool holds, const char* what) {
    if (!holds) {
        fmt::print(stderr, "fuzzer: does not hold: {}\n", what);
        std::abort();
    }
}

/// False: it threw an InputError, which says something.
template <class Action>
bool accepts(const Action& action) {
    try {
        action();
        return true;
    } catch (const InputError& error) {
        require(!std::string_view(error.what()).empty(), "an error has a message");
        return false;
    }
}

/// A file in a folder of its own, written anew for every input: for readers that take a path.
class InputFile {
public:
    explicit InputFile(const std::string& name) {
        std::string pattern = (std::filesystem::temp_directory_path() / "sluice-fuzz-XXXXXX").string();
        require(mkdtemp(pattern.data()) != nullptr, "there is a place for temporary folders");
        folder_ = pattern;
        file_ = folder_ / name;
    }
    ~InputFile() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;

    const std::filesystem::path& write(std::string_view text) const {
        std::ofstream stream(file_, std::ios::binary | std::ios::trunc);
        stream << text;
        return file_;
    }

private:
    std::filesystem::path folder_;
    std::filesystem::path file_;
};

}  // namespace sluice::fuzz

// libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
