// SPDX-License-Identifier: Apache-2.0
#include "tools/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "isa/config_file.hpp"
#include "isa/errors.hpp"
#include "isa/text.hpp"
#include "isa/verifier.hpp"
#include "models/bare_operators.hpp"
#include "models/decoder_graph.hpp"
#include "tools/model_summary.hpp"
#include "tools/program_file.hpp"
#include "tools/run_json.hpp"
#include "tools/values.hpp"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// A name that is fit for a folder.
std::string folder_name(const std::string& text) {
    const std::string name = file_name(text);
    return name.empty() || name[0] == '.' ? "run" + name : name;
}

bool has_experts(const models::ModelConfig& config) {
    return std::any_of(config.layers.begin(), config.layers.end(), [](const models::LayerConfig& layer) {
        return std::holds_alternative<models::ExpertsConfig>(layer.feed_forward);
    });
}

void take(Prepared& job, const models::Graph& graph, kernels::Compiled compiled) {
    job.program = std::move(compiled.program);
    job.plan = std::move(compiled.nodes);
    job.notes = std::move(compiled.notes);
    job.placement = std::move(compiled.placement);
    job.graph = graph;
}

/// Fills everything but chip and energy table, which the job has already.
class WorkReader {
public:
    WorkReader(Prepared& job, const Request& request) : job_(job), request_(request) {}

    void operator()(const GemmWork& work) {
        read_chip(kDefaultChip);
        models::Graph graph = models::build_gemm(work.m, work.n, work.k, work.a, work.b, work.out);
        graph.workload.scale_rounding = work.scale_rounding;
        job_.name = graph.name;
        job_.workload = {{"kind", "gemm"},
                         {"name", job_.name},
                         {"m", work.m},
                         {"n", work.n},
                         {"k", work.k},
                         {"a_format", name(work.a)},
                         {"b_format", name(work.b)},
                         {"out_format", name(work.out)}};
        compile(graph);
    }

    void operator()(const AttentionWork& work) {
        read_chip(kDefaultChip);
        const models::AttentionSizes& sizes = work.sizes;
        const models::Graph graph = models::build_attention(sizes);
        job_.name = graph.name;
        job_.workload = {{"kind", "attention"},          {"name", job_.name},
                         {"heads", sizes.heads},         {"kv_heads", sizes.kv_heads},
                         {"head_dim", sizes.head_dim},   {"tokens", sizes.tokens},
                         {"batch", sizes.batch},         {"past", sizes.past},
                         {"causal", sizes.causal},       {"format", name(sizes.format)},
                         {"out_format", name(sizes.out)}};
        compile(graph);
    }

    void operator()(const ModelWork& work) {
        read_chip(kDefaultChip);
        job_.inputs.push_back({"model", isa::find_config(isa::configs_directory(), "models", work.model)});
        const models::ModelConfig config = read_model(work.model).config;
        const models::Workload& step = work.workload;
        const bool experts = has_experts(config);
        if (work.routing_given && !experts) {
            throw InputError("--routing", fmt::format("{} has no experts", config.name));
        }
        const models::Graph graph = models::build_graph(config, step);
        const bool decode = step.phase == models::Phase::decode;
        job_.tokens = static_cast<double>(step.batch) * static_cast<double>(decode ? 1 : step.tokens);
        job_.name = folder_name(fmt::format("{}-{}-b{}-{}{}", config.name, decode ? "decode" : "prefill", step.batch,
                                            decode ? 'c' : 't', step.context));
        job_.workload = {{"kind", "model"},
                         {"name", job_.name},
                         {"model", config.name},
                         {"phase", decode ? "decode" : "prefill"},
                         {"batch", step.batch},
                         {"tokens", step.tokens},
                         {"context", step.context},
                         {"weights_format", name(step.weights)},
                         {"act_format", name(step.activations)},
                         {"kv_format", name(step.kv)},
                         {"parameters", models::parameter_count(config)}};
        if (experts) {
            job_.workload["routing"] = name(step.routing);
            job_.workload["routing_seed"] = step.routing.seed;
        }
        compile(graph);
    }

    void operator()(const ProgramWork& work) {
        job_.inputs.push_back({"program", work.file});
        job_.program = isa::read_text(read_program_text(work.file), work.file);
        read_chip(job_.program.chip.empty() ? kDefaultChip : job_.program.chip);
        job_.name = folder_name(fs::path(work.file).stem().string());
        job_.workload = {{"kind", "program"}, {"name", job_.name}, {"program", job_.program.name}};
        place_regions(job_);
    }

private:
    void compile(const models::Graph& graph) {
        job_.workload["schedule"] = name(request_.schedule);
        take(job_, graph, kernels::compile(graph, job_.chip.spec, request_.schedule));
    }
    void read_chip(const std::string& otherwise) {
        const std::string& chip = request_.chip.empty() ? otherwise : request_.chip;
        job_.chip = isa::read_chip(chip, request_.sets);
        job_.inputs.push_back({"chip", isa::find_config(isa::configs_directory(), "chips", chip)});
        job_.energy = isa::read_energy_table(job_.chip.spec.power.energy_table);
    }

    Prepared& job_;
    const Request& request_;
};

}  // namespace

Prepared prepare(const Request& request) {
    Prepared job;
    std::visit(WorkReader(job, request), request.work);
    try {
        isa::verify(job.program, job.chip.spec);
    } catch (const InputError& error) {
        if (job.plan.empty()) {
            throw;  // the user's own program
        }
        throw InvariantError(fmt::format("{}: the compiled program does not verify: {}", job.name, error.what()));
    }
    return job;
}

Outcome simulate(Prepared job, const sim::RunOptions& options, ValueOutcome values) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    Outcome outcome;
    outcome.result = sim::run(job.chip.spec, job.program, options);
    const double wall_seconds = std::chrono::duration<double>(Clock::now() - start).count();
    outcome.figures = make_figures(job.chip.spec, job.energy, job.program, job.plan, job.tokens, outcome.result);
    outcome.job = std::move(job);
    outcome.values = std::move(values);
    outcome.run = make_run_json(outcome, wall_seconds);
    return outcome;
}

Outcome simulate(const Request& request, const sim::RunOptions& options) {
    return simulate(prepare(request), options);
}

}  // namespace sluice::tools
