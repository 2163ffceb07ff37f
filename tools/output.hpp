// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where results go. A place is tried before the simulation starts, and what is written appears at once or not at all.
#include <filesystem>
#include <map>
#include <string>

namespace sluice::tools {

/// The text with '-' for all that is no letter, digit, '.', '_' or '-'.
[[nodiscard]] std::string file_name(const std::string& text);

/// A folder of results. An earlier result is replaced, with the outputs (.npy) that its run.json lists; a folder with
/// anything else in it is refused.
class ResultFolder {
public:
    /// Throws InputError (`flag` names the place in messages) if the folder could not be written.
    ResultFolder(const std::filesystem::path& folder, std::string flag);

    /// Writes all files (name -> text) beside the folder, then puts them in its place. Throws InputError.
    void publish(const std::map<std::string, std::string>& files) const;

private:
    std::filesystem::path folder_;
    std::string flag_;
};

/// A single file; replaces an earlier one. What is there and is no regular file (a device, a pipe) is written to.
class ResultFile {
public:
    ResultFile(const std::filesystem::path& file, std::string flag);
    void publish(const std::string& text) const;

private:
    std::filesystem::path file_;
    std::string flag_;
};

struct Place {
    std::string name;  ///< "--json", "program": for messages
    std::filesystem::path path;
};

/// Throws InputError if one place is the other or lies within it, so that writing `output` would destroy `other`.
void require_apart(const Place& output, const Place& other);

/// Writes to standard output and makes sure that it arrived. Throws InputError.
void print(const std::string& text);

}  // namespace sluice::tools
