#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/gguf_file.h"
#include "checkpoint/model_config.h"
#include "commands.h"
#include "engine/load/measure_devices.h"
#include "flags.h"
#include "output.h"
#include "plan_report.h"
#include "plan_surface.h"
#include "terminal.h"
#include "text_input.h"

namespace forerun::app {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxBatch = 4096;
constexpr int64_t kMaxContext = 16 << 20;
constexpr size_t kMaxListed = 64;

struct PlanFlags {
  std::string model;
  std::string draft;
  std::string gpus;
  EngineOptions engine;  // options of measured devices
  std::vector<std::string> batches;
  std::vector<std::string> contexts;
  std::vector<std::string> views;
  std::vector<std::string> budgets;
  std::vector<std::string> acceptance;
  int32_t max_guesses = 12;
  double overhead_ms = 0.0;
  bool all = false;
  bool json = false;
  std::string svg_path;
};

Status refuse(const std::string& flag, const std::string& found, const std::string& accepted) {
  return {StatusCode::kInvalidArgument, flag + ": found " + found + "; accepted: " + accepted};
}

// Returns the numbers in ascending order, each once.
Result<std::vector<int64_t>> numbers(const std::string& flag, const std::vector<std::string>& texts,
                                     int64_t max) {
  std::vector<int64_t> values;
  for (const std::string& text : texts) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > max) {
      return refuse(flag, "\"" + text + "\"", "whole numbers from 1 to " + std::to_string(max));
    }
    values.push_back(value);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() > kMaxListed) {
    return refuse(flag, std::to_string(values.size()) + " values",
                  "lists of at most " + std::to_string(kMaxListed));
  }
  return values;
}

struct NamedConfig {
  std::string name;
  ModelConfig config;
};

// Returns "8b" for 8b/config.json, 8b.config.json and 8b.json.
std::string name_of_config(const fs::path& file) {
  if (file.filename() == "config.json") return fs::absolute(file).parent_path().filename().string();
  const fs::path stem = file.stem();
  return stem.extension() == ".config" ? stem.stem().string() : stem.string();
}

// Reads a checkpoint, or only its config.json: a plan needs no weights.
Result<NamedConfig> read_config(const std::string& model) {
  std::error_code ignored;
  if (fs::is_regular_file(model, ignored) && !is_gguf_path(model)) {
    FORERUN_ASSIGN_OR_RETURN(const std::string text, read_text("--model", model));
    FORERUN_ASSIGN_OR_RETURN(ModelConfig config, parse_model_config(text, model));
    return NamedConfig{name_of_config(model), std::move(config)};
  }
  FORERUN_ASSIGN_OR_RETURN(const fs::path dir, resolve_checkpoint(model));
  if (fs::is_regular_file(dir, ignored)) {
    FORERUN_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(dir));
    return NamedConfig{checkpoint.name(), checkpoint.config()};
  }
  FORERUN_ASSIGN_OR_RETURN(ModelConfig config, read_model_config(dir));
  return NamedConfig{
      dir.filename().empty() ? dir.parent_path().filename().string() : dir.filename().string(),
      std::move(config)};
}

std::string machine_note(const GpuGroup& group) {
  const GpuSpec& gpu = group.gpu;
  return "predicted: " + format_fixed(1e-9 * gpu.bandwidth_bytes_per_s, 0) + " GB/s, " +
         format_fixed(1e-12 * gpu.matrix_flops_per_s, 0) + " TFLOP/s, of which " +
         format_fixed(100.0 * gpu.efficiency.weights, 0) + "% (weights), " +
         format_fixed(100.0 * gpu.efficiency.attention, 0) + "% (caches) and " +
         format_fixed(100.0 * gpu.efficiency.matrix, 0) + "% are reached: " + gpu.efficiency_source;
}

Result<PlannedMachine> measured_machine(const PlanFlags& flags, std::string& note) {
  EngineOptions options = flags.engine;
  options.model = flags.model;
  options.draft = flags.draft;
  ProgressBar bar;
  options.on_progress = [&bar](const std::string& what, double done) { bar.update(what, done); };
  auto measured = measure_devices(options);
  bar.clear();
  FORERUN_RETURN_IF_ERROR(measured.status());
  PlannedMachine machine;
  machine.name = options.devices;
  machine.measured = true;
  machine.costs = std::move(measured->costs);
  note = std::string("measured ") + (measured->from_cache ? "at an earlier start" : "now") +
         "; costs that grow with the caches are extrapolated linearly";
  return machine;
}

std::vector<CriticalContexts> find_critical(const PlanReport& report,
                                            const std::vector<int64_t>& batches,
                                            const RankOptions& options) {
  const std::vector<SpeculationCandidate> any = bare(report.candidates);
  std::vector<SpeculationCandidate> self;
  for (const SpeculationCandidate& each : any) {
    if (each.draft.model == Role::kTarget) self.push_back(each);
  }
  std::vector<CriticalContexts> critical;
  for (const int64_t batch : batches) {
    const auto sequences = static_cast<int32_t>(batch);
    const PlannedMachine& machine = report.machine;
    critical.push_back(
        {.sequences = sequences,
         .any = critical_context(machine, sequences, any, report.longest_context, options),
         .self = critical_context(machine, sequences, self, report.longest_context, options),
         .longest = longest_context(machine, sequences, any, report.longest_context)});
  }
  return critical;
}

Status write_surface(const std::string& path, const PlanReport& report,
                     const std::vector<int64_t>& batches, const std::vector<int64_t>& contexts,
                     const RankOptions& options) {
  const std::vector<SpeculationCandidate> candidates = bare(report.candidates);
  SurfacePicture picture;
  picture.title = report.model + (report.draft.empty() ? "" : " with " + report.draft) + " on " +
                  report.machine.name + ": what speculation is predicted to gain";
  std::string acceptance;
  for (const PlanCandidate& each : report.candidates) {
    acceptance += (acceptance.empty() ? "acceptance: " : "; ") + each.name + " " +
                  format_fixed(each.candidate.acceptance, 2);
  }
  picture.subtitles = {"over plain decoding, by batch and context", acceptance};
  picture.batches.assign(batches.begin(), batches.end());
  picture.contexts = contexts;
  picture.plan = [&](const BatchLoad& load) {
    return plan_batch(report.machine, load, candidates, options);
  };
  picture.label_of = [&](int32_t candidate) {
    const SpeculationCandidate& each = candidates[static_cast<size_t>(candidate)];
    if (each.draft.model == Role::kTarget) return each.view;
    return each.view.empty() ? std::string("draft") : "draft " + each.view;
  };
  return write_output("--svg", path, surface_svg(picture));
}

Status run_plan(const PlanFlags& flags) {
  FORERUN_ASSIGN_OR_RETURN(const std::vector<int64_t> batches,
                           numbers("--batch", flags.batches, kMaxBatch));
  FORERUN_ASSIGN_OR_RETURN(const std::vector<int64_t> contexts,
                           numbers("--context", flags.contexts, kMaxContext));
  FORERUN_ASSIGN_OR_RETURN(const std::vector<int64_t> budgets,
                           numbers("--budgets", flags.budgets, kMaxContext));
  FORERUN_ASSIGN_OR_RETURN(const NamedConfig target, read_config(flags.model));
  std::optional<NamedConfig> draft;
  if (!flags.draft.empty()) {
    FORERUN_ASSIGN_OR_RETURN(draft, read_config(flags.draft));
  }
  if (flags.gpus.empty() == flags.engine.devices.empty()) {
    return refuse("--gpus, --devices", flags.gpus.empty() ? "neither" : "both", "one of them");
  }
  if (!flags.gpus.empty() && !flags.engine.draft_devices.empty()) {
    return refuse("--draft-devices", "\"" + flags.engine.draft_devices + "\" beside --gpus",
                  "--draft-devices with --devices, since both models use all of --gpus");
  }
  if (contexts.back() > target.config.max_position) {
    return refuse("--context", std::to_string(contexts.back()),
                  "up to the model's " + std::to_string(target.config.max_position) + " tokens");
  }
  const RankOptions options{.max_gamma = flags.max_guesses,
                            .round_overhead = 1e-3 * flags.overhead_ms};
  PlanReport report;
  report.model = target.name;
  if (draft) report.draft = draft->name;
  FORERUN_ASSIGN_OR_RETURN(report.candidates,
                           make_candidates({.has_draft_model = draft.has_value(),
                                            .views = flags.views,
                                            .budgets = budgets,
                                            .acceptance = flags.acceptance,
                                            .longest_context = contexts.back()}));
  if (flags.gpus.empty()) {
    // Models that cannot be described (attention windows) are not measured either.
    FORERUN_RETURN_IF_ERROR(device_work(target.config, 1).status());
    FORERUN_ASSIGN_OR_RETURN(report.machine, measured_machine(flags, report.machine_note));
  } else {
    FORERUN_ASSIGN_OR_RETURN(const GpuGroup group, parse_gpus(flags.gpus));
    FORERUN_ASSIGN_OR_RETURN(
        report.machine, describe_machine(group, target.config, draft ? &draft->config : nullptr));
    report.machine_note = machine_note(group);
  }
  const std::vector<SpeculationCandidate> candidates = bare(report.candidates);
  for (const int64_t batch : batches) {
    for (const int64_t context : contexts) {
      report.plans.push_back(plan_batch(
          report.machine, {.sequences = static_cast<int32_t>(batch), .context_tokens = context},
          candidates, options));
    }
  }
  report.longest_context = target.config.max_position;
  report.critical = find_critical(report, batches, options);
  report.has_inflection = batches.size() > 1;
  if (report.has_inflection) {
    report.inflection = inflection_context(report.machine, static_cast<int32_t>(batches.front()),
                                           static_cast<int32_t>(batches.back()), candidates,
                                           report.longest_context, options);
  }
  if (!flags.svg_path.empty()) {
    FORERUN_RETURN_IF_ERROR(write_surface(flags.svg_path, report, batches, contexts, options));
  }
  std::cout << (flags.json ? plan_json(report) : plan_text(report, flags.all)) << std::flush;
  return Status();
}

std::string listed_gpus() {
  std::string names;
  for (const GpuSpec& gpu : known_gpus()) names += (names.empty() ? "" : ", ") + gpu.name;
  return names;
}

std::string listed_views() {
  std::string names;
  for (const OptionChoice& view : kv_view_choices()) {
    names += (names.empty() ? "" : ", ") + view.name + " (" + view.help + ")";
  }
  return names;
}

}  // namespace

Command add_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "plan", "Predict what speculation gains by batch and context, and where it begins to pay");
  auto flags = std::make_shared<PlanFlags>();
  command
      ->add_option("-m,--model", flags->model,
                   "Checkpoint directory, org/name in the cache, or a config.json alone")
      ->required();
  command->add_option("-d,--draft", flags->draft, "The same for a draft model");
  command->add_option("--gpus", flags->gpus,
                      "GPUs, also ones that this machine lacks: NAME or NAME:COUNT, of " +
                          listed_gpus() +
                          "; or bandwidth=GB/s,tflops=TFLOP/s,memory=GB,link=GB/s:COUNT");
  command->add_option("--devices", flags->engine.devices,
                      "Measure these devices of this machine instead: cpu:0-3, cuda:0,cuda:1");
  command->add_option("--draft-devices", flags->engine.draft_devices,
                      "Devices of the draft alone, where they are measured");
  add_cost_flags(*command, flags->engine);
  command
      ->add_option("--batch", flags->batches, "Sequences that decode at once, for example 1,8,32")
      ->delimiter(',')
      ->required();
  command
      ->add_option("--context", flags->contexts, "Tokens of each sequence, for example 2000,32000")
      ->delimiter(',')
      ->required();
  command
      ->add_option("--views", flags->views,
                   "What the target sees of its own cache when it guesses: " + listed_views() +
                       " (default: those with a published or given acceptance)")
      ->delimiter(',');
  command
      ->add_option("--budgets", flags->budgets,
                   "Tokens that a view shows (default: the published ones)")
      ->delimiter(',');
  command
      ->add_option("--acceptance", flags->acceptance,
                   "How often a guess is right: VIEW=A, VIEW:K=A, draft=A, draft/VIEW:K=A "
                   "(default: assumed, from MagicDec's tables)")
      ->delimiter(',');
  command->add_option("--max-guesses", flags->max_guesses, "Most guesses a round")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--overhead-ms", flags->overhead_ms, "Time of a round beside its Steps")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  command->add_flag("--all", flags->all,
                    "Show every number of guesses, not only each candidate's best");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_option("--svg", flags->svg_path, "Draw the speed-up over batch and context here");
  command->footer(
      "Example:\n  forerun plan --model models/demo-target --gpus h200 --batch 1,8,32 \\\n"
      "    --context 2000,8000 --budgets 512\n"
      "  forerun plan --model models/demo-target --draft models/demo-draft --devices cpu \\\n"
      "    --batch 1,4 --context 2000\n"
      "docs/planning.md explains the figures.");
  return {command, [flags] { return run_plan(*flags); }};
}

}  // namespace forerun::app
