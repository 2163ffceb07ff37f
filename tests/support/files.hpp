// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files for tests of readers: a folder that vanishes, and the message that a reader throws.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "isa/errors.hpp"

namespace sluice::test {

class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "sluice-test-XXXXXX").string();
        if (mkdtemp(pattern.data()) == nullptr) {
            throw std::runtime_error("no temporary folder");
        }
        path_ = pattern;
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

    /// Writes a file and returns its path.
    std::string write(const std::string& name, const std::string& text) const {
        const std::filesystem::path file = path_ / name;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
        return file.string();
    }

private:
    std::filesystem::path path_;
};

/// The InputError that `action` throws, or "" if it throws none. Other exceptions pass through and fail the test.
template <class Action>
std::string input_error(Action&& action) {
    try {
        action();
    } catch (const InputError& error) {
        return error.what();
    }
    return "";
}

}  // namespace sluice::test
