// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the verifier has found so far: up to ten violations, with the place where it looks.
#include <string>
#include <vector>

namespace sluice::isa {

class Problems {
public:
    /// "control program main, tdma.0 "load a"": stands before what is noted from now on.
    void at(std::string where) { where_ = std::move(where); }
    [[nodiscard]] const std::string& where() const { return where_; }

    static constexpr std::size_t kNone = ~std::size_t{0};
    /// Its number; kNone beyond the tenth.
    std::size_t note(const std::string& what);
    void append(std::size_t number, const std::string& more) { noted_[number] += more; }
    [[nodiscard]] bool empty() const { return noted_.empty(); }
    [[nodiscard]] bool full() const { return more_; }

    /// Throws InputError with all of them.
    void report() const;

private:
    std::string where_;
    std::vector<std::string> noted_;
    bool more_ = false;
};

}  // namespace sluice::isa
