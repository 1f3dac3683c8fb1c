#include "engine/load/device_splits.h"

#include <chrono>
#include <utility>

#include "base/status_macros.h"
#include "engine/load/load_models.h"
#include "engine/load/loaded_costs.h"
#include "engine/load/make_executor.h"

namespace forerun {

std::vector<Placement> splits_of(const Placement& whole) {
  const std::vector<CpuCores>& devices = whole.target.devices;
  const std::vector<int32_t>& cores = devices.front().cores;
  const bool is_group = devices.size() > 1;
  const auto total = static_cast<int32_t>(is_group ? devices.size() : cores.size());
  const auto is_tried = [total](int32_t drafts) {
    const bool is_power = (drafts & (drafts - 1)) == 0;
    return total <= 8 || 2 * drafts == total || (is_power && 2 * drafts < total);
  };
  std::vector<Placement> splits = {whole};
  for (int32_t drafts = 1; drafts < total; ++drafts) {
    if (!is_tried(drafts)) continue;
    Placement split{.target = {}, .draft = ModelPlacement{}};
    if (is_group) {
      split.target.devices.assign(devices.begin(), devices.end() - drafts);
      split.draft->devices.assign(devices.end() - drafts, devices.end());
    } else {
      split.target.devices = {{.cores = {cores.begin(), cores.end() - drafts}}};
      split.draft->devices = {{.cores = {cores.end() - drafts, cores.end()}}};
    }
    splits.push_back(std::move(split));
  }
  return splits;
}

std::vector<Split> LoadedSplits::splits() const {
  std::vector<Split> splits;
  for (const Placement& placement : placements_) {
    splits.push_back({.name = describe(placement), .concurrent = !placement.sequential()});
  }
  return splits;
}

Status LoadedSplits::load(size_t index) {
  take_models();  // frees its threads and memory first
  FORERUN_ASSIGN_OR_RETURN(models_, load_models(to_load_, placements_[index]));
  return Status();
}

Result<StepCosts> LoadedSplits::measure() {
  executor_.reset();
  executor_ = make_executor(*models_, {});
  FORERUN_ASSIGN_OR_RETURN(StartCosts found,
                           costs_of(cost_place(to_load_, *models_), *models_, *executor_,
                                    to_load_.options->measure_anew, {}));
  return std::move(found.costs);
}

double LoadedSplits::now_seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<LoadedModels> LoadedSplits::take_models() {
  executor_.reset();
  return std::move(models_);
}

Result<TriedSplits> try_splits(const ModelsToLoad& to_load, const Placement& whole,
                               const ModelFacts& facts) {
  const EngineOptions& options = *to_load.options;
  LoadedSplits models(to_load, splits_of(whole));
  SplitTrials trials;
  trials.splits = models.splits();
  trials.source = options.speculation.source;
  trials.models = facts;
  if (options.on_progress) {
    trials.on_progress = [&options](double done) { options.on_progress("trying splits", done); };
  }
  const Tokenizer& tokenizer = to_load.of(Role::kTarget).opened->tokenizer();
  for (const char* text : {"def main(args):\n    ", "The old house stood at the end of the"}) {
    FORERUN_ASSIGN_OR_RETURN(std::vector<int32_t> prompt,
                             tokenizer.encode(text, {.add_special_tokens = true}));
    trials.prompts.push_back(std::move(prompt));
  }
  FORERUN_ASSIGN_OR_RETURN(ChosenSplit chosen, choose_split(models, trials));
  return TriedSplits{std::move(chosen), models.take_models()};
}

}  // namespace forerun
