// Tests the roofline model against measured rounds: rows of MagicDec's tables that
// bench/fit_roofline.py does not fit, and this project's records on H200 (bench/results). The
// tokens of a round are those that the rows print, so that only time is compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "exec/emulated/step_profile.h"
#include "planner/gpu_spec.h"
#include "planner/roofline.h"
#include "planner/speculation_costs.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

// Names of models in magicdec.json begin with the first entry; the second is a file of
// bench/profiles/models.
constexpr std::array<std::pair<const char*, const char*>, 7> kModels = {
    {{"TinyLlama-1.1B", "tinyllama-1.1b"},
     {"Llama3.2-1B", "llama-3.2-1b"},
     {"Llama3.1-8B", "llama-3.1-8b"},
     {"Llama2-7B-32K", "llama-2-7b-32k"},
     {"Mistral-7B-v0.3", "mistral-7b-v0.3"},
     {"Qwen-2.5-7B", "qwen2.5-7b"},
     {"Qwen-2.5-32B", "qwen2.5-32b"}}};

std::string text_of(const fs::path& file) {
  std::ifstream in(fs::path(FORERUN_SOURCE_DIR) / file);
  EXPECT_TRUE(in.good()) << file;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

ModelConfig config_of_model(const std::string& model) {
  auto config = parse_model_config(text_of("bench/profiles/models/" + model + ".json"), model);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return *config;
}

std::string model_named(const std::string& name) {
  for (const auto& [start, model] : kModels) {
    if (name.starts_with(start)) return model;
  }
  ADD_FAILURE() << name;
  return "";
}

StepCosts costs_of(const GpuGroup& group, const ModelConfig& target, const ModelConfig* draft,
                   int32_t draft_gpus) {
  StepCosts costs;
  add_roofline(device_work(target, group.count).value(), group, Role::kTarget, costs);
  if (draft != nullptr) {
    add_roofline(device_work(*draft, draft_gpus).value(), {group.gpu, draft_gpus}, Role::kDraft,
                 costs);
  }
  return costs;
}

struct Errors {
  int rows = 0;
  int within = 0;  // speed-ups with a small error
  int signs = 0;   // gain or loss as printed
  double worst = 0.0;
  std::string beyond = {};  // for messages

  void add(const std::string& row, double predicted, double printed, double bound) {
    const double error = predicted / printed - 1.0;
    ++rows;
    within += std::abs(error) <= bound ? 1 : 0;
    signs += (predicted > 1.0) == (printed > 1.0) ? 1 : 0;
    worst = std::max(worst, std::abs(error));
    if (std::abs(error) <= bound) return;
    std::array<char, 48> numbers{};
    std::snprintf(numbers.data(), numbers.size(), ": %.2f for %.2f\n", predicted, printed);
    beyond += row + numbers.data();
  }
};

// Returns the tokens that a draft row of a profile sees: the paper's best budgets (section 5.2),
// 512 in Table 3.
int64_t budget_of(const StepProfile& profile) {
  const std::string& draft = profile.models[static_cast<size_t>(Role::kDraft)];
  if (draft.find("SnapKV") != std::string::npos) return 2049;
  if (draft.find("StreamingLLM") != std::string::npos) return 512;
  for (const std::string& note : profile.notes) {
    if (note.find("budget=512") != std::string::npos) return 512;
  }
  return 0;
}

TEST(RooflineTables, HeldOutRowsOfMagicDec) {
  const auto profiles =
      read_step_profiles(fs::path(FORERUN_SOURCE_DIR) / "bench/profiles/magicdec.json");
  ASSERT_TRUE(profiles.ok()) << profiles.status().message();
  // Every second row of a table, starting with the first, is fitted. Profiles are sorted by name;
  // rows of a table are in the file's order, which equals the order of its profiles' names.
  const nlohmann::ordered_json file =
      nlohmann::ordered_json::parse(text_of("bench/profiles/magicdec.json"));
  std::map<std::string, int> row_of_table;
  Errors errors;
  for (const auto& entry : file["profiles"].items()) {
    const std::string& name = entry.key();
    const auto found = std::find_if(profiles->begin(), profiles->end(),
                                    [&](const StepProfile& each) { return each.name == name; });
    ASSERT_NE(found, profiles->end()) << name;
    const StepProfile& profile = *found;
    if (profile.rounds.empty()) continue;
    const std::string& target_name = profile.models[static_cast<size_t>(Role::kTarget)];
    const std::string& draft_name = profile.models[static_cast<size_t>(Role::kDraft)];
    const bool itself = draft_name.find("self-speculation") != std::string::npos;
    std::string gpu = profile.machine.substr(profile.machine.rfind(' ') + 1);
    std::transform(gpu.begin(), gpu.end(), gpu.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const int32_t count = std::stoi(profile.machine);
    const GpuGroup group = parse_gpus(gpu + ":" + std::to_string(count)).value();
    const ModelConfig target = config_of_model(model_named(target_name));
    const ModelConfig draft = config_of_model(model_named(draft_name));
    // A draft model is spread over at most as many GPUs as it has KV heads, as the paper runs
    // Qwen-2.5-7B.
    const StepCosts costs =
        costs_of(group, target, itself ? nullptr : &draft, std::min(count, draft.num_kv_heads));
    for (const PublishedRound& round : profile.rounds) {
      if (row_of_table[round.source]++ % 2 == 0) continue;
      const RoundSeconds times = round_seconds(
          costs, {.sequences = round.batch, .context_tokens = round.prefill},
          {.model = itself ? Role::kTarget : Role::kDraft, .budget_tokens = budget_of(profile)},
          round.gamma, group.gpu.host.round);
      errors.add(name + " " + std::to_string(round.batch) + " x " + std::to_string(round.prefill),
                 predicted_speedup(times, round.gamma, round.tokens_per_round), round.speedup,
                 0.12);
    }
  }
  RecordProperty("worst", std::to_string(errors.worst));
  EXPECT_EQ(errors.rows, 42);
  EXPECT_EQ(errors.within, errors.rows) << errors.beyond;
  EXPECT_GE(errors.signs, 0.95 * errors.rows);
}

// Returns the strategy of a record as an option. Plans assume that a hierarchy's view accepts a
// draft model's tokens as often as the target does. `window`: the part of a request's KV that the
// draft model keeps; 0: all.
DraftOption option_of(const nlohmann::json& row, int64_t window) {
  constexpr double kDraftAcceptance = 0.66;
  const std::string strategy = row["strategy"];
  DraftOption option = {.model = strategy.starts_with("draft") ? Role::kDraft : Role::kTarget,
                        .budget_tokens = row.value("budget", 0)};
  if (option.model == Role::kDraft && option.budget_tokens == 0) option.budget_tokens = window;
  if (strategy.starts_with("hierarchy")) {
    option.checks = {.guesses = row["check_rows"].get<int32_t>() - 1,
                     .by_model = true,
                     .budget_tokens = option.budget_tokens,
                     .acceptance = kDraftAcceptance};
  }
  return option;
}

// Compares with this project's measurements of 8B bf16 on one and two H200, alone and with a 1B
// draft with int4 layers.
TEST(RooflineTables, OwnRoundsOnH200) {
  const ModelConfig target = config_of_model("llama-3.1-8b");
  const ModelConfig draft = config_of_model("llama-3.2-1b-int4");
  Errors errors;
  for (const char* record : {"speculation-cuda-2026-11-23", "cuda-magicdec-2026-11-22",
                             "cuda-hierarchy-2026-11-23", "cuda-draft-window-2026-11-23"}) {
    const auto file =
        nlohmann::json::parse(text_of("bench/results/" + std::string(record) + ".json"));
    const auto runs = file.value("runs", nlohmann::json::array({file}));
    for (const auto& run : runs) {
      const std::string command = run.value("command", "");
      const bool two = command.find("cuda:1") != std::string::npos;
      const bool keeps_window = command.find("--draft-window 2048") != std::string::npos;
      const GpuGroup group = parse_gpus(two ? "h200:2" : "h200").value();
      const StepCosts costs = costs_of(group, target, &draft, 1);
      for (const auto& row : run["rows"]) {
        const std::string strategy = row["strategy"];
        if (strategy == "autoregressive") continue;
        const BatchLoad load = {.sequences = row.value("requests", 16),
                                .context_tokens = row.value("context", 32000)};
        const int32_t gamma = row["gamma"];
        const RoundSeconds times = round_seconds(
            costs, load, option_of(row, keeps_window ? 2048 : 0), gamma, group.gpu.host.round);
        errors.add(strategy + " " + std::to_string(load.sequences) + " x " +
                       std::to_string(load.context_tokens) + ", gamma " + std::to_string(gamma),
                   predicted_speedup(times, gamma, row["tokens_a_round"]), row["speed_up"], 0.1);
      }
    }
  }
  RecordProperty("within", std::to_string(errors.within) + " of " + std::to_string(errors.rows));
  EXPECT_EQ(errors.rows, 143);
  EXPECT_GE(errors.within, 0.9 * errors.rows) << errors.beyond;
}

}  // namespace
}  // namespace forerun
