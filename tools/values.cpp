// SPDX-License-Identifier: Apache-2.0
#include "tools/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>

#include "isa/errors.hpp"
#include "isa/execute/machine.hpp"
#include "isa/execute/race_check.hpp"
#include "isa/number/import_forms.hpp"
#include "tools/npy.hpp"
#include "tools/simulate.hpp"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;
using models::Matrix;
using models::Tensor;
using models::TensorRole;

/// More values than this do not fit a common machine: the run is for small models.
constexpr std::int64_t kMostElements = std::int64_t{1} << 30;
constexpr std::size_t kMostRaces = 10;
/// Instructions that a check of the order keeps of a run; some 300 bytes each.
constexpr std::uint64_t kMostTraced = 4'000'000;

std::optional<std::uint64_t> as_seed(const std::string& text) {
    std::uint64_t seed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(seed) : std::nullopt;
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

std::vector<std::uint8_t> as_bytes(const Array& array, const std::string& where) {
    if (array.type != "u1") {
        throw InputError(where, fmt::format("holds elements of type {}, allowed: u1", array.type));
    }
    std::vector<std::uint8_t> out(array.data.size());
    std::transform(array.data.begin(), array.data.end(), out.begin(),
                   [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
    return out;
}

/// Reads tensors out of a folder: NAME.npy, or a weight in the form in which others store it.
class InputFolder {
public:
    /// Token ids are below `vocabulary`.
    explicit InputFolder(fs::path folder, std::int64_t vocabulary = 1)
        : folder_(std::move(folder)), vocabulary_(vocabulary) {
        std::error_code error;
        if (!fs::is_directory(folder_, error)) {
            throw InputError("--inputs",
                             fmt::format("{} is no folder, allowed: a seed (a whole number), or a folder of "
                                         ".npy files",
                                         folder_.string()));
        }
    }

    [[nodiscard]] Matrix matrix(const Tensor& tensor) const {
        const std::string stem = file_name(tensor.name);
        const fs::path plain = folder_ / (stem + ".npy");
        std::vector<float> values;
        if (has(stem + ".npy")) {
            const Array array = read_npy(plain);
            check_shape(array, tensor, plain);
            values = tensor.role == TensorRole::token_ids ? tokens(array, plain) : as_floats(array, plain.string());
        } else if (has(stem + ".blocks.npy")) {
            const std::int64_t groups = tensor.cols / 32;
            values = isa::decode_gpt_oss(bytes(stem + ".blocks.npy", {tensor.rows, groups, 16}),
                                         bytes(stem + ".scales.npy", {tensor.rows, groups}));
        } else if (has(stem + ".packed.npy")) {
            const fs::path scale = folder_ / (stem + ".tensor_scale.npy");
            const std::vector<float> tensor_scale = as_floats(read_npy(scale), scale.string());
            if (tensor_scale.size() != 1) {
                throw InputError(scale.string(), fmt::format("holds {} values, allowed: one", tensor_scale.size()));
            }
            values = isa::decode_nvfp4(bytes(stem + ".packed.npy", {tensor.rows, tensor.cols / 2}),
                                       bytes(stem + ".scales.npy", {tensor.rows, tensor.cols / 16}), tensor_scale[0]);
        } else {
            throw InputError("--inputs", fmt::format("{} does not exist: it would hold {} ({} x {})", plain.string(),
                                                     tensor.name, tensor.rows, tensor.cols));
        }
        if (static_cast<std::int64_t>(values.size()) != tensor.rows * tensor.cols) {
            throw InputError(plain.string(),
                             fmt::format("has {} values, allowed: {} x {}", values.size(), tensor.rows, tensor.cols));
        }
        Matrix out(tensor.rows, tensor.cols);
        out.values = std::move(values);
        return out;
    }

    /// A region that says nothing of what it holds: its bytes.
    [[nodiscard]] std::vector<std::byte> region(const isa::Region& region) const {
        const fs::path file = folder_ / (file_name(region.name) + ".npy");
        const Array array = read_npy(file);
        static_cast<void>(as_bytes(array, file.string()));
        if (array.data.size() != region.bytes) {
            throw InputError(file.string(), fmt::format("has {} bytes, region \"{}\" has {}", array.data.size(),
                                                        region.name, region.bytes));
        }
        return array.data;
    }

private:
    [[nodiscard]] bool has(const std::string& name) const {
        std::error_code error;
        return fs::exists(folder_ / name, error);
    }
    [[nodiscard]] std::vector<std::uint8_t> bytes(const std::string& name,
                                                  const std::vector<std::int64_t>& shape) const {
        const std::string where = (folder_ / name).string();
        const Array array = read_npy(folder_ / name);
        if (array.shape != shape) {
            throw InputError(where, fmt::format("has shape ({}), allowed: ({})", fmt::join(array.shape, ", "),
                                                fmt::join(shape, ", ")));
        }
        return as_bytes(array, where);
    }
    [[nodiscard]] std::vector<float> tokens(const Array& array, const fs::path& file) const {
        std::vector<float> out;
        for (const std::int64_t token : as_integers(array, file.string())) {
            if (token < 0 || token >= vocabulary_) {
                throw InputError(file.string(), fmt::format("found {} as element {}, allowed: tokens 0 to {}", token,
                                                            out.size(), vocabulary_ - 1));
            }
            out.push_back(static_cast<float>(token));
        }
        return out;
    }
    /// rows x cols, or for a single row or column the one dimension.
    static void check_shape(const Array& array, const Tensor& tensor, const fs::path& file) {
        const std::vector<std::int64_t> wanted{tensor.rows, tensor.cols};
        const bool flat = array.shape.size() == 1 && (tensor.rows == 1 || tensor.cols == 1) &&
                          array.shape[0] == tensor.rows * tensor.cols;
        if (array.shape != wanted && !flat) {
            throw InputError(file.string(), fmt::format("has shape ({}), allowed: ({}, {})",
                                                        fmt::join(array.shape, ", "), tensor.rows, tensor.cols));
        }
    }

    fs::path folder_;
    std::int64_t vocabulary_;
};

void check_size(const models::Graph& graph) {
    std::int64_t elements = 0;
    std::vector<models::TensorIndex> all = models::inputs_of(graph);
    const std::vector<models::TensorIndex> outputs = models::outputs_of(graph);
    all.insert(all.end(), outputs.begin(), outputs.end());
    for (const models::TensorIndex index : all) {
        const Tensor& tensor = graph.tensors.at(static_cast<std::size_t>(index));
        // rows and cols are at most 2^31 each, so that the product holds; the sum stops at the first excess.
        elements += tensor.rows * tensor.cols;
        if (elements > kMostElements) {
            throw InputError(
                "--functional",
                fmt::format("inputs and outputs have more than {} values: a run on values is for small models and "
                            "products; without --functional the run needs none",
                            kMostElements));
        }
    }
}

models::Values read_inputs(const Prepared& job, const ValueOptions& options) {
    if (const std::optional<std::uint64_t> seed = as_seed(options.inputs)) {
        return models::random_inputs(job.graph, *seed);
    }
    const InputFolder folder(options.inputs, models::vocabulary(job.graph));
    models::Values out;
    for (const models::TensorIndex index : models::inputs_of(job.graph)) {
        const Tensor& tensor = job.graph.tensors.at(static_cast<std::size_t>(index));
        // A second copy of the same weights need not be given twice.
        const auto first = out.find(tensor.same_values_as);
        out[index] = first != out.end() ? first->second : folder.matrix(tensor);
    }
    return out;
}

bool holds_bytes(const isa::Region& region) {
    return !region.holds.has_value();
}

/// Of a program of the user's own: every input and output has a file of its own, which is not hidden.
void check_names(const Prepared& job) {
    std::set<std::string> files;
    for (const isa::Region& region : job.program.regions) {
        if (!job.plan.empty() || !(region.input || region.output)) {
            continue;
        }
        const std::string name = file_name(region.name);
        const std::string where = fmt::format("region \"{}\"", region.name);
        if (name.empty() || name[0] == '.') {
            throw InputError(where, "an input or output names a file: its name must not be empty or begin with a dot");
        }
        if (!files.insert(name).second) {
            throw InputError(where, fmt::format("another input or output is in {}.npy too", name));
        }
    }
}

void write_raw_inputs(const Prepared& job, const ValueOptions& options, isa::SparseMemory& hbm) {
    if (!job.plan.empty()) {
        return;  // a compiled program's inputs are its graph's tensors
    }
    for (const isa::Region& region : job.program.regions) {
        if (!region.input || !holds_bytes(region)) {
            continue;
        }
        if (as_seed(options.inputs)) {
            throw InputError(
                "region " + region.name,
                "is input and does not say what it holds: add `holds ROWS x COLS FORMAT`, or give its bytes "
                "in a folder (--inputs DIR)");
        }
        hbm.write(region.offset, InputFolder(options.inputs).region(region));
    }
}

// ---- runs -----------------------------------------------------------------------------------------------------------

/// The program on its inputs, ready to run.
struct Loaded {
    Loaded(const Prepared& job, const models::Values& inputs, const ValueOptions& options)
        : program(job.program), memories(job.chip.spec) {
        kernels::write_inputs(job.placement, job.graph, inputs, memories.hbm(), program);
        write_raw_inputs(job, options, memories.hbm());
    }
    isa::Program program;
    isa::Memories memories;
};

[[noreturn]] void refuse(const Prepared& job, const std::string& what, const std::string& report) {
    if (job.plan.empty()) {
        throw InputError("program " + job.program.name, what + "\n" + report);
    }
    throw InvariantError(fmt::format("{}: the compiled program has a fault: {}\n{}", job.name, what, report));
}

std::string joined(const std::vector<std::string>& lines) {
    std::string out;
    for (std::size_t i = 0; i < std::min(lines.size(), kMostRaces); ++i) {
        out += (i == 0 ? "" : "\n") + lines[i];
    }
    return lines.size() > kMostRaces ? fmt::format("{}\n... and {} more", out, lines.size() - kMostRaces) : out;
}

/// Races, and semaphores that end otherwise than they began.
void check_order(const Prepared& job, const isa::Program& program, const isa::Machine& machine) {
    const isa::RaceReport report = isa::check_races(program, job.chip.spec, machine.trace());
    std::vector<std::string> faults = report.races;
    faults.insert(faults.end(), report.self_conflicts.begin(), report.self_conflicts.end());
    for (const isa::Unbalanced& each : machine.unbalanced()) {
        faults.push_back(fmt::format("semaphore {} began with {} and ends with {}: a wait or a signal is missing",
                                     each.semaphore, each.initial, each.final_value));
    }
    if (!faults.empty()) {
        refuse(job, fmt::format("{} fault{} in its order", faults.size(), faults.size() == 1 ? "" : "s"),
               joined(faults));
    }
}

void compare(const Prepared& job, const isa::Memories& first, const isa::Memories& other, std::int64_t shuffle) {
    if (const auto difference = first.hbm().first_difference(other.hbm())) {
        refuse(job, fmt::format("results depend on the interleaving: shuffle {} differs", shuffle),
               fmt::format("  first at hbm(0) byte {}{}; --check-races says which instructions are not ordered",
                           *difference, isa::region_at(job.program, isa::Space::hbm, 0, *difference)));
    }
}

std::string npy_of(const Matrix& matrix) {
    return npy_text({matrix.rows, matrix.cols}, matrix.values);
}

void add_outputs(const Prepared& job, const Loaded& run, ValueOutcome& out) {
    for (const auto& [index, matrix] : kernels::read_outputs(job.placement, job.graph, run.memories.hbm())) {
        const std::string& name = job.graph.tensors.at(static_cast<std::size_t>(index)).name;
        out.files[file_name(name) + ".npy"] = npy_of(matrix);
    }
    for (const isa::Region& region : job.program.regions) {
        if (job.plan.empty() && region.output && holds_bytes(region)) {
            if (const auto unwritten = run.memories.hbm().first_unwritten(region.offset, region.bytes)) {
                throw InputError("region " + region.name,
                                 fmt::format("is output, and nobody wrote its byte {}", *unwritten - region.offset));
            }
            std::vector<std::byte> bytes(static_cast<std::size_t>(region.bytes));
            run.memories.hbm().read(region.offset, bytes);
            out.files[file_name(region.name) + ".npy"] = npy_text({static_cast<std::int64_t>(region.bytes)}, bytes);
        }
    }
}

}  // namespace

bool ValueOptions::from_folder() const {
    return !as_seed(inputs).has_value();
}

void place_regions(Prepared& job) {
    for (const isa::Region& region : job.program.regions) {
        if (!region.holds || !(region.input || region.output)) {
            continue;
        }
        const isa::RegionTensor& held = *region.holds;
        TensorRole role = region.input ? TensorRole::operand : TensorRole::output;
        if (region.input && region.output) {
            role = TensorRole::updated;
        }
        const auto index = static_cast<models::TensorIndex>(job.graph.tensors.size());
        job.graph.tensors.push_back({region.name, role, held.rows, held.cols, held.format});
        kernels::MatrixPlace place{index, 0, held.rows, held.format, nullptr, static_cast<std::int64_t>(region.offset)};
        if (!held.row_major) {
            const std::int64_t columns = ceil_div(held.cols, isa::kBlockEdge);
            const auto bytes = static_cast<std::int64_t>(isa::block_bytes(held.format));
            place.block = [base = place.base, columns, bytes](std::int64_t r, std::int64_t c) {
                return base + (r * columns + c) * bytes;
            };
        }
        if (region.input) {
            job.placement.inputs.push_back(place);
        }
        if (region.output) {
            job.placement.outputs.push_back(place);
        }
    }
}

ValueOutcome run_values(const Prepared& job, const ValueOptions& options,
                        const std::function<void(const std::string&)>& on_progress) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    const auto say = [&](const std::string& what) {
        if (on_progress) {
            on_progress(what);
        }
    };
    const auto machine_options = [&](std::int64_t shuffle) {
        isa::MachineOptions out;
        out.seed = static_cast<std::uint64_t>(shuffle);
        out.record_trace = options.check_races && shuffle == 0;
        out.max_instructions = out.record_trace ? kMostTraced : 0;
        out.max_statements = options.max_statements;
        out.on_progress = [&say, &options, shuffle](std::uint64_t instructions) {
            say(shuffle == 0
                    ? fmt::format("values: {} instructions", instructions)
                    : fmt::format("interleaving {} of {}: {} instructions", shuffle, options.shuffles, instructions));
        };
        return out;
    };
    check_names(job);
    check_size(job.graph);
    const models::Values inputs = read_inputs(job, options);
    Loaded loaded(job, inputs, options);
    isa::Machine machine(loaded.program, job.chip.spec, loaded.memories, machine_options(0));
    machine.run();
    if (options.check_races) {
        say("checking the order of all accesses");
        check_order(job, loaded.program, machine);
    }
    for (std::int64_t shuffle = 1; shuffle <= options.shuffles; ++shuffle) {
        Loaded again(job, inputs, options);
        isa::Machine(again.program, job.chip.spec, again.memories, machine_options(shuffle)).run();
        compare(job, loaded.memories, again.memories, shuffle);
    }
    ValueOutcome out;
    add_outputs(job, loaded, out);
    out.summary = {{"inputs", options.inputs},
                   {"instructions", machine.instructions()},
                   {"races_checked", options.check_races},
                   {"interleavings_compared", options.shuffles},
                   {"outputs", nlohmann::ordered_json::array()}};
    for (const auto& [name, text] : out.files) {
        out.summary["outputs"].push_back(name);
    }
    out.wall_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return out;
}

}  // namespace sluice::tools
