// SPDX-License-Identifier: Apache-2.0
// Are the checks any good? Every program of the library is given every single fault of a kind (a wait gone, a signal
// gone, an address one burst off), and something must notice: the verifier, a deadlock, an error of the run, a wrong
// or unwritten result, the race check, or a semaphore that does not return to its first value.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <iostream>
#include <map>
#include <set>

#include "isa/errors.hpp"
#include "isa/execute/race_check.hpp"
#include "isa/text.hpp"
#include "models/bare_operators.hpp"
#include "tests/kernels/executed.hpp"
#include "tests/kernels/mutants.hpp"

namespace sluice::test {
namespace {

using isa::Format;

/// Every mutant is tried if SLUICE_FULL is set, else about fifty, of which one may be among the few that change
/// nothing.
bool tries_all() {
    return std::getenv("SLUICE_FULL") != nullptr;
}
std::size_t stride(std::size_t sites) {
    constexpr std::size_t kSample = 50;
    return tries_all() ? 1 : std::max<std::size_t>(1, sites / kSample);
}

struct Subject {
    models::Graph graph;
    isa::ChipSpec chip;
    kernels::Compiled compiled;
    models::Values inputs, outputs;
    std::string text;

    Subject(models::Graph work, isa::ChipSpec spec, kernels::Schedule schedule = kernels::Schedule::fused)
        : graph(std::move(work)),
          chip(std::move(spec)),
          compiled(kernels::compile(graph, chip, schedule)),
          inputs(models::random_inputs(graph, 5)),
          outputs(run_values(graph, chip, inputs, compiled)),
          text(isa::write_text(compiled.program)) {}
};

/// What noticed a faulty program first; "" if nothing did.
std::string noticed_by(const Subject& subject, isa::Program& program) {
    try {
        isa::verify(program, subject.chip);
    } catch (const InputError&) {
        return "verifier";
    }
    isa::Memories memories(subject.chip);
    kernels::write_inputs(subject.compiled.placement, subject.graph, subject.inputs, memories.hbm(), program);
    isa::MachineOptions options;
    options.record_trace = true;
    options.max_instructions = 1'000'000;
    isa::Machine machine(program, subject.chip, memories, options);
    try {
        machine.run();
    } catch (const DeadlockError&) {
        return "deadlock";
    } catch (const InputError&) {
        return "error of the run";
    }
    try {
        if (kernels::read_outputs(subject.compiled.placement, subject.graph, memories.hbm()) != subject.outputs) {
            return "wrong result";
        }
    } catch (const InputError&) {
        return "unwritten result";
    }
    if (!isa::check_races(program, subject.chip, machine.trace()).races.empty()) {
        return "race check";
    }
    return machine.unbalanced().empty() ? "" : "balance";
}

/// Numbers of the sites whose instruction is executed; a fault elsewhere changes nothing.
std::vector<std::size_t> executed_sites(const Subject& subject, std::size_t& sites) {
    isa::Program program = isa::read_text(subject.text, "subject");
    isa::Memories memories(subject.chip);
    kernels::write_inputs(subject.compiled.placement, subject.graph, subject.inputs, memories.hbm(), program);
    isa::MachineOptions options;
    options.record_trace = true;
    isa::Machine machine(program, subject.chip, memories, options);
    machine.run();
    std::set<const isa::Instruction*> executed{nullptr};
    for (const isa::TracedInstruction& each : machine.trace().instructions) {
        executed.insert(each.operation.text);
    }
    std::vector<std::size_t> out;
    sites = 0;
    for_fault_sites(program, [&](const FaultSites::Site& site, const std::function<void()>&) {
        if (executed.contains(site.instruction)) {
            out.push_back(sites);
        }
        ++sites;
    });
    return out;
}

void check_mutants(const std::string& what, const Subject& subject) {
    std::size_t all = 0;
    const std::vector<std::size_t> sites = executed_sites(subject, all);
    std::map<std::string, std::size_t> counts;
    std::size_t made = 0;
    std::vector<std::string> missed;
    for (std::size_t i = 0; i < sites.size(); i += stride(sites.size())) {
        isa::Program mutant = isa::read_text(subject.text, what);
        std::size_t number = 0;
        std::string description;
        for_fault_sites(mutant, [&](const FaultSites::Site& site, const std::function<void()>& apply) {
            if (number++ == sites[i]) {
                description = site.description;
                apply();
            }
        });
        ++made;
        const std::string noticer = noticed_by(subject, mutant);
        ++counts[noticer];
        if (noticer.empty()) {
            missed.push_back(description);
        }
    }
    std::cout << what << ": " << made << " mutants at " << sites.size() << " places that are executed, of " << all
              << ":";
    for (const auto& [noticer, count] : counts) {
        std::cout << " " << (noticer.empty() ? "unnoticed" : noticer) << " " << count << ";";
    }
    std::cout << "\n";
    for (const std::string& each : missed) {
        std::cout << "  unnoticed: " << each << "\n";
    }
    CHECK(made >= 20);
    CHECK(static_cast<double>(missed.size()) <= (tries_all() ? 0.01 * static_cast<double>(made) : 1.0));
}

TEST_CASE("faults in a product are noticed") {
    check_mutants("gemm",
                  Subject(models::build_gemm(100, 70, 200, Format::mxfp8, Format::mxfp4, Format::bf16), chip("toy")));
}

TEST_CASE("faults in a decode step are noticed") {
    check_mutants("decode", Subject(models::build_graph(small_model(2), decode(3, 300)), chip("toy")));
}

TEST_CASE("faults in a decode step of several row blocks are noticed") {
    check_mutants("decode, 60 sequences", Subject(models::build_graph(small_model(1), decode(60, 100)), chip("toy")));
}

TEST_CASE("faults in a decode step of experts are noticed") {
    DenseModel model = small_model(1);
    model.hidden = model.ffn = model.vocab = 64;
    model.experts = 8;
    model.chosen = 2;
    check_mutants("decode of experts", Subject(models::build_graph(model, decode(5, 40)), chip("toy")));
}

TEST_CASE("faults in a bare attention are noticed") {
    models::AttentionSizes sizes;
    sizes.heads = 4;
    sizes.kv_heads = 2;
    sizes.tokens = 150;
    sizes.causal = true;
    check_mutants("attention", Subject(models::build_attention(sizes), chip("toy")));
}

TEST_CASE("faults in an eager decode step are noticed") {
    check_mutants("eager decode",
                  Subject(models::build_graph(small_model(2), decode(3, 300)), chip("toy"), kernels::Schedule::eager));
}

TEST_CASE("faults in a prefill are noticed") {
    check_mutants("prefill", Subject(models::build_graph(small_model(2), prefill(2, 120)), chip("toy")));
}

}  // namespace
}  // namespace sluice::test
