// SPDX-License-Identifier: Apache-2.0
#include "tools/run_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tools/simulate.hpp"
#include "tools/version.hpp"

namespace sluice::tools {
namespace {

using nlohmann::ordered_json;

/// null for what is not there.
ordered_json number(const std::optional<double>& value) {
    return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json text(const std::string& value) {
    return value.empty() ? ordered_json(nullptr) : ordered_json(value);
}

ordered_json roof_json(const LowerBounds& bounds) {
    return {{"ttu_cycles", bounds.ttu_cycles}, {"tvp_cycles", bounds.tvp_cycles}, {"hbm_cycles", bounds.hbm_cycles}};
}

ordered_json chip_json(const isa::ResolvedChip& chip) {
    return {{"name", chip.spec.name},
            {"description", chip.spec.description},
            {"derived", isa::derived(chip.spec)},
            {"values", chip.values}};
}

ordered_json summary_json(const Summary& summary) {
    const bool planned = summary.flops.has_value();
    return {{"cycles", summary.cycles},
            {"seconds", summary.seconds},
            {"flops", number(summary.flops)},
            {"tflops", number(summary.tflops)},
            {"peak_rate", text(summary.peak_rate)},
            {"peak_tflops", number(summary.peak_tflops)},
            {"utilization", number(summary.utilization)},
            {"hbm_bytes", summary.hbm_bytes},
            {"hbm_tbps", summary.hbm_tbps},
            {"hbm_peak_tbps", summary.hbm_peak_tbps},
            {"hbm_utilization", summary.hbm_utilization},
            {"energy_j", summary.energy_j},
            {"mean_power_w", summary.mean_power_w},
            {"peak_power_w", summary.peak_power_w},
            {"tdp_w", summary.tdp_w},
            {"throttled_fraction", nullptr},
            {"tokens_per_second", number(summary.tokens_per_second)},
            {"joules_per_token", number(summary.joules_per_token)},
            {"bound", planned ? ordered_json(summary.bounds.binding()) : ordered_json(nullptr)},
            {"bound_fraction", number(summary.bound_fraction)},
            {"roof", planned ? roof_json(summary.bounds) : ordered_json(nullptr)}};
}

ordered_json operator_json(const OperatorFigures& op, bool planned) {
    const sim::NodeAccount& account = op.account;
    const bool ran = account.instructions > 0;
    const auto cycle = [ran](Cycle value) { return ran ? ordered_json(value) : ordered_json(nullptr); };
    return {{"name", op.name},
            {"kind", text(op.kind)},
            {"format", text(op.format)},
            {"instructions", account.instructions},
            {"first_fetch_cycle", cycle(account.first_fetch)},
            {"start_cycle", cycle(account.start)},
            {"end_cycle", cycle(account.end)},
            {"flops", planned ? ordered_json(op.flops) : ordered_json(nullptr)},
            {"bytes",
             {{"hbm", account.hbm_read + account.hbm_written},
              {"hbm_compulsory", planned ? ordered_json(op.hbm_compulsory_bytes) : ordered_json(nullptr)},
              {"csram", account.csram},
              {"tsram", account.tsram},
              {"noc", account.noc}}},
            {"tflops", number(op.tflops)},
            {"intensity", number(op.intensity)},
            {"roof_tflops", number(op.roof_tflops)},
            {"roof", planned ? roof_json(op.bounds) : ordered_json(nullptr)},
            {"energy_j", op.energy_j},
            {"bound", planned ? ordered_json(op.bounds.binding()) : ordered_json(nullptr)}};
}

ordered_json engine_json(const sim::EngineAccount& account) {
    ordered_json waiting = ordered_json::object();
    for (std::size_t i = 0; i < account.waiting.size(); ++i) {
        waiting[std::string(name(static_cast<sim::WaitKind>(i)))] = account.waiting[i];
    }
    return {{"path", account.path},
            {"busy", account.busy},
            {"waiting", waiting},
            {"idle", account.idle},
            {"total", account.total}};
}

ordered_json critical_path_json(const sim::RunResult& result) {
    ordered_json path = ordered_json::array();
    for (const sim::CriticalSegment& segment : result.critical_path) {
        path.push_back({{"resource", segment.resource},
                        {"cycles", segment.cycles},
                        {"fraction", static_cast<double>(segment.cycles) / static_cast<double>(result.cycles)}});
    }
    return path;
}

ordered_json stats_json(const std::vector<sim::StatValue>& stats) {
    ordered_json list = ordered_json::array();
    for (const sim::StatValue& stat : stats) {
        list.push_back(
            {{"path", stat.path}, {"unit", stat.unit}, {"description", stat.description}, {"value", stat.value}});
    }
    return list;
}

ordered_json simulator_json(const sim::RunResult& result, double wall_seconds) {
    const double rate = wall_seconds > 0 ? static_cast<double>(result.cycles) / wall_seconds : 0;
    return {{"version", version()},
            {"git", git_commit()},
            {"wall_seconds", wall_seconds},
            {"events", result.events},
            {"cycles_per_second", rate}};
}

/// A field of CSV (RFC 4180): empty for null, quoted where the text needs it.
std::string cell(const ordered_json& value) {
    if (value.is_null()) {
        return "";
    }
    if (!value.is_string()) {
        return value.dump();
    }
    const auto& text = value.get_ref<const std::string&>();
    if (text.find_first_of(",\"\n") == std::string::npos) {
        return text;
    }
    std::string quoted = "\"";
    for (const char c : text) {
        quoted += c == '"' ? "\"\"" : std::string(1, c);
    }
    return quoted + "\"";
}

}  // namespace

ordered_json make_run_json(const Outcome& outcome, double wall_seconds) {
    const Figures& figures = outcome.figures;
    const bool planned = !outcome.job.plan.empty();
    ordered_json run;
    run["schema"] = "sluice.run/1";
    run["chip"] = chip_json(outcome.job.chip);
    run["workload"] = outcome.job.workload;
    run["mapping"] = outcome.job.notes;
    run["summary"] = summary_json(figures.summary);
    run["operators"] = ordered_json::array();
    for (const OperatorFigures& op : figures.operators) {
        run["operators"].push_back(operator_json(op, planned));
    }
    run["engines"] = ordered_json::array();
    for (const sim::EngineAccount& account : outcome.result.engines) {
        run["engines"].push_back(engine_json(account));
    }
    run["critical_path"] = critical_path_json(outcome.result);
    run["energy"] = {
        {"table", outcome.job.energy.name}, {"components", figures.component_j}, {"static_j", figures.static_j}};
    run["power"] = {{"interval_cycles", figures.power_interval_cycles}, {"watts", figures.watts}};
    run["values"] = outcome.values.summary;
    run["stats"] = stats_json(outcome.result.stats);
    run["simulator"] = simulator_json(outcome.result, wall_seconds);
    run["simulator"]["values_wall_seconds"] = outcome.values.wall_seconds;
    return run;
}

std::string operators_csv(const Figures& figures) {
    std::string csv;
    for (const OperatorFigures& op : figures.operators) {
        const ordered_json row = operator_json(op, !op.kind.empty()).flatten();
        std::vector<std::string> columns;
        std::vector<std::string> cells;
        for (const auto& [pointer, value] : row.items()) {
            columns.push_back(pointer.substr(1));
            std::replace(columns.back().begin(), columns.back().end(), '/', '_');
            cells.push_back(cell(value));
        }
        if (csv.empty()) {
            csv = fmt::format("{}\n", fmt::join(columns, ","));
        }
        csv += fmt::format("{}\n", fmt::join(cells, ","));
    }
    return csv;
}

std::string hbm_commands_csv(const std::vector<sim::HbmCommand>& commands, const isa::HbmSpec& hbm) {
    const auto channels = static_cast<std::uint16_t>(hbm.channels_per_stack);
    std::string csv = "ck,stack,channel,pseudo_channel,command,rank,bank_group,bank,row\n";
    for (const sim::HbmCommand& c : commands) {
        csv += fmt::format("{},{},{},{},{},", c.ck, c.channel / channels, c.channel % channels, c.pseudo_channel,
                           isa::name(c.command));
        const bool of_all = c.command == isa::DramCommand::precharge_all || c.command == isa::DramCommand::refresh_all;
        const bool refresh = c.command == isa::DramCommand::refresh_bank;
        csv += of_all ? ",,," : fmt::format("{},{},{},", c.rank, c.group, c.bank);
        csv += of_all || refresh ? "\n" : fmt::format("{}\n", c.row);
    }
    return csv;
}

}  // namespace sluice::tools
