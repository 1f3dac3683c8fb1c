#include "flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>
#include <sstream>
#include <string_view>
#include <type_traits>

#include "base/log.h"
#include "base/status_macros.h"
#include "byte_size.h"
#include "engine/load/numerics_options.h"
#include "forerun/sampling_fields.h"
#include "forerun/speculation_fields.h"
#include "launch.h"
#include "sampling/validate.h"
#include "terminal.h"

namespace forerun::app {
namespace {

constexpr const char* kRandomSeed = "random";

// Parses all of `text` as a finite number.
template <class T>
bool parse_number(std::string_view text, T& number) {
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && stopped == text.data() + text.size();
  return whole && std::isfinite(static_cast<double>(number));
}

// Returns "auto (what fits), serial_tree (...)": names and help come from the engine's tables.
std::string listed(const std::vector<OptionChoice>& choices) {
  std::string text;
  for (const OptionChoice& choice : choices) {
    text += (text.empty() ? "" : ", ") + choice.name + " (" + choice.help + ")";
  }
  return text;
}

void add_speculation_flags(CLI::App& command, SpeculationOptions& speculation) {
  for (const SpeculationField& field : kSpeculationFields) {
    const std::string help =
        field.help + (field.choices != nullptr ? listed(field.choices()) : "") + field.note;
    if (field.flag != nullptr) {
      command.add_flag_callback(
          "--no-" + flag_name(field.name).substr(2),
          [&speculation, flag = field.flag] { speculation.*flag = false; }, help);
    } else if (field.number != nullptr) {
      command.add_option(flag_name(field.name), speculation.*field.number, help);
    } else {
      CLI::Option* const option =
          command.add_option(flag_name(field.name), speculation.*field.text, help);
      if (!(speculation.*field.text).empty()) option->capture_default_str();
    }
  }
}

// Returns a validator with the field's range.
template <class T>
CLI::Validator range_of(const SamplingField<T>& field) {
  return CLI::Validator(
      [field](const std::string& text) -> std::string {
        const std::string_view number =
            std::string_view(text).substr(text.starts_with('+') ? 1 : 0);
        T value{};
        if (parse_number(number, value) && sampling_in_range(field, value)) return "";
        return "found '" + text + "'; accepted: a number, " + range_text(field.min, field.max);
      },
      "");
}

}  // namespace

void add_cost_flags(CLI::App& command, EngineOptions& options) {
  options.cost_cache = default_cost_cache();
  command
      .add_option_function<std::string>(
          "--cost-cache",
          [&options](const std::string& folder) {
            options.cost_cache = folder == "off" ? "" : folder;
          },
          "DIR|off: keeps what Steps cost on this machine, so that later starts need not measure "
          "it (default: " +
              (options.cost_cache.empty() ? "off" : options.cost_cache) + ")")
      ->type_name("DIR|off");
  command.add_flag("--measure-anew", options.measure_anew,
                   "Measure what Steps cost, also if an earlier start has stored it");
}

void add_engine_flags(CLI::App& command, EngineOptions& options) {
  command
      .add_option(
          "-m,--model", options.model,
          "Checkpoint directory, GGUF file, or org/name or org/name@revision in the local Hugging "
          "Face cache; :QUANTIZATION after a name chooses one of its GGUF files")
      ->required();
  command.add_option("-d,--draft", options.draft,
                     "Draft model's checkpoint (same tokenizer), or a trained head of the model");
  add_speculation_flags(command, options.speculation);
  command.add_option(
      "--target-devices,--devices", options.devices,
      "Devices of the target: cpu:0-3 or cpu:0+2 is one device of several threads; "
      "cpu:0,cpu:1 are two, each with a half of the model; cuda:0 is a GPU, cuda:0,cuda:1 are two, "
      "each with a half; cpu:0/cpu:1 and cuda:0/cuda:1 are pipelines of two stages (default: one "
      "of "
      "all cores)");
  command.add_option("--stages", options.stages,
                     "Stages of a pipeline that the target is cut into (default: as many as "
                     "--target-devices has groups, with slashes between them)");
  command
      .add_option("--stage-layers", options.stage_layers,
                  "Layers of each stage: 10,11,11 (default: balanced by the size of their weights)")
      ->delimiter(',');
  command.add_option("--draft-devices", options.draft_devices,
                     "Devices of the draft alone, which then runs beside the target, or some of "
                     "the target's GPUs, sequentially with it (default: sequentially on all the "
                     "target's; a trained head is always there)");
  command.add_flag("--auto", options.try_splits,
                   "Try splits of the processors between target and draft, keep the fastest "
                   "(not on GPUs, and not with a trained head)");
  command.add_option("--emulate", options.emulate,
                     "Steps take as long as on another machine: FILE#NAME of bench/profiles");
  command
      .add_option("--weights", options.weights,
                  "What the layers and the head are rounded to when they are loaded: " +
                      list_of(weight_names()) +
                      " (the head alone). Nothing is rounded that is stored so. On a GPU as_stored "
                      "or int8_head")
      ->capture_default_str();
  command
      .add_option(
          "--draft-weights", options.draft_weights,
          "The same for the draft, or on a GPU int4_head (the head alone) or int4, or auto (int8, "
          "where layers are quantized the head alone; on a GPU a large head int4); "
          "never changes a token")
      ->capture_default_str();
  command.add_option("--activations", options.activations, "bf16, f32 or int8; on a GPU bf16")
      ->capture_default_str();
  command.add_option("--context", options.max_context_tokens,
                     "Longest sequence in tokens, prompt included (default: the checkpoint's)");
  command
      .add_option_function<std::string>(
          "--kv-memory",
          [&options](const std::string& text) {
            const Result<int64_t> bytes = parse_byte_size(text);
            if (!bytes.ok()) throw CLI::ValidationError("--kv-memory", bytes.status().message());
            options.kv_memory_bytes = *bytes;
          },
          "For the KV cache: 512MB, 4GB or 1.5GiB (default: what --context needs, at most half of "
          "the free memory)")
      ->type_name("SIZE");
  command.add_option("--draft-window", options.draft_window,
                     "How many tokens of each request the draft keeps in its KV cache, the first "
                     "and the latest ones; fewer leave room for longer texts (default: all, or "
                     "as many as the draft was made for)");
  command.add_option("--step-budget-ms", options.step_budget_ms,
                     "Longest Step while a prompt is read beside requests that decode (default: by "
                     "what Steps cost, 1.8 times as long as without the prompt)");
  add_cost_flags(command, options);
  command.add_flag("!--no-shared-prefixes", options.share_prefixes,
                   "Compute the KV of every prompt, also where prompts begin with the same tokens");
}

void add_sampling_flags(CLI::App& command, SamplingFlags& flags) {
  for_each_sampling_field([&](const auto& field) {
    const std::string letter = field.letter != 0 ? std::string("-") + field.letter + "," : "";
    command.add_option(letter + flag_name(field.name), flags.options.*field.option, field.help)
        ->check(range_of(field));
  });
  add_texts(command, "--logit-bias", flags.logit_bias,
            "TOKEN:BIAS, a bias from -100 to 100, e.g. 50256:-100; may repeat")
      ->type_name("TOKEN:BIAS");
  command
      .add_option_function<std::string>(
          "-s,--seed",
          [&flags](const std::string& text) {
            const Result<uint64_t> seed = parse_seed(text);
            if (!seed.ok()) throw CLI::ValidationError("--seed", seed.status().message());
            flags.seed = *seed;
            flags.random_seed = text == kRandomSeed;
          },
          "Same seed, same text; random chooses one and prints it")
      ->type_name("NUMBER|random")
      ->default_str("0");
}

CLI::Option* add_texts(CLI::App& command, const std::string& name, std::vector<std::string>& texts,
                       const std::string& help) {
  // Takes the texts as CLI11 parsed them: in its conversion to a list, brackets, braces and "" have
  // a meaning.
  const auto take = [&texts](const CLI::results_t& given) {
    texts = given;
    return true;
  };
  return command.add_option(name, take, help)
      ->type_name("TEXT")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}

void add_stop_flag(CLI::App& command, std::vector<std::string>& stop) {
  add_texts(command, "--stop", stop, "End before this text; may repeat")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return text.empty() ? "found no text; accepted: at least one character" : "";
          },
          ""));
}

std::string flag_name(std::string_view field) {
  std::string name = "--" + std::string(field);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

Result<uint64_t> parse_seed(const std::string& text) {
  if (text == kRandomSeed) {
    std::random_device device;
    return (uint64_t{device()} << 21) ^ (device() >> 11);
  }
  uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, seed);
  if (error == std::errc() && stopped == end) return seed;
  return Status(
      StatusCode::kInvalidArgument,
      "found '" + text + "'; accepted: 0 to " + std::to_string(UINT64_MAX) + ", or " + kRandomSeed);
}

Result<SamplingOptions> sampling_options(const SamplingFlags& flags) {
  SamplingOptions options = flags.options;
  options.seed = flags.seed;
  for (const std::string& entry : flags.logit_bias) {
    int32_t token = 0;
    float bias = 0.0f;
    const size_t colon = entry.find(':');
    const std::string_view text = entry;
    if (colon == std::string::npos || !parse_number(text.substr(0, colon), token) ||
        !parse_number(text.substr(colon + 1), bias) || std::abs(bias) > kMaxLogitBias) {
      return Status(StatusCode::kInvalidArgument,
                    "--logit-bias: found '" + entry +
                        "'; accepted: TOKEN:BIAS, a token's id and a number from -100 to 100, "
                        "such as 11:-5.5");
    }
    options.logit_bias.emplace_back(token, bias);
  }
  return options;
}

namespace {

// Returns "greedy", or the numbers: "temperature 0.60, top_k 20, top_p 0.95, ...".
std::string default_sampling_text(const SamplingParams& sampling) {
  if (sampling.temperature == 0.0f) return "greedy";
  std::string text;
  for_each_sampling_field([&](const auto& field) {
    const auto value = sampling.*field.param;
    if (!text.empty()) text += ", ";
    text += std::string(field.name) + " ";
    if constexpr (std::is_integral_v<decltype(value)>) {
      text += std::to_string(value);
    } else {
      text += format_fixed(value, 2);
    }
  });
  return text;
}

// Logs measurements and choices, for --verbose.
void log_choices(const EngineOptions& options, const EngineInfo& info) {
  // It is printed in that case.
  std::istringstream report(options.try_splits ? "" : info.planner_report);
  for (std::string line; std::getline(report, line);) log_line(LogLevel::kInfo, line);
  log_line(LogLevel::kInfo, "chosen: numerics " + info.numeric_fingerprint + "; context of " +
                                std::to_string(info.max_context_tokens) + " tokens; weights " +
                                format_bytes(static_cast<double>(info.weight_bytes)) +
                                ", KV cache up to " +
                                format_bytes(static_cast<double>(info.kv_bytes)) +
                                "; sampling, unless flags say otherwise: " +
                                default_sampling_text(info.default_sampling));
}

}  // namespace

Result<std::unique_ptr<Engine>> create_engine(EngineOptions options) {
  ProgressBar bar;
  options.on_progress = [&bar](const std::string& what, double fraction) {
    bar.update(what, fraction);
  };
  auto created = make_engine(options);
  bar.clear();
  if (created.status().code() == StatusCode::kResourceExhausted) {
    return Status(StatusCode::kResourceExhausted,
                  created.status().message() +
                      "; --context N sets a shorter context, --kv-memory SIZE the KV cache's size");
  }
  FORERUN_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, std::move(created));
  log_choices(options, engine->info());
  return engine;
}

}  // namespace forerun::app
