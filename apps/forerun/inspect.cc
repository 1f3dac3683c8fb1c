#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_summary.h"
#include "commands.h"
#include "device/cpu/team.h"
#include "engine/load/gpu.h"
#include "engine/load/model_text.h"
#include "engine/load/numerics_options.h"
#include "format_list.h"
#include "kernels/isa.h"
#include "model/decoder_memory.h"
#include "model/host_memory.h"
#include "model/requantize.h"
#include "model/widened_formats.h"
#include "module_table.h"
#include "output.h"
#include "terminal.h"
#include "text/tokenizer.h"

namespace forerun::app {
namespace {

struct InspectFlags {
  std::string model;
  bool json = false;
  bool tensors = false;
  bool devices = false;
  bool formats = false;
  bool all = false;
  bool compare = false;
  std::string weights = "as_stored";
};

// Returns linear layers and head as stored, then every format of --weights.
std::vector<WeightOverride> precisions() {
  std::vector<WeightOverride> all = {WeightOverride::kAsStored};
  for (const WeightFormat format : requantizable_formats()) all.push_back(requantize_to(format));
  return all;
}

std::string weight_bytes(const Checkpoint& checkpoint, WeightOverride weights) {
  return format_bytes(static_cast<double>(
      estimate_decoder_memory(checkpoint, weights, Activation::kBf16).weight_bytes));
}

int64_t kv_token_bytes(const Checkpoint& checkpoint) {
  return estimate_decoder_memory(checkpoint, WeightOverride::kAsStored, Activation::kBf16)
      .kv_token_bytes();
}

void print_tables(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  const CheckpointSummary summary = summarize(checkpoint);
  const auto number = [](int64_t value) { return std::to_string(value); };
  std::cout << format_table(
      {{"shape", printable(checkpoint.name())},
       {"architecture", printable(config.architecture)},
       {"parameters", format_fixed(static_cast<double>(summary.parameters) / 1e6, 1) + " M"},
       {"layers", number(config.num_layers)},
       {"width, feed-forward width",
        number(config.hidden_size) + ", " + number(config.intermediate_size)},
       {"vocabulary", number(config.vocab_size)},
       {"context", number(config.max_position) + " tokens"}});
  for (const std::string& feature : summary.features) std::cout << "  " << feature << '\n';

  std::vector<std::vector<std::string>> stored = {{"in the files", "parameters", "bytes"}};
  for (const PrecisionShare& share : summary.by_precision) {
    stored.push_back({share.precision,
                      format_fixed(static_cast<double>(share.parameters) / 1e6, 1) + " M",
                      format_bytes(static_cast<double>(share.bytes))});
  }
  std::cout << '\n' << format_table(stored);

  std::vector<std::vector<std::string>> memory = {{"weights in memory", "bytes"}};
  for (const WeightOverride weights : precisions()) {
    memory.push_back({weight_override_name(weights), weight_bytes(checkpoint, weights)});
  }
  const auto token_bytes = static_cast<double>(kv_token_bytes(checkpoint));
  memory.push_back({"KV cache, bf16, a token", format_bytes(token_bytes)});
  memory.push_back(
      {"KV cache, bf16, whole context", format_bytes(token_bytes * config.max_position)});
  std::cout << '\n' << format_table(memory);
}

// The files besides the weights that `generate` reads.
struct TextFiles {
  Result<Tokenizer> tokenizer;
  Status generation_defaults;

  Status status() const {
    FORERUN_RETURN_IF_ERROR(tokenizer.status());
    return generation_defaults;
  }
};

nlohmann::ordered_json to_json(const Checkpoint& checkpoint, const TextFiles& text) {
  const ModelConfig& config = checkpoint.config();
  const CheckpointSummary summary = summarize(checkpoint);
  nlohmann::ordered_json bytes;
  for (const WeightOverride weights : precisions()) {
    bytes[weight_override_name(weights)] =
        estimate_decoder_memory(checkpoint, weights, Activation::kBf16).weight_bytes;
  }
  nlohmann::ordered_json json = {{"architecture", config.architecture},
                                 {"model_type", config.model_type},
                                 {"parameters", summary.parameters},
                                 {"num_layers", config.num_layers},
                                 {"hidden_size", config.hidden_size},
                                 {"intermediate_size", config.intermediate_size},
                                 {"num_heads", config.num_heads},
                                 {"num_kv_heads", config.num_kv_heads},
                                 {"head_dim", config.head_dim},
                                 {"vocab_size", config.vocab_size},
                                 {"max_position", config.max_position},
                                 {"rope_theta", config.rope_theta},
                                 {"tied_embeddings", config.tied_embeddings},
                                 {"features", summary.features},
                                 {"weight_bytes", bytes},
                                 {"kv_bytes_per_token_bf16", kv_token_bytes(checkpoint)},
                                 {"tokens", text.tokenizer.ok() ? text.tokenizer->vocab_size() : 0},
                                 {"supported", text.status().ok()}};
  if (!text.status().ok()) json["unsupported"] = text.status().message();
  return json;
}

std::string gigabytes_per_s(double bytes_per_s) {
  return bytes_per_s > 0 ? format_fixed(bytes_per_s / 1e9, 0) + " GB/s" : "-";
}

Status list_devices(bool json) {
  FORERUN_ASSIGN_OR_RETURN(const std::vector<GpuDescription> gpus, describe_gpus());
  if (json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const GpuDescription& gpu : gpus) {
      list.push_back({{"name", gpu.name},
                      {"compute_capability", gpu.compute_capability},
                      {"multiprocessors", gpu.multiprocessors},
                      {"memory_bytes", gpu.memory_bytes},
                      {"free_bytes", gpu.free_bytes},
                      {"read_bytes_per_s", gpu.read_bytes_per_s},
                      {"link_bytes_per_s", gpu.link_bytes_per_s}});
    }
    const nlohmann::ordered_json all = {{"cores", available_cores().size()},
                                        {"kernels", isa_name(current_isa())},
                                        {"memory_available_bytes", host_memory().available_bytes},
                                        {"gpus", list}};
    std::cout << json_text(all);
    return Status();
  }
  std::cout << format_table(
      {{"processors", "kernels", "memory available"},
       {"cpu:0 to cpu:" + std::to_string(available_cores().size() - 1), isa_name(current_isa()),
        format_bytes(static_cast<double>(host_memory().available_bytes))}});
  if (gpus.empty()) {
    std::cout << "\nNo GPU, or this build has no backend for one (preset cuda-release).\n";
    return Status();
  }
  std::vector<std::vector<std::string>> table = {
      {"GPU", "name", "compute", "SMs", "memory", "free", "reads"}};
  for (size_t other = 0; other < gpus.size(); ++other) {
    table.front().push_back("to cuda:" + std::to_string(other));
  }
  for (size_t index = 0; index < gpus.size(); ++index) {
    const GpuDescription& gpu = gpus[index];
    table.push_back(
        {"cuda:" + std::to_string(index), gpu.name, gpu.compute_capability,
         std::to_string(gpu.multiprocessors), format_bytes(static_cast<double>(gpu.memory_bytes)),
         format_bytes(static_cast<double>(gpu.free_bytes)), gigabytes_per_s(gpu.read_bytes_per_s)});
    for (const double link : gpu.link_bytes_per_s) table.back().push_back(gigabytes_per_s(link));
  }
  std::cout << '\n' << format_table(table);
  return Status();
}

void print_tensors(const Checkpoint& checkpoint) {
  std::vector<std::vector<std::string>> table = {{"tensor", "dtype", "shape", "bytes"}};
  for (const RawTensor& tensor : checkpoint.tensors()) {
    std::string shape;
    for (const int64_t extent : tensor.shape) {
      shape += (shape.empty() ? "" : " x ") + std::to_string(extent);
    }
    table.push_back({printable(tensor.name), std::string(format_name(tensor)), shape,
                     format_bytes(static_cast<double>(tensor.bytes.size()))});
  }
  std::cout << '\n' << format_table(table);
}

void print_modules(const Checkpoint& checkpoint, WeightOverride weights,
                   const std::vector<ModuleRow>& modules) {
  std::cout << '\n' << module_table(modules) << '\n';
  const LayerRange all = LayerRange::all(checkpoint.config());
  for (const auto& [where, on_gpus] : {std::pair("Processors", false), std::pair("GPUs", true)}) {
    std::cout << where << ": ";
    if (on_gpus && override_format(weights)) {
      std::cout << "--weights " << weight_override_name(weights)
                << " is refused; accepted: as_stored and int8_head.\n";
      continue;
    }
    const auto widened = widened_formats(checkpoint, all, on_gpus, weights);
    std::cout << (widened.empty() ? "every weight is read as it is stored" : describe(widened))
              << ".\n";
  }
}

void print_errors(WeightOverride weights, const std::vector<ErrorRow>& errors) {
  if (errors.empty()) {
    std::cout
        << "\nNothing is rounded, so there is no error; --weights F compares with format F.\n";
    return;
  }
  std::cout << "\nRounded weights against the stored ones, on "
            << (weights == WeightOverride::kAsStored ? "GPUs" : "processors")
            << " (relative: Frobenius norms):\n"
            << error_table(errors);
}

// Returns the flags that ask about a model, for messages; empty if there are none.
std::string model_flag(const InspectFlags& flags) {
  if (flags.tensors) return "--tensors";
  if (flags.all) return "--all";
  if (flags.compare) return "--compare";
  return flags.weights == "as_stored" ? "" : "--weights";
}

Status run_inspect(const InspectFlags& flags) {
  const std::string flag = model_flag(flags);
  if (flags.devices && (!flag.empty() || !flags.model.empty())) {
    return Status(StatusCode::kInvalidArgument,
                  "--devices: found together with " +
                      (!flag.empty() ? flag : "the model '" + flags.model + "'") +
                      "; accepted: alone or with --json");
  }
  if (flags.formats && (!flag.empty() || flags.devices || flags.json || !flags.model.empty())) {
    const std::string other = !flags.model.empty() ? "the model '" + flags.model + "'"
                              : !flag.empty()      ? flag
                              : flags.devices      ? "--devices"
                                                   : "--json";
    return Status(StatusCode::kInvalidArgument,
                  "--formats: found together with " + other + "; accepted: alone");
  }
  if (flags.formats) {
    std::cout << format_list();
    return Status();
  }
  if (flags.devices) return list_devices(flags.json);
  if (flags.model.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "found no model; accepted: a checkpoint directory, a GGUF file or --devices");
  }
  FORERUN_RETURN_IF_ERROR(check_isa());
  FORERUN_ASSIGN_OR_RETURN(const WeightOverride weights, parse_weights(flags.weights));
  FORERUN_ASSIGN_OR_RETURN(const std::filesystem::path path, resolve_checkpoint(flags.model));
  FORERUN_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(path));
  FORERUN_RETURN_IF_ERROR(
      check_inputs("--weights: found '" + flags.weights + "'", weights, checkpoint.config()));
  const TextFiles text = {load_tokenizer(checkpoint), checkpoint.generation_defaults().status()};
  std::vector<ErrorRow> errors;
  if (flags.compare) {
    FORERUN_ASSIGN_OR_RETURN(errors, rounding_errors(checkpoint, weights));
  }
  const std::vector<ModuleRow> modules = module_rows(checkpoint, weights, flags.all);
  if (flags.json) {
    nlohmann::ordered_json json = to_json(checkpoint, text);
    json["modules"] = to_json(modules);
    if (flags.compare) json["errors"] = to_json(errors);
    std::cout << json_text(json);
    return text.status().with_context("not supported");
  }
  print_tables(checkpoint);
  if (text.status().ok()) {
    std::cout << "\nEverything in this checkpoint is supported.\n";
  }
  std::cout << "Kernels: " << isa_name(current_isa()) << ", " << available_cores().size()
            << " cores.\n";
  if (text.tokenizer.ok()) {
    std::cout << "Tokenizer: " << text.tokenizer->vocab_size() << " tokens.\n";
  }
  print_modules(checkpoint, weights, modules);
  if (flags.compare) print_errors(weights, errors);
  if (flags.tensors) print_tensors(checkpoint);
  return text.status().with_context("not supported");
}

}  // namespace

Command add_inspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect",
                                         "A checkpoint's shape, its memory by precision, what is "
                                         "read of it, and whether it is supported");
  auto flags = std::make_shared<InspectFlags>();
  command->add_option("model", flags->model,
                      "Checkpoint directory, GGUF file, or org/name in the cache");
  command->add_flag("--devices", flags->devices,
                    "List this machine's devices with measured bandwidths instead");
  command->add_flag("--tensors", flags->tensors, "List every tensor");
  command->add_flag("--formats", flags->formats,
                    "List the formats of weights that are read instead");
  command
      ->add_option("--weights", flags->weights,
                   "Show what is read with generate's --weights: " + list_of(weight_names()))
      ->capture_default_str();
  command->add_flag("--all", flags->all, "A line for every module, not for every kind of them");
  command->add_flag("--compare", flags->compare,
                    "Print how far rounded weights are from the stored ones: with --weights those "
                    "on processors, without it those on GPUs; reads every one of them");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->footer(
      "Example:\n  forerun inspect models/demo-target --tensors\n"
      "  forerun inspect models/demo-target --weights q4_1 --compare\n"
      "  forerun inspect --devices");
  return {command, [flags] { return run_inspect(*flags); }};
}

}  // namespace forerun::app
