// SPDX-License-Identifier: Apache-2.0
// `sluice show`: a chip with where every value comes from, or a model's shape.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "isa/chip_spec_reader.hpp"
#include "isa/config_file.hpp"
#include "isa/errors.hpp"
#include "tools/commands.hpp"
#include "tools/flags.hpp"
#include "tools/model_summary.hpp"
#include "tools/output.hpp"
#include "tools/table.hpp"

namespace sluice::tools {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct ShowFlags {
    std::string name;
    std::vector<std::string> sets;
    std::string json;
};

void add_json_flag(CLI::App& command, ShowFlags& flags) {
    command.add_option("--json", flags.json, "write it as JSON there; - is standard output")
        ->type_name("FILE")
        ->check(path_given());
}

/// To the place that --json names, or as a table to standard output.
void deliver(const ShowFlags& flags, const Place& input, const ordered_json& object, const std::string& table) {
    if (flags.json.empty()) {
        print(table);
    } else if (flags.json == "-") {
        print(object.dump(1) + "\n");
    } else {
        require_apart({"--json", flags.json}, input);
        ResultFile(flags.json, "--json").publish(object.dump(1) + "\n");
    }
}

std::string plain(const json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Nested objects as one row for every leaf.
void add_leaves(std::vector<std::vector<std::string>>& rows, const std::string& path, const json& value) {
    if (!value.is_object()) {
        rows.push_back({path, value.is_number_float() ? fmt::format("{:.6g}", value.get<double>()) : plain(value)});
        return;
    }
    for (const auto& [key, child] : value.items()) {
        add_leaves(rows, path.empty() ? key : path + "." + key, child);
    }
}

void show_chip(const ShowFlags& flags) {
    const isa::ResolvedChip chip = isa::read_chip(flags.name, flags.sets);
    std::vector<std::vector<std::string>> rows = {{"field", "value", "unit", "status", "source"}};
    for (const isa::FieldDescription& field : isa::chip_fields()) {
        const json& entry = chip.values.at(field.path);
        rows.push_back(
            {field.path, plain(entry.at("value")), field.unit, plain(entry.at("status")), plain(entry.at("source"))});
    }
    std::vector<std::vector<std::string>> derived;
    add_leaves(derived, "", isa::derived(chip.spec));
    const ordered_json object = {{"name", chip.spec.name},
                                 {"description", chip.spec.description},
                                 {"derived", isa::derived(chip.spec)},
                                 {"values", chip.values}};
    deliver(flags, {"chip", isa::find_config(isa::configs_directory(), "chips", flags.name)}, object,
            fmt::format("{}: {}{}{}\n\n{}\nwhat follows from them\n\n{}", chip.spec.name, chip.spec.description,
                        flags.sets.empty() ? "" : "; here with ", fmt::join(flags.sets, ", "), aligned(rows, {2, 3, 4}),
                        aligned(derived)));
}

void show_model(const ShowFlags& flags) {
    const ModelSummary model = summarize_model(flags.name);
    deliver(flags, {"model", isa::find_config(isa::configs_directory(), "models", flags.name)}, model_json(model),
            model_table(model));
}

}  // namespace

void add_show_command(CLI::App& app) {
    CLI::App* show = app.add_subcommand("show", "print a chip with the source of every value, or a model's shape");
    show->require_subcommand(1);
    show->footer(
        "Examples:\n"
        "  sluice show chip maia200\n"
        "  sluice show model llama-3.1-8b");

    CLI::App* chip = show->add_subcommand("chip", "every field, its unit, where its value comes from, what follows");
    const auto chip_flags = std::make_shared<ShowFlags>();
    chip->add_option("name", chip_flags->name, "name in configs/chips/, or path of a chip file")->required();
    chip->add_option("--set", chip_flags->sets, "change one field, e.g. tsram.bytes=4MiB; may be repeated")
        ->type_name("PATH=VALUE")
        ->allow_extra_args(false);
    add_json_flag(*chip, *chip_flags);
    chip->footer(
        "Examples:\n"
        "  sluice show chip maia200 --set clock.core_hz=2.15GHz\n"
        "  sluice show chip toy --json - | jq .derived");
    chip->callback([chip_flags] { show_chip(*chip_flags); });

    CLI::App* model = show->add_subcommand("model", "parameters, tensors and KV cache of a model");
    const auto model_flags = std::make_shared<ShowFlags>();
    model->add_option("name", model_flags->name, "name in configs/models/, or path of a config.json")->required();
    add_json_flag(*model, *model_flags);
    model->footer(
        "Examples:\n"
        "  sluice show model llama-3.1-70b");
    model->callback([model_flags] { show_model(*model_flags); });
}

}  // namespace sluice::tools
