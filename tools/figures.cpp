// SPDX-License-Identifier: Apache-2.0
#include "tools/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "isa/errors.hpp"

namespace sluice::tools {
namespace {

using isa::TensorRate;

constexpr double kTera = 1e12;
/// Bounds are sums of doubles; cycles are whole.
constexpr double kRoundingSlack = 1 + 1e-9;

/// Joules of one event of each kind on this chip.
std::array<double, sim::kEnergyEventCount> joules_per_event(const isa::EnergyTable& table, const isa::ChipSpec& chip) {
    std::array<double, sim::kEnergyEventCount> joules{};
    for (const sim::EnergyEventInfo& info : sim::energy_events()) {
        joules[static_cast<std::size_t>(info.event)] = isa::event_picojoules(table, info.name, chip) * 1e-12;
    }
    return joules;
}

double joules(const sim::EnergyCounts& counts, const std::array<double, sim::kEnergyEventCount>& per_event) {
    double sum = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        sum += static_cast<double>(counts[i]) * per_event[i];
    }
    return sum;
}

/// "qkv" of "layers.3.qkv"; other names are their own.
std::string without_layer(const std::string& name) {
    constexpr std::string_view kPrefix = "layers.";
    if (!name.starts_with(kPrefix)) {
        return name;
    }
    const std::size_t end = name.find('.', kPrefix.size());
    return end == std::string::npos ? name : name.substr(end + 1);
}

std::string without_number(std::string name) {
    while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0) {
        name.pop_back();
    }
    return name;
}

/// "ttu" of "chip.cluster0.tile3.ttu0", "tdma" of "chip.cluster0.tile3.tdma.ch0".
std::string engine_kind(const std::string& path) {
    const std::size_t last = path.rfind('.');
    const std::string kind = without_number(path.substr(last + 1));
    return kind == "ch" && last != std::string::npos ? engine_kind(path.substr(0, last)) : kind;
}

Bytes hbm_bytes(const sim::NodeAccount& account) {
    return account.hbm_read + account.hbm_written;
}

/// What is fetched ahead is work of the operator, so its time begins with it.
Cycle began(const sim::NodeAccount& account) {
    return std::min(account.first_fetch, account.start);
}

/// Length of the union of half-open spans.
Cycle covered(std::vector<std::pair<Cycle, Cycle>> spans) {
    std::sort(spans.begin(), spans.end());
    Cycle sum = 0;
    Cycle reached = 0;
    for (const auto& [start, end] : spans) {
        const Cycle from = std::max(start, reached);
        if (end > from) {
            sum += end - from;
            reached = end;
        }
    }
    return sum;
}

class FiguresMaker {
public:
    FiguresMaker(const isa::ChipSpec& chip, const isa::EnergyTable& energy, const sim::RunResult& result)
        : chip_(chip), energy_(energy), result_(result), joules_per_event_(joules_per_event(energy, chip)) {
        for (const auto& [row, watts] : isa::static_watts(energy_, chip_)) {
            static_watts_ += watts;
        }
    }

    Figures make(const isa::Program& program, const std::vector<kernels::PlanNode>& plan, double tokens) {
        add_operators(program, plan);
        add_groups();
        add_engines();
        add_energy();
        add_power();
        summarize(plan, tokens);
        check();
        return std::move(figures_);
    }

private:
    [[nodiscard]] double seconds(Cycle cycles) const { return isa::seconds(chip_, cycles); }

    void add_operators(const isa::Program& program, const std::vector<kernels::PlanNode>& plan) {
        const std::vector<std::string> names = isa::node_names(program);
        const std::size_t count = std::max({names.size(), plan.size(), result_.nodes.size()});
        for (std::size_t id = 0; id < count; ++id) {
            OperatorFigures op;
            if (id < result_.nodes.size()) {
                op.account = result_.nodes[id];
            }
            op.cycles = op.account.end - began(op.account);
            op.name = id < names.size() ? names[id] : fmt::format("node {}", id);
            if (id < plan.size()) {
                add_plan(op, plan[id]);
            }
            op.group = without_layer(op.name);
            op.energy_j = joules(op.account.energy, joules_per_event_);
            figures_.operators.push_back(std::move(op));
        }
    }

    void add_plan(OperatorFigures& op, const kernels::PlanNode& node) const {
        op.name = node.name;
        op.kind = node.kind;
        op.format = node.format;
        op.flops = node.flops;
        op.tensor_flops = node.tensor_flops;
        op.hbm_compulsory_bytes = node.hbm_bytes;
        op.bounds = {node.ttu_cycles, node.tvp_cycles, node.hbm_cycles};
        if (op.cycles > 0) {
            op.tflops = op.flops / seconds(op.cycles) / kTera;
        }
        if (node.hbm_bytes > 0) {
            op.intensity = node.flops / node.hbm_bytes;
        }
        if (op.bounds.longest() > 0) {
            op.roof_tflops = node.flops * static_cast<double>(chip_.clock.core_hz) / op.bounds.longest() / kTera;
        }
    }

    void add_groups() {
        std::map<std::string, std::size_t> position;
        std::vector<std::vector<std::pair<Cycle, Cycle>>> spans;
        for (const OperatorFigures& op : figures_.operators) {
            if (op.account.instructions == 0) {
                continue;
            }
            const auto [found, is_new] = position.emplace(op.group, figures_.groups.size());
            if (is_new) {
                figures_.groups.push_back({});
                figures_.groups.back().name = op.group;
                spans.emplace_back();
            }
            GroupFigures& group = figures_.groups[found->second];
            ++group.count;
            group.flops += op.flops;
            group.hbm_bytes += static_cast<double>(hbm_bytes(op.account));
            group.energy_j += op.energy_j;
            group.bounds += op.bounds;
            spans[found->second].emplace_back(began(op.account), op.account.end);
        }
        for (std::size_t i = 0; i < figures_.groups.size(); ++i) {
            GroupFigures& group = figures_.groups[i];
            group.cycles = covered(std::move(spans[i]));
            group.tflops = group.cycles > 0 ? group.flops / seconds(group.cycles) / kTera : 0;
            group.hbm_tbps = group.cycles > 0 ? group.hbm_bytes / seconds(group.cycles) / kTera : 0;
        }
    }

    void add_engines() {
        std::map<std::string, std::size_t> position;
        for (const sim::EngineAccount& account : result_.engines) {
            Cycle sum = account.busy + account.idle;
            for (const Cycle cycles : account.waiting) {
                sum += cycles;
            }
            SLUICE_CHECK(sum == account.total && account.total == result_.cycles,
                         fmt::format("{}: {} cycles accounted for, {} in its total, {} in the run", account.path, sum,
                                     account.total, result_.cycles));
            const std::string kind = engine_kind(account.path);
            const auto [found, is_new] = position.emplace(kind, figures_.engines.size());
            if (is_new) {
                figures_.engines.push_back({});
                figures_.engines.back().kind = kind;
            }
            EngineFigures& engine = figures_.engines[found->second];
            ++engine.lanes;
            engine.busy += account.busy;
            engine.idle += account.idle;
            engine.total += account.total;
            for (std::size_t i = 0; i < account.waiting.size(); ++i) {
                engine.waiting[i] += account.waiting[i];
            }
        }
    }

    void add_energy() {
        for (const sim::EnergyEventInfo& info : sim::energy_events()) {
            const auto i = static_cast<std::size_t>(info.event);
            figures_.component_j[std::string(info.component)] +=
                static_cast<double>(result_.energy[i]) * joules_per_event_[i];
        }
        figures_.static_j = static_watts_ * result_.seconds;
    }

    void add_power() {
        figures_.power_interval_cycles = result_.power_interval_cycles;
        const Cycle interval = result_.power_interval_cycles;
        if (interval == 0 || result_.cycles == 0) {
            return;
        }
        // What was booked beyond the last cycle (a refresh under way) belongs to the last interval.
        std::vector<double> energy(ceil_div(result_.cycles, interval), 0.0);
        for (std::size_t i = 0; i < result_.intervals.size(); ++i) {
            energy[std::min(i, energy.size() - 1)] += joules(result_.intervals[i], joules_per_event_);
        }
        for (std::size_t i = 0; i < energy.size(); ++i) {
            const Cycle length = std::min<Cycle>(interval, result_.cycles - i * interval);
            figures_.watts.push_back(energy[i] / seconds(length) + static_watts_);
        }
        // A short last interval says little about power.
        const auto end = figures_.watts.size() > 1 && result_.cycles % interval != 0 ? figures_.watts.end() - 1
                                                                                     : figures_.watts.end();
        figures_.summary.peak_power_w = *std::max_element(figures_.watts.begin(), end);
    }

    void summarize(const std::vector<kernels::PlanNode>& plan, double tokens) {
        Summary& summary = figures_.summary;
        summary.cycles = result_.cycles;
        summary.seconds = result_.seconds;
        summary.hbm_bytes = static_cast<double>(result_.hbm_read + result_.hbm_written);
        summary.hbm_peak_tbps = isa::hbm_bytes_per_second(chip_) / kTera;
        summary.tdp_w = static_cast<double>(chip_.power.tdp_milliwatts) / 1000;
        summary.energy_j = figures_.static_j;
        for (const auto& [component, energy] : figures_.component_j) {
            summary.energy_j += energy;
        }
        if (result_.cycles == 0) {
            return;
        }
        summary.hbm_tbps = summary.hbm_bytes / result_.seconds / kTera;
        summary.hbm_utilization = summary.hbm_tbps / summary.hbm_peak_tbps;
        summary.mean_power_w = summary.energy_j / result_.seconds;
        if (tokens > 0) {
            summary.tokens_per_second = tokens / result_.seconds;
            summary.joules_per_token = summary.energy_j / tokens;
        }
        if (!plan.empty()) {
            summarize_plan(plan);
        }
    }

    void summarize_plan(const std::vector<kernels::PlanNode>& plan) {
        Summary& summary = figures_.summary;
        std::map<TensorRate, double> flops_by_rate;
        double flops = 0;
        double seconds_at_peak = 0;
        for (const kernels::PlanNode& node : plan) {
            flops += node.flops;
            summary.bounds += {node.ttu_cycles, node.tvp_cycles, node.hbm_cycles};
            if (node.rate != TensorRate::none) {
                flops_by_rate[node.rate] += node.tensor_flops;
                seconds_at_peak += node.tensor_flops / isa::peak_flops(chip_, node.rate);
            }
        }
        summary.flops = flops;
        summary.tflops = flops / result_.seconds / kTera;
        summary.utilization = seconds_at_peak / result_.seconds;
        summary.bound_fraction = summary.bounds.longest() / static_cast<double>(result_.cycles);
        const auto most = std::max_element(flops_by_rate.begin(), flops_by_rate.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        if (most != flops_by_rate.end()) {
            summary.peak_rate = isa::name(most->first);
            summary.peak_tflops = isa::peak_flops(chip_, most->first) / kTera;
        }
    }

    void check() const {
        const Summary& summary = figures_.summary;
        const auto cycles = static_cast<double>(summary.cycles);
        SLUICE_CHECK(summary.hbm_utilization <= kRoundingSlack,
                     fmt::format("chip.hbm: {} TB/s of {} at cycle {}", summary.hbm_tbps, summary.hbm_peak_tbps,
                                 summary.cycles));
        SLUICE_CHECK(summary.utilization.value_or(0) <= kRoundingSlack,
                     fmt::format("chip.ttu: utilization {} at cycle {}", *summary.utilization, summary.cycles));
        double compulsory = 0;
        for (const OperatorFigures& op : figures_.operators) {
            compulsory += op.hbm_compulsory_bytes;
        }
        SLUICE_CHECK(compulsory <= summary.hbm_bytes * kRoundingSlack,
                     fmt::format("chip.hbm: {:.0f} B moved, fewer than the {:.0f} B that the work must move",
                                 summary.hbm_bytes, compulsory));
        for (const auto& [part, bound] : {std::pair{"ttu", summary.bounds.ttu_cycles},
                                          {"tvp", summary.bounds.tvp_cycles},
                                          {"hbm", summary.bounds.hbm_cycles}}) {
            SLUICE_CHECK(bound <= cycles * kRoundingSlack,
                         fmt::format("chip.{}: {} cycles, fewer than the {:.0f} of its lower bound", part,
                                     summary.cycles, bound));
        }
        for (const OperatorFigures& op : figures_.operators) {
            SLUICE_CHECK(
                op.bounds.longest() <= static_cast<double>(op.cycles) * kRoundingSlack,
                fmt::format("operator {}: cycles {} to {} are fewer than the {:.0f} of its bound ({})", op.name,
                            began(op.account), op.account.end, op.bounds.longest(), op.bounds.binding()));
        }
        for (const GroupFigures& group : figures_.groups) {
            SLUICE_CHECK(group.bounds.longest() <= static_cast<double>(group.cycles) * kRoundingSlack,
                         fmt::format("operators {}: {} cycles are fewer than the {:.0f} of their bound ({})",
                                     group.name, group.cycles, group.bounds.longest(), group.bounds.binding()));
        }
        Cycle path = 0;
        for (const sim::CriticalSegment& segment : result_.critical_path) {
            path += segment.cycles;
        }
        SLUICE_CHECK(path == result_.cycles,
                     fmt::format("the critical path has {} cycles, the run {}", path, result_.cycles));
    }

    const isa::ChipSpec& chip_;
    const isa::EnergyTable& energy_;
    const sim::RunResult& result_;
    std::array<double, sim::kEnergyEventCount> joules_per_event_;
    double static_watts_ = 0;
    Figures figures_;
};

}  // namespace

double LowerBounds::longest() const {
    return std::max({ttu_cycles, tvp_cycles, hbm_cycles});
}

const char* LowerBounds::binding() const {
    if (longest() <= 0) {
        return "none";
    }
    if (hbm_cycles == longest()) {
        return "hbm";
    }
    return ttu_cycles == longest() ? "ttu" : "tvp";
}

LowerBounds& LowerBounds::operator+=(const LowerBounds& other) {
    ttu_cycles += other.ttu_cycles;
    tvp_cycles += other.tvp_cycles;
    hbm_cycles += other.hbm_cycles;
    return *this;
}

Figures make_figures(const isa::ChipSpec& chip, const isa::EnergyTable& energy, const isa::Program& program,
                     const std::vector<kernels::PlanNode>& plan, double tokens, const sim::RunResult& result) {
    return FiguresMaker(chip, energy, result).make(program, plan, tokens);
}

}  // namespace sluice::tools
