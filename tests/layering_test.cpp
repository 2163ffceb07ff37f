// SPDX-License-Identifier: Apache-2.0
// The layers as the sources have them: who includes whom, and which folders exist. CMake's link lines say the same;
// this test also sees header-only dependencies.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
const fs::path kRoot = SLUICE_SOURCE_DIR;

struct Include {
    std::string from;    ///< "sim/noc/link.cpp"
    std::string target;  ///< "isa/units.hpp", or "systemc" for a system header
    bool quoted = false;
};

std::vector<Include> includes_of(const std::string& folder) {
    static const std::regex kInclude(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
    std::vector<Include> includes;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / folder)) {
        const std::string extension = entry.path().extension().string();
        if (extension != ".hpp" && extension != ".cpp") {
            continue;
        }
        std::ifstream file(entry.path());
        std::smatch match;
        for (std::string line; std::getline(file, line);) {
            if (std::regex_search(line, match, kInclude)) {
                includes.push_back({entry.path().lexically_relative(kRoot).string(), match[2], match[1] == "\""});
            }
        }
    }
    return includes;
}

std::string first_folder(const std::string& path) {
    return path.substr(0, path.find('/'));
}

/// "noc" of "sim/noc/link.hpp"; "" of "sim/run.hpp".
std::string sim_folder(const std::string& path) {
    const fs::path relative = fs::path(path).lexically_relative("sim").parent_path();
    return relative.empty() ? "" : relative.begin()->string();
}

/// Position of a folder of sim/ from left to right; the entry point (sim/run.cpp) is right of all.
int sim_rank(const std::string& folder) {
    static const std::map<std::string, int> kRanks = {{"core", 0},  {"mem", 1},     {"noc", 1},  {"engine", 1},
                                                      {"tile", 2},  {"cluster", 3}, {"chip", 4}, {"system", 5},
                                                      {"fleet", 6}, {"", 7}};
    const auto found = kRanks.find(folder);
    return found == kRanks.end() ? -1 : found->second;
}

TEST_CASE("a folder includes only what its layer may see") {
    const std::map<std::string, std::set<std::string>> allowed = {
        {"isa", {"isa"}},
        {"models", {"isa", "models"}},
        {"kernels", {"isa", "models", "kernels"}},
        {"sim", {"isa", "sim"}},
        {"tools", {"isa", "models", "kernels", "sim", "tools"}},
    };
    for (const auto& [folder, may_see] : allowed) {
        for (const Include& include : includes_of(folder)) {
            INFO(include.from << " includes " << include.target);
            if (include.quoted) {
                CHECK(may_see.contains(first_folder(include.target)));
                CHECK(fs::exists(kRoot / include.target));
            } else if (folder != "sim") {
                CHECK(include.target.find("systemc") == std::string::npos);
                CHECK_FALSE(include.target.starts_with("tlm"));
            }
        }
    }
}

TEST_CASE("a folder of sim includes itself and what is to its left") {
    for (const Include& include : includes_of("sim")) {
        // The result types of the entry point are common vocabulary.
        if (!include.quoted || first_folder(include.target) != "sim" || include.target == "sim/run.hpp") {
            continue;
        }
        INFO(include.from << " includes " << include.target);
        const std::string from = sim_folder(include.from);
        const std::string target = sim_folder(include.target);
        CHECK(sim_rank(from) >= 0);
        CHECK(sim_rank(target) >= 0);
        CHECK((from == target || sim_rank(target) < sim_rank(from)));
    }
}

TEST_CASE("the top-level folders are the fixed ones") {
    const std::set<std::string> fixed = {"configs", "isa", "kernels", "models", "sim", "tests", "tools", "traces"};
    std::set<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(kRoot)) {
        const std::string name = entry.path().filename().string();
        const bool ignored = name.starts_with(".") || name.starts_with("build") || name == "out";
        if (entry.is_directory() && !ignored) {
            found.insert(name);
        }
    }
    CHECK(found == fixed);
}

TEST_CASE("every source file starts with its licence, and every header is guarded") {
    for (const char* folder : {"isa", "models", "kernels", "sim", "tools", "tests"}) {
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / folder)) {
            const std::string extension = entry.path().extension().string();
            if (extension != ".hpp" && extension != ".cpp") {
                continue;
            }
            INFO(entry.path());
            std::ifstream file(entry.path());
            std::string first;
            std::string second;
            std::getline(file, first);
            std::getline(file, second);
            CHECK(first == "// SPDX-License-Identifier: Apache-2.0");
            CHECK((extension == ".cpp" || second == "#pragma once"));
        }
    }
}

}  // namespace
