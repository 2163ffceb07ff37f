// SPDX-License-Identifier: Apache-2.0
#include "tools/flags.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "isa/config_file.hpp"
#include "isa/errors.hpp"

namespace sluice::tools {
namespace {

using isa::Format;

constexpr std::int64_t kMaxSize = 1 << 20;
constexpr std::int64_t kMaxBatch = 65'536;
constexpr std::int64_t kMaxSeed = std::int64_t{1} << 48;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 31;

const std::vector<Format> kOperandFormats = {Format::mxfp4, Format::mxfp6, Format::mxfp8, Format::e4m3, Format::bf16,
                                             // seldom asked for, so named last
                                             Format::mxfp4_e1m2, Format::mxfp6_e3m2, Format::mxfp8_e5m2, Format::e2m3,
                                             Format::e3m2, Format::e5m2, Format::fp16};
const std::vector<Format> kOutputFormats = {Format::bf16,  Format::fp32,  Format::mxfp4,
                                            Format::mxfp6, Format::mxfp8, Format::e4m3};
const std::vector<Format> kCacheFormats = {Format::e4m3, Format::bf16};

using NamedFlags = std::vector<std::pair<const char*, const std::string*>>;

void refuse_given(const NamedFlags& flags, const std::string& why) {
    for (const auto& [flag, value] : flags) {
        if (!value->empty()) {
            throw InputError(flag, fmt::format("found \"{}\"; {}", *value, why));
        }
    }
}

const std::string& required(const std::string& value, const std::string& flag, const std::string& allowed) {
    if (value.empty()) {
        throw InputError(flag, "missing; allowed: " + allowed);
    }
    return value;
}

std::int64_t required_count(const std::string& value, const std::string& flag, std::int64_t highest) {
    return parse_count(required(value, flag, fmt::format("an integer from 1 to {}", highest)), flag, 1, highest);
}

}  // namespace

std::int64_t parse_count(const std::string& text, const std::string& flag, std::int64_t lowest, std::int64_t highest) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < lowest || value > highest) {
        throw InputError(flag, fmt::format("found \"{}\", allowed: an integer from {} to {}", text, lowest, highest));
    }
    return value;
}

Format parse_flag_format(const std::string& text, const std::string& flag, const std::vector<Format>& allowed) {
    std::vector<std::string> known;
    for (const Format format : allowed) {
        const std::string name(isa::name(format));
        const std::string bits = name.starts_with("mx") ? name.substr(2) : "";
        known.push_back(name);
        const bool only_fp8 = std::find(allowed.begin(), allowed.end(), Format::mxfp8) == allowed.end();
        if (text == name || (!bits.empty() && text == bits) || (format == Format::e4m3 && only_fp8 && text == "fp8")) {
            return format;
        }
        if (!bits.empty()) {
            known.push_back(bits);
        } else if (format == Format::e4m3 && only_fp8) {
            known.emplace_back("fp8");
        }
    }
    throw InputError(
        flag, fmt::format("found \"{}\", allowed: {}{}", text, isa::joined(known), isa::did_you_mean(text, known)));
}

CLI::Validator given(const std::string& allowed) {
    return CLI::Validator(
        [allowed](const std::string& text) { return text.empty() ? "found \"\", allowed: " + allowed : ""; }, "");
}

CLI::Validator path_given() {
    return given("a path");
}

void ChipFlags::add_to(CLI::App& command) {
    command.add_option("--chip", chip, "name in configs/chips/, or path of a chip file (default maia200)")
        ->type_name("CHIP")
        ->check(given("a name or a path"))
        ->group("Machine");
    command.add_option("--set", sets, "change one field of the chip, e.g. tsram.bytes=4MiB; may be repeated")
        ->type_name("PATH=VALUE")
        ->allow_extra_args(false)
        ->group("Machine");
}

void WorkloadFlags::add_to(CLI::App& command) {
    command.add_option("what", what_, "\"gemm\", \"attention\", or the path of a .disa program")->type_name("");
    const auto text = [&command](const char* flag, std::string& value, const char* type, const char* group,
                                 const char* help) {
        command.add_option(flag, value, help)->type_name(type)->group(group);
    };
    const char* gemm = "Matrix product C[m x n] = A[m x k] B[n x k]^T";
    text("--m", m_, "N", gemm, "rows of A and C, 1 to 1048576");
    text("--n", n_, "N", gemm, "columns of C");
    text("--k", k_, "N", gemm, "inner size");
    text("--format", format_, "FORMAT", gemm,
         "of A and B: fp4, fp6, fp8 (MX formats), e4m3, bf16; of Q, K and V: fp8 (E4M3), bf16");
    text("--a-format", a_format_, "FORMAT", gemm, "of A alone");
    text("--b-format", b_format_, "FORMAT", gemm, "of B alone");
    text("--out-format", out_format_, "FORMAT", gemm, "of C, of O: bf16 (default), fp32, mxfp4, mxfp6, mxfp8, e4m3");
    const char* attention = "Attention O = softmax(Q K^T / sqrt(head dim)) V (and --tokens, --batch, --format)";
    text("--heads", heads_, "N", attention, "query heads");
    text("--kv-heads", kv_heads_, "N", attention, "heads of K and V, a divisor of them");
    text("--head-dim", head_dim_, "N", attention, "of every head, a multiple of 32");
    text("--past", past_, "N", attention, "cached positions before the tokens, a multiple of 32 (default 0)");
    command.add_flag("--causal", causal_, "a token attends to the past and up to itself, not to all")->group(attention);
    const char* model = "Step of a model";
    text("--model", model_, "MODEL", model, "name in configs/models/, or path of a Hugging Face config.json");
    text("--phase", phase_, "PHASE", model, "prefill or decode");
    text("--batch", batch_, "N", model, "sequences (default 1)");
    text("--tokens", tokens_, "N", model, "prefill, attention: tokens of each sequence");
    text("--context", context_, "N", model, "decode: positions in the KV cache, the new token's included");
    text("--weights", weights_, "FORMAT", model, "matrices and LM head: mxfp4 (default), mxfp6, mxfp8, e4m3, bf16");
    text("--act", act_, "FORMAT", model, "operands of matrix products: fp8 (default; MXFP8), mxfp4, mxfp6, e4m3, bf16");
    text("--scale-rounding", scale_rounding_, "RULE", "Values", "of MX block scales: floor (default), ceil, even");
    text("--kv", kv_, "FORMAT", model, "KV cache: fp8 (default; E4M3), bf16");
    text("--routing", routing_, "SOURCE", model,
         "which experts tokens choose: uniform (default), or zipf:S: the expert of rank r weighs r^-S");
    text("--routing-seed", routing_seed_, "N", model, "of the experts that are drawn (default 1)");
    text("--schedule", schedule_, "SCHEDULE", "Compiling",
         "fused (default): what the next operators need streams while one computes; eager: one launched after the "
         "other");
    chip_.add_to(command);
}

isa::ScaleRounding WorkloadFlags::scale_rounding() const {
    return isa::parse_scale_rounding(scale_rounding_.empty() ? "floor" : scale_rounding_, "--scale-rounding");
}

kernels::Schedule WorkloadFlags::schedule() const {
    for (const kernels::Schedule schedule : {kernels::Schedule::fused, kernels::Schedule::eager}) {
        if (schedule_ == name(schedule)) {
            return schedule;
        }
    }
    if (schedule_.empty()) {
        return kernels::Schedule::fused;
    }
    throw InputError("--schedule", fmt::format("found \"{}\", allowed: fused, eager{}", schedule_,
                                               isa::did_you_mean(schedule_, {"fused", "eager"})));
}

GemmWork WorkloadFlags::gemm() const {
    GemmWork work;
    work.m = required_count(m_, "--m", kMaxSize);
    work.n = required_count(n_, "--n", kMaxSize);
    work.k = required_count(k_, "--k", kMaxSize);
    if (a_format_.empty() || b_format_.empty()) {
        required(format_, "--format", "fp4, fp6, fp8, e4m3, bf16");
    }
    work.a = parse_flag_format(a_format_.empty() ? format_ : a_format_, a_format_.empty() ? "--format" : "--a-format",
                               kOperandFormats);
    work.b = parse_flag_format(b_format_.empty() ? format_ : b_format_, b_format_.empty() ? "--format" : "--b-format",
                               kOperandFormats);
    work.scale_rounding = scale_rounding();
    if (!out_format_.empty()) {
        work.out = parse_flag_format(out_format_, "--out-format", kOutputFormats);
    }
    return work;
}

AttentionWork WorkloadFlags::attention() const {
    AttentionWork work;
    models::AttentionSizes& sizes = work.sizes;
    sizes.heads = required_count(heads_, "--heads", kMaxSize);
    sizes.kv_heads = required_count(kv_heads_, "--kv-heads", kMaxSize);
    sizes.head_dim = required_count(head_dim_, "--head-dim", kMaxSize);
    sizes.tokens = required_count(tokens_, "--tokens", kMaxSize);
    sizes.batch = batch_.empty() ? 1 : parse_count(batch_, "--batch", 1, kMaxBatch);
    sizes.past = past_.empty() ? 0 : parse_count(past_, "--past", 0, kMaxSize);
    sizes.causal = causal_;
    sizes.format = parse_flag_format(required(format_, "--format", "fp8, bf16"), "--format", kCacheFormats);
    if (!out_format_.empty()) {
        sizes.out = parse_flag_format(out_format_, "--out-format", kOutputFormats);
    }
    return work;
}

ModelWork WorkloadFlags::model() const {
    ModelWork work;
    work.model = model_;
    models::Workload& step = work.workload;
    const std::string& phase = required(phase_, "--phase", "prefill, decode");
    if (phase != "prefill" && phase != "decode") {
        throw InputError("--phase", fmt::format("found \"{}\", allowed: prefill, decode", phase));
    }
    step.batch = batch_.empty() ? 1 : parse_count(batch_, "--batch", 1, kMaxBatch);
    if (phase == "prefill") {
        refuse_given({{"--context", &context_}}, "in prefill nothing is cached before: --tokens gives the length");
        step.phase = models::Phase::prefill;
        step.tokens = required_count(tokens_, "--tokens", kMaxPositions);
        step.context = step.tokens;
    } else {
        refuse_given({{"--tokens", &tokens_}}, "decode makes one token for each sequence: --context gives the length");
        step.phase = models::Phase::decode;
        step.context = required_count(context_, "--context", kMaxPositions);
    }
    step.weights = parse_flag_format(weights_.empty() ? "mxfp4" : weights_, "--weights", kOperandFormats);
    step.activations = parse_flag_format(act_.empty() ? "fp8" : act_, "--act", kOperandFormats);
    step.scale_rounding = scale_rounding();
    work.routing_given = !routing_.empty() || !routing_seed_.empty();
    step.routing = models::parse_routing(routing_.empty() ? "uniform" : routing_, "--routing");
    step.routing.seed = routing_seed_.empty()
                            ? 1
                            : static_cast<std::uint64_t>(parse_count(routing_seed_, "--routing-seed", 1, kMaxSeed));
    step.kv = parse_flag_format(kv_.empty() ? "fp8" : kv_, "--kv", kCacheFormats);
    return work;
}

Request WorkloadFlags::request() const {
    // Flags of a kind of work are refused with every other one.
    const NamedFlags of_product = {
        {"--m", &m_}, {"--n", &n_}, {"--k", &k_}, {"--a-format", &a_format_}, {"--b-format", &b_format_}};
    const NamedFlags of_bare = {{"--format", &format_}, {"--out-format", &out_format_}};
    const std::string causal = causal_ ? "given" : "";
    const NamedFlags of_attention = {{"--heads", &heads_},
                                     {"--kv-heads", &kv_heads_},
                                     {"--head-dim", &head_dim_},
                                     {"--past", &past_},
                                     {"--causal", &causal}};
    const NamedFlags of_sequences = {{"--batch", &batch_}, {"--tokens", &tokens_}};
    const NamedFlags of_model = {
        {"--model", &model_}, {"--phase", &phase_}, {"--context", &context_}, {"--weights", &weights_},
        {"--act", &act_},     {"--kv", &kv_},       {"--routing", &routing_}, {"--routing-seed", &routing_seed_}};
    const NamedFlags rounding = {{"--scale-rounding", &scale_rounding_}};
    const auto refuse_all = [](const std::vector<NamedFlags>& groups, const std::string& why) {
        for (const NamedFlags& group : groups) {
            refuse_given(group, why);
        }
    };
    Request request;
    request.chip = chip_.chip;
    request.sets = chip_.sets;
    request.schedule = schedule();
    if (!model_.empty()) {
        refuse_given({{"argument", &what_}}, "--model says what to run");
        refuse_all({of_product, of_bare}, "goes with gemm, not with --model");
        refuse_given(of_attention, "goes with attention, not with --model");
        request.work = model();
    } else if (what_ == "gemm") {
        refuse_given(of_attention, "goes with attention, not with gemm");
        refuse_all({of_sequences, of_model}, "goes with --model, not with gemm");
        request.work = gemm();
    } else if (what_ == "attention") {
        refuse_given(of_product, "goes with gemm, not with attention");
        refuse_given(of_model, "goes with --model, not with attention");
        request.work = attention();
    } else if (what_.ends_with(".disa")) {
        refuse_all({of_product, of_bare}, "goes with gemm, not with a program");
        refuse_given(of_attention, "goes with attention, not with a program");
        refuse_all({of_sequences, of_model}, "goes with --model, not with a program");
        refuse_given(rounding, "a program names the rule in its vector programs");
        refuse_given({{"--schedule", &schedule_}}, "a program is scheduled already");
        request.work = ProgramWork{what_};
    } else {
        throw InputError("argument",
                         fmt::format("{}, allowed: gemm, attention, the path of a .disa program, or --model MODEL{}",
                                     what_.empty() ? "missing" : "found \"" + what_ + "\"",
                                     isa::did_you_mean(what_, {"gemm", "attention"})));
    }
    return request;
}

}  // namespace sluice::tools
