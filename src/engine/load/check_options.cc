#include "engine/load/check_options.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "engine/load/model_transfer.h"
#include "views/view_table.h"

namespace forerun {
namespace {

Status check_try_splits(const EngineOptions& options, const Placement& placement) {
  if (!options.try_splits) return Status();
  const auto refused = [](const std::string& found) {
    return Status(StatusCode::kInvalidArgument,
                  "--auto (splits of the processors between target and draft): found " + found);
  };
  if (options.draft.empty()) return refused("no draft model; accepted with --auto: one");
  if (options.speculation.strategy != "auto") {
    return refused("strategy '" + options.speculation.strategy +
                   "'; accepted with --auto: strategy auto");
  }
  if (placement.draft) {
    return refused("draft devices '" + options.draft_devices +
                   "'; accepted with --auto: no draft devices");
  }
  if (placement.target.on_gpus()) {
    return refused("devices '" + options.devices + "'; accepted with --auto: processors");
  }
  if (placement.on_hosts) return refused("several hosts; accepted with --auto: one host");
  if (placement.target.num_stages() > 1) {
    return refused(std::to_string(placement.target.num_stages()) +
                   " stages; accepted with --auto: a target that is not cut");
  }
  if (!options.emulate.empty()) {
    return refused("a machine to emulate; accepted with --auto: no --emulate");
  }
  return Status();
}

Status check_draft_weights(const EngineOptions& options) {
  if (!options.draft.empty() || options.draft_weights == EngineOptions().draft_weights) return {};
  return Status(StatusCode::kInvalidArgument,
                "draft_weights: found '" + options.draft_weights +
                    "', but there is no draft model; accepted without one: '" +
                    EngineOptions().draft_weights + "'");
}

Status check_draft_window(const EngineOptions& options) {
  if (options.draft_window == 0) return Status();
  if (options.draft.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "draft_window: found " + std::to_string(options.draft_window) +
                      ", but there is no draft model; accepted without one: 0");
  }
  return window_view().check(options.draft_window).with_context("draft_window");
}

}  // namespace

Status check_options(const EngineOptions& options, const Placement& placement) {
  if (placement.draft && options.draft.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "draft devices: found '" + options.draft_devices +
                      "', but there is no draft model; accepted without one: no draft devices");
  }
  FORERUN_RETURN_IF_ERROR(check_draft_weights(options));
  if (options.max_active_requests < 1) {
    return Status(StatusCode::kInvalidArgument, "max_active_requests: found " +
                                                    std::to_string(options.max_active_requests) +
                                                    "; accepted: at least 1");
  }
  const std::vector<std::string>& names = send_model_names();
  if (std::find(names.begin(), names.end(), options.send_model) == names.end()) {
    return Status(StatusCode::kInvalidArgument, "send_model: found '" + options.send_model +
                                                    "'; accepted: missing, always, never");
  }
  constexpr double kLongestBudgetMs = 60'000.0;
  if (!(options.step_budget_ms >= 0.0 && options.step_budget_ms <= kLongestBudgetMs)) {
    return Status(StatusCode::kInvalidArgument,
                  "step_budget_ms: found " + std::to_string(options.step_budget_ms) +
                      "; accepted: 0 (chosen by what Steps cost) to 60000");
  }
  if (options.max_waiting_requests < -1) {
    return Status(StatusCode::kInvalidArgument, "max_waiting_requests: found " +
                                                    std::to_string(options.max_waiting_requests) +
                                                    "; accepted: 0 or more, or -1 (no limit)");
  }
  constexpr double kLongestAgeingS = 86'400.0;
  if (!(options.priority_ageing_s >= 0.0 && options.priority_ageing_s <= kLongestAgeingS)) {
    return Status(StatusCode::kInvalidArgument,
                  "priority_ageing_s: found " + std::to_string(options.priority_ageing_s) +
                      "; accepted: 0 (waiting raises no priority) to 86400");
  }
  if (options.max_logprobs < 0) {
    return Status(
        StatusCode::kInvalidArgument,
        "max_logprobs: found " + std::to_string(options.max_logprobs) + "; accepted: at least 0");
  }
  FORERUN_RETURN_IF_ERROR(check_draft_window(options));
  return check_try_splits(options, placement);
}

Result<std::unique_ptr<StepEmulator>> make_emulator(const EngineOptions& options,
                                                    const Placement& placement) {
  if (options.emulate.empty()) return std::unique_ptr<StepEmulator>();
  auto profile = load_step_profile(options.emulate);
  if (!profile.ok()) return profile.status().with_context("emulate");
  if (!options.draft.empty() && !profile->has(Role::kDraft)) {
    return Status(StatusCode::kInvalidArgument,
                  "emulate: profile " + profile->name +
                      " has no times for a draft; accepted: a profile that has them, or no draft");
  }
  if (!placement.sequential() && !profile->separate_devices) {
    return Status(
        StatusCode::kInvalidArgument,
        "draft devices: found '" + options.draft_devices + "', but profile " + profile->name +
            " runs both models on the same devices sequentially; accepted with this profile: no "
            "draft devices, or GPUs of the target");
  }
  // If both models share their devices, only their sleeps overlap.
  return std::make_unique<StepEmulator>(std::move(*profile), placement.sequential());
}

}  // namespace forerun
