// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the program `sluice` as a user would, in a folder of its own.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/files.hpp"

namespace sluice::test {

inline std::string text_of(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

inline nlohmann::json json_of(const std::filesystem::path& file) {
    return nlohmann::json::parse(text_of(file));
}

struct Ended {
    int code = -1;  ///< exit code; -1 if a signal ended it
    std::string out;
    std::string err;
};

class Program {
public:
    [[nodiscard]] const TemporaryFolder& folder() const { return folder_; }
    [[nodiscard]] std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

    /// Words are arguments; nothing is quoted. Standard output goes to `sink` if it is given, a path in the folder.
    [[nodiscard]] Ended operator()(const std::string& words, const std::string& sink = {}) const {
        std::vector<std::string> arguments;
        for (std::size_t at = words.find_first_not_of(' '); at != std::string::npos;) {
            const std::size_t end = std::min(words.find(' ', at), words.size());
            arguments.push_back(words.substr(at, end - at));
            at = words.find_first_not_of(' ', end);
        }
        return run(arguments, sink);
    }

    [[nodiscard]] Ended run(const std::vector<std::string>& arguments, const std::string& sink = {}) const {
        const TemporaryFolder streams;
        const std::filesystem::path out = sink.empty() ? streams.path() / "out" : path(sink);
        const std::filesystem::path err = streams.path() / "err";
        const pid_t child = ::fork();
        if (child < 0) {
            throw std::runtime_error("no process");
        }
        if (child == 0) {
            std::vector<char*> argv;
            std::string program = SLUICE_PROGRAM;
            argv.push_back(program.data());
            std::vector<std::string> copies = arguments;
            for (std::string& each : copies) {
                argv.push_back(each.data());
            }
            argv.push_back(nullptr);
            if (::chdir(folder_.path().c_str()) != 0 || !redirect(out, STDOUT_FILENO) ||
                !redirect(err, STDERR_FILENO)) {
                ::_exit(126);
            }
            ::execv(program.c_str(), argv.data());
            ::_exit(127);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, sink.empty() ? text_of(out) : "", text_of(err)};
    }

    /// Paths under the folder, relative to it.
    [[nodiscard]] std::set<std::string> files() const {
        std::set<std::string> found;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
            found.insert(entry.path().lexically_relative(folder_.path()).string());
        }
        return found;
    }

private:
    static bool redirect(const std::filesystem::path& file, int stream) {
        const int opened = ::open(file.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
        return opened >= 0 && ::dup2(opened, stream) >= 0;
    }

    TemporaryFolder folder_;
};

inline const char* const kToyGemm = "run gemm --m 64 --n 64 --k 64 --format fp8 --chip toy";
inline const char* const kToyDecode = "run --model toy-llama --phase decode --batch 4 --context 256 --chip toy";
inline const char* const kToyPrefill = "run --model toy-llama --phase prefill --tokens 64 --chip toy";

/// Two control programs that wait for each other.
inline const char* const kDeadlock = R"(disa 1
program "stuck" chip "toy"
control "left" tile count 1 from 0 {
  wait tile(self)[0]
  signal tile(1)[0]
}
control "right" tile count 1 from 1 {
  wait tile(self)[0]
  signal tile(0)[0]
}
)";

}  // namespace sluice::test
