// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags that say what to run on what, shared by the subcommands. Values are read as text and checked here, so that
// a message names flag, what was found and what is allowed.
#include <cstdint>
#include <string>
#include <vector>

#include "tools/request.hpp"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace sluice::tools {

/// An integer in [lowest, highest]: digits alone. Throws InputError.
[[nodiscard]] std::int64_t parse_count(const std::string& text, const std::string& flag, std::int64_t lowest,
                                       std::int64_t highest);

/// "fp4", "fp6" and "fp8" are their MX formats, or E4M3 where only that is `allowed`. Throws InputError.
[[nodiscard]] isa::Format parse_flag_format(const std::string& text, const std::string& flag,
                                            const std::vector<isa::Format>& allowed);

/// Refuses "" where a path must stand.
[[nodiscard]] CLI::Validator path_given();
/// The same for other texts.
[[nodiscard]] CLI::Validator given(const std::string& allowed);

struct ChipFlags {
    std::string chip;
    std::vector<std::string> sets;

    void add_to(CLI::App& command);
};

class WorkloadFlags {
public:
    void add_to(CLI::App& command);

    /// Throws InputError for what is missing, malformed, or does not go together.
    [[nodiscard]] Request request() const;

private:
    [[nodiscard]] GemmWork gemm() const;
    [[nodiscard]] AttentionWork attention() const;
    [[nodiscard]] ModelWork model() const;
    [[nodiscard]] isa::ScaleRounding scale_rounding() const;
    [[nodiscard]] kernels::Schedule schedule() const;

    ChipFlags chip_;
    std::string what_;
    std::string m_, n_, k_, format_, a_format_, b_format_, out_format_;
    std::string heads_, kv_heads_, head_dim_, past_;
    bool causal_ = false;
    std::string model_, phase_, batch_, context_, tokens_, weights_, act_, kv_, scale_rounding_, routing_,
        routing_seed_, schedule_;
};

}  // namespace sluice::tools
