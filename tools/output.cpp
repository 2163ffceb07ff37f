// SPDX-License-Identifier: Apache-2.0
#include "tools/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "isa/errors.hpp"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;

/// What ResultFolder has ever written: only such files are replaced.
constexpr std::array<const char*, 4> kResultFiles{"run.json", "operators.csv", "hbm_commands.csv", "program.disa"};

[[noreturn]] void refuse(const std::string& flag, const fs::path& place, const std::string& why) {
    throw InputError(flag, fmt::format("{} cannot be written: {}", place.string(), why));
}

void require_success(const std::error_code& error, const std::string& flag, const fs::path& place) {
    if (error) {
        refuse(flag, place, error.message());
    }
}

/// With symbolic links followed and no trailing slash.
fs::path resolved(const fs::path& place, const std::string& flag) {
    std::error_code error;
    fs::path path = fs::weakly_canonical(fs::absolute(place), error);
    require_success(error, flag, place);
    return path.has_filename() ? path : path.parent_path();
}

/// A name in the same folder, so that a rename is atomic.
fs::path beside(const fs::path& place, const char* suffix) {
    return place.parent_path() / fmt::format(".{}.{}.{}", place.filename().string(), ::getpid(), suffix);
}

/// Folders that were made on the way and are still empty go away again.
class MadeFolders {
public:
    MadeFolders(const fs::path& folder, const std::string& flag) {
        std::error_code error;
        for (fs::path each = folder; !each.empty() && !fs::exists(each, error); each = each.parent_path()) {
            made_.push_back(each);
        }
        fs::create_directories(folder, error);
        if (error) {
            remove();
        }
        require_success(error, flag, folder);
    }
    void remove() const {
        for (const fs::path& folder : made_) {
            std::error_code ignored;
            fs::remove(folder, ignored);
        }
    }

private:
    std::vector<fs::path> made_;
};

/// A file of ours that is gone at the end unless it was renamed.
class Temporary {
public:
    explicit Temporary(fs::path file) : file_(std::move(file)) {}
    ~Temporary() {
        std::error_code ignored;
        fs::remove(file_, ignored);
    }
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;

    [[nodiscard]] const fs::path& path() const { return file_; }

private:
    fs::path file_;
};

/// Removes nothing if it fails: the file may be the user's own device. `place` is what messages name.
void write_file(const fs::path& file, const std::string& text, const std::string& flag, const fs::path& place) {
    std::ofstream stream(file, std::ios::binary);
    stream << text;
    stream.close();
    if (!stream) {
        refuse(flag, place, std::strerror(errno));
    }
}

/// A folder's run.json, or null if it has none of schema sluice.run.
nlohmann::json run_json_of(const fs::path& folder) {
    std::error_code error;
    if (!fs::is_regular_file(folder / "run.json", error)) {
        return {};
    }
    std::ifstream stream(folder / "run.json", std::ios::binary);
    nlohmann::json run = nlohmann::json::parse(stream, nullptr, false);
    const bool is_run = run.is_object() && run.contains("schema") && run["schema"].is_string() &&
                        run["schema"].get<std::string>().starts_with("sluice.run/");
    return is_run ? std::move(run) : nlohmann::json();
}

/// The files of a result: the usual ones, and the outputs that its run.json lists.
std::set<std::string> result_files_of(const nlohmann::json& run) {
    std::set<std::string> files(kResultFiles.begin(), kResultFiles.end());
    const nlohmann::json::json_pointer outputs("/values/outputs");
    if (run.is_object() && run.contains(outputs) && run[outputs].is_array()) {
        for (const nlohmann::json& name : run[outputs]) {
            if (name.is_string() && name.get<std::string>().ends_with(".npy")) {
                files.insert(name.get<std::string>());
            }
        }
    }
    return files;
}

/// Throws InputError unless the folder is not there, empty, or an earlier result.
void require_replaceable(const fs::path& folder, const std::string& flag) {
    std::error_code error;
    if (!fs::exists(folder, error)) {
        return;
    }
    if (!fs::is_directory(folder, error)) {
        refuse(flag, folder, "it is no folder");
    }
    if (folder == fs::current_path(error)) {
        refuse(flag, folder, "it is the current folder");
    }
    const std::string allowed = "allowed: a new or empty folder, or that of an earlier result";
    const nlohmann::json run = run_json_of(folder);
    const std::set<std::string> known = result_files_of(run);
    bool empty = true;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
        const std::string name = entry.path().filename().string();
        std::error_code ignored;
        if (!known.contains(name) || !entry.is_regular_file(ignored)) {
            refuse(flag, folder, fmt::format("it holds \"{}\", which is no result; {}", name, allowed));
        }
        empty = false;
    }
    require_success(error, flag, folder);
    if (!empty && run.is_null()) {
        refuse(flag, folder, fmt::format("it has no run.json of schema sluice.run; {}", allowed));
    }
}

/// Is `inner` the same place as `outer` or below it?
bool is_within(const fs::path& inner, const fs::path& outer) {
    const fs::path relative = inner.lexically_relative(outer);
    return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

std::string file_name(const std::string& text) {
    std::string out = text;
    for (char& c : out) {
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_' && c != '-') {
            c = '-';
        }
    }
    return out;
}

ResultFolder::ResultFolder(const fs::path& folder, std::string flag)
    : folder_(resolved(folder, flag)), flag_(std::move(flag)) {
    std::error_code error;
    require_replaceable(folder_, flag_);
    const MadeFolders made(folder_.parent_path(), flag_);
    const fs::path probe = beside(folder_, "new");
    fs::create_directory(probe, error);
    std::error_code ignored;
    fs::remove(probe, ignored);
    made.remove();
    require_success(error, flag_, folder_);
}

void ResultFolder::publish(const std::map<std::string, std::string>& files) const {
    require_replaceable(folder_, flag_);
    const MadeFolders made(folder_.parent_path(), flag_);
    const fs::path fresh = beside(folder_, "new");
    const fs::path earlier = beside(folder_, "old");
    std::error_code error;
    std::error_code ignored;
    try {
        fs::create_directory(fresh, error);
        require_success(error, flag_, folder_);
        for (const auto& [name, text] : files) {
            write_file(fresh / name, text, flag_, folder_);
        }
        const bool replaces = fs::exists(folder_, ignored);
        if (replaces) {
            fs::rename(folder_, earlier, error);
            require_success(error, flag_, folder_);
        }
        fs::rename(fresh, folder_, error);
        if (error && replaces) {
            fs::rename(earlier, folder_, ignored);
        }
        require_success(error, flag_, folder_);
        fs::remove_all(earlier, ignored);
    } catch (const InputError&) {
        fs::remove_all(fresh, ignored);
        made.remove();
        throw;
    }
}

ResultFile::ResultFile(const fs::path& file, std::string flag) : file_(resolved(file, flag)), flag_(std::move(flag)) {
    std::error_code error;
    if (fs::is_directory(file_, error)) {
        refuse(flag_, file_, "it is a folder");
    }
    if (fs::exists(file_, error) && !fs::is_regular_file(file_, error)) {
        return;  // /dev/null and the like
    }
    const Temporary probe(beside(file_, "new"));
    write_file(probe.path(), "", flag_, file_);
}

void ResultFile::publish(const std::string& text) const {
    std::error_code error;
    if (fs::exists(file_, error) && !fs::is_regular_file(file_, error)) {
        write_file(file_, text, flag_, file_);
        return;
    }
    const Temporary fresh(beside(file_, "new"));
    write_file(fresh.path(), text, flag_, file_);
    fs::rename(fresh.path(), file_, error);
    require_success(error, flag_, file_);
}

void require_apart(const Place& output, const Place& other) {
    const fs::path first = resolved(output.path, output.name);
    const fs::path second = resolved(other.path, other.name);
    if (is_within(first, second) || is_within(second, first)) {
        throw InputError(output.name, fmt::format("{} would overwrite {} ({})", output.path.string(),
                                                  other.path.string(), other.name));
    }
}

void print(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        throw InputError("standard output", fmt::format("cannot be written: {}", std::strerror(errno)));
    }
}

}  // namespace sluice::tools
