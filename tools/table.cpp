// SPDX-License-Identifier: Apache-2.0
#include "tools/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/simulate.hpp"

namespace sluice::tools {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string percent(double fraction) {
    return fmt::format("{:.1f} %", 100 * fraction);
}

std::string share(Cycle part, Cycle whole) {
    return whole > 0 ? percent(static_cast<double>(part) / static_cast<double>(whole)) : "-";
}

/// Four digits at most before the point, so that columns stay narrow.
std::string rate(double value) {
    return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}", value);
}

std::string field(const nlohmann::ordered_json& object, const char* key) {
    return object.at(key).get<std::string>();
}

/// What the command line changed of the chip: two tables can be told apart by it.
std::string changes(const nlohmann::ordered_json& values) {
    std::string text;
    for (const auto& [path, entry] : values.items()) {
        if (entry.at("source") == "--set") {
            const nlohmann::ordered_json& value = entry.at("value");
            text += fmt::format("{}{} {}", text.empty() ? " with " : ", ", path,
                                value.is_string() ? value.get<std::string>() : value.dump());
        }
    }
    return text;
}

std::string heading(const Prepared& job) {
    const nlohmann::ordered_json& work = job.workload;
    const std::string kind = field(work, "kind");
    std::string formats;
    if (kind == "gemm") {
        formats =
            fmt::format(": {} x {} -> {}", field(work, "a_format"), field(work, "b_format"), field(work, "out_format"));
    } else if (kind == "model") {
        formats = fmt::format(": weights {}, activations {}, KV cache {}", field(work, "weights_format"),
                              field(work, "act_format"), field(work, "kv_format"));
    }
    if (kind != "program") {
        formats += fmt::format(", {} schedule", field(work, "schedule"));
    }
    return fmt::format("{} on {}{}{}\n\n", job.name, job.chip.spec.name, changes(job.chip.values), formats);
}

void add_summary(Rows& rows, const Summary& s, std::int64_t core_hz, Cycle power_interval) {
    rows.push_back({"time", scaled(s.seconds, "s"),
                    fmt::format("{} cycles at {}", grouped(s.cycles), scaled(static_cast<double>(core_hz), "Hz"))});
    if (s.tflops) {
        rows.push_back({"compute", scaled(*s.tflops * 1e12, "flop/s"),
                        s.peak_tflops ? fmt::format("{} of the peak of {} ({})", percent(*s.utilization),
                                                    scaled(*s.peak_tflops * 1e12, "flop/s"), s.peak_rate)
                                      : "no tensor work"});
    }
    rows.push_back({"HBM", scaled(s.hbm_tbps * 1e12, "B/s"),
                    fmt::format("{} of {}; {} moved", percent(s.hbm_utilization), scaled(s.hbm_peak_tbps * 1e12, "B/s"),
                                scaled(s.hbm_bytes, "B"))});
    if (s.tokens_per_second) {
        rows.push_back({"tokens", fmt::format("{} /s", grouped(static_cast<std::uint64_t>(*s.tokens_per_second))),
                        fmt::format("{} each", scaled(*s.joules_per_token, "J"))});
    }
    const bool above = s.peak_power_w > s.tdp_w;
    rows.push_back({"power", scaled(s.mean_power_w, "W"),
                    fmt::format("mean, {} over the hottest {} cycles, {} {}; {} in all", scaled(s.peak_power_w, "W"),
                                grouped(power_interval), above ? "above the TDP of" : "TDP", scaled(s.tdp_w, "W"),
                                scaled(s.energy_j, "J"))});
    if (above) {
        rows.push_back({"", "", "throttling is not modelled: nothing slowed the run down"});
    }
    if (s.bound_fraction) {
        rows.push_back({"bound", s.bounds.binding(),
                        fmt::format("{} of the roof; at best ttu {}, tvp {}, hbm {} cycles", percent(*s.bound_fraction),
                                    grouped(static_cast<std::uint64_t>(s.bounds.ttu_cycles)),
                                    grouped(static_cast<std::uint64_t>(s.bounds.tvp_cycles)),
                                    grouped(static_cast<std::uint64_t>(s.bounds.hbm_cycles)))});
    }
}

std::string operator_table(const Figures& figures, bool planned) {
    constexpr std::size_t kMostRows = 12;
    std::vector<const GroupFigures*> groups;
    for (const GroupFigures& group : figures.groups) {
        groups.push_back(&group);
    }
    const std::size_t all = groups.size();
    if (all > kMostRows) {
        // The longest, still in order of appearance.
        std::vector<const GroupFigures*> longest = groups;
        std::stable_sort(longest.begin(), longest.end(),
                         [](const GroupFigures* a, const GroupFigures* b) { return a->cycles > b->cycles; });
        longest.resize(kMostRows);
        std::sort(longest.begin(), longest.end());
        groups = longest;
    }
    Rows rows = {{"operator", "count", "cycles", "of run", "Tflop/s", "HBM TB/s", "energy", "bound", "at best"}};
    for (const GroupFigures* group : groups) {
        rows.push_back({group->name, fmt::format("{}", group->count), grouped(group->cycles),
                        share(group->cycles, figures.summary.cycles), planned ? rate(group->tflops) : "-",
                        rate(group->hbm_tbps), scaled(group->energy_j, "J"), planned ? group->bounds.binding() : "-",
                        planned ? grouped(static_cast<std::uint64_t>(group->bounds.longest())) : "-"});
    }
    std::string text = aligned(rows);
    if (all > groups.size()) {
        text += fmt::format("and {} shorter ones\n", all - groups.size());
    }
    return text;
}

std::string engine_table(const Figures& figures) {
    constexpr std::size_t kMostReasons = 3;
    Rows rows = {{"engine", "lanes", "busy", "idle", "waits for"}};
    for (const EngineFigures& engine : figures.engines) {
        if (engine.idle == engine.total) {
            continue;
        }
        std::vector<std::pair<Cycle, std::string>> reasons;
        for (std::size_t i = 0; i < engine.waiting.size(); ++i) {
            if (engine.waiting[i] > 0) {
                reasons.emplace_back(engine.waiting[i], name(static_cast<sim::WaitKind>(i)));
            }
        }
        std::stable_sort(reasons.begin(), reasons.end(),
                         [](const auto& a, const auto& b) { return a.first > b.first; });
        reasons.resize(std::min(reasons.size(), kMostReasons));
        std::string waits;
        for (const auto& [cycles, reason] : reasons) {
            waits += fmt::format("{}{} {}", waits.empty() ? "" : ", ", reason, share(cycles, engine.total));
        }
        std::replace(waits.begin(), waits.end(), '_', ' ');
        rows.push_back({engine.kind, fmt::format("{}", engine.lanes), share(engine.busy, engine.total),
                        share(engine.idle, engine.total), waits.empty() ? "-" : waits});
    }
    return aligned(rows, {4});
}

std::string path_line(const sim::RunResult& result) {
    constexpr std::size_t kMost = 6;
    std::string line;
    for (std::size_t i = 0; i < std::min(result.critical_path.size(), kMost); ++i) {
        const sim::CriticalSegment& segment = result.critical_path[i];
        line +=
            fmt::format("{}{} {}", line.empty() ? "" : ", ", segment.resource, share(segment.cycles, result.cycles));
    }
    return line;
}

std::string energy_line(const Figures& figures) {
    constexpr std::size_t kMost = 6;
    std::vector<std::pair<double, std::string>> parts = {{figures.static_j, "static"}};
    for (const auto& [component, energy] : figures.component_j) {
        parts.emplace_back(energy, component);
    }
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string line;
    for (std::size_t i = 0; i < std::min(parts.size(), kMost); ++i) {
        if (parts[i].first > 0) {
            line += fmt::format("{}{} {}", line.empty() ? "" : ", ", parts[i].second,
                                percent(parts[i].first / figures.summary.energy_j));
        }
    }
    return line;
}

}  // namespace

namespace {

/// "24 instructions on seed 1; no race; 3 other interleavings agree; c.npy"
std::string values_line(const ValueOutcome& values) {
    const auto& summary = values.summary;
    const auto& inputs = summary["inputs"].get_ref<const std::string&>();
    const bool seed = inputs.find_first_not_of("0123456789") == std::string::npos;
    std::string line = fmt::format("{} instructions on {}{}", grouped(summary["instructions"].get<std::uint64_t>()),
                                   seed ? "seed " : "", inputs);
    if (summary["races_checked"].get<bool>()) {
        line += "; no race";
    }
    if (const auto shuffles = summary["interleavings_compared"].get<std::int64_t>(); shuffles > 0) {
        line += fmt::format("; {} other interleaving{}", shuffles, shuffles == 1 ? " agrees" : "s agree");
    }
    const auto& outputs = summary["outputs"];
    constexpr std::size_t kShown = 4;
    for (std::size_t i = 0; i < std::min(outputs.size(), kShown); ++i) {
        line += (i == 0 ? "; " : ", ") + outputs[i].get<std::string>();
    }
    return outputs.size() > kShown ? fmt::format("{} and {} more", line, outputs.size() - kShown) : line;
}

}  // namespace

std::string run_table(const Outcome& outcome) {
    const Figures& figures = outcome.figures;
    Rows summary;
    add_summary(summary, figures.summary, outcome.job.chip.spec.clock.core_hz, figures.power_interval_cycles);
    std::string text = heading(outcome.job) + aligned(summary, {1, 2}) + "\n";
    if (!figures.groups.empty()) {
        text += operator_table(figures, !outcome.job.plan.empty()) + "\n";
    }
    text += engine_table(figures) + "\n";
    Rows last{{"critical path", path_line(outcome.result)}, {"energy", energy_line(figures)}};
    if (!outcome.values.summary.is_null()) {
        last.push_back({"values", values_line(outcome.values)});
    }
    return text + aligned(last, {1});
}

std::string aligned(const Rows& rows, const std::vector<std::size_t>& left) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], row[i].size());
        }
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            const bool flush_left = i == 0 || std::find(left.begin(), left.end(), i) != left.end();
            line += i == 0 ? "" : "  ";
            line += flush_left ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::string grouped(std::uint64_t number) {
    const std::string digits = std::to_string(number);
    std::string text;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) {
            text.push_back(',');
        }
        text.push_back(digits[i]);
    }
    return text;
}

std::string scaled(double value, const std::string& unit) {
    struct Prefix {
        double factor;
        const char* name;
    };
    // Up to 9,999 in one prefix, so that 1,200 Tflop/s is not 1.20 Pflop/s beside one of 900 Tflop/s.
    static constexpr std::array<Prefix, 9> kPrefixes{{{1e12, "T"},
                                                      {1e9, "G"},
                                                      {1e6, "M"},
                                                      {1e3, "k"},
                                                      {1, ""},
                                                      {1e-3, "m"},
                                                      {1e-6, "u"},
                                                      {1e-9, "n"},
                                                      {1e-12, "p"}}};
    const double size = std::abs(value);
    const auto* prefix = std::find_if(kPrefixes.begin(), kPrefixes.end() - 1,
                                      [size](const Prefix& p) { return size >= 0.9995 * p.factor; });
    if (size == 0) {
        return "0 " + unit;
    }
    const double shown = value / prefix->factor;
    const int decimals = std::abs(shown) >= 99.95 ? 0 : std::abs(shown) >= 9.995 ? 1 : 2;
    if (std::abs(shown) >= 1000) {
        return fmt::format("{} {}{}", grouped(static_cast<std::uint64_t>(std::llround(shown))), prefix->name, unit);
    }
    return fmt::format("{:.{}f} {}{}", shown, decimals, prefix->name, unit);
}

}  // namespace sluice::tools
