#include "engine/load/models_to_load.h"

#include <string>

#include "base/status_macros.h"
#include "engine/load/model_facts.h"
#include "engine/load/numerics_options.h"

namespace forerun {
namespace {

// Fails if a trained head is not placed where the target's hidden states are.
Status check_head_placement(const EngineOptions& options, const Placement& placement) {
  const auto refused = [&options](const std::string& found, const std::string& accepted) {
    return Status(StatusCode::kUnsupported, "draft " + options.draft +
                                                " is a trained head, which runs on its target's "
                                                "devices: found " +
                                                found + "; accepted with a head: " + accepted);
  };
  if (placement.on_hosts) return refused("several hosts", "one host");
  if (placement.draft) {
    return refused("draft devices '" + options.draft_devices + "'", "no draft devices");
  }
  if (options.try_splits) return refused("--auto, which tries splits of the devices", "no --auto");
  if (!options.emulate.empty()) return refused("a machine to emulate", "no --emulate");
  return {};
}

}  // namespace

Result<ModelsToLoad> models_to_load(const EngineOptions& options, const Placement& placement,
                                    const OpenedModels& opened) {
  FORERUN_ASSIGN_OR_RETURN(NumericsOptions numerics, parse_numerics(options));
  const OpenedModel* const draft = opened.draft_or_null();
  if (draft != nullptr) {
    if (draft->is_head()) FORERUN_RETURN_IF_ERROR(check_head_placement(options, placement));
    if (options.draft_window > 0 && has_window(*draft)) {
      return Status(StatusCode::kInvalidArgument,
                    "draft_window: found " + std::to_string(options.draft_window) +
                        ", but the draft model has layers with a sliding window, which see the "
                        "last tokens only; accepted for such a draft: 0");
    }
    if (!numerics.draft_weights) {
      numerics.draft_weights = choose_draft_weights(*draft, placement.of(Role::kDraft));
    }
  }
  FORERUN_RETURN_IF_ERROR(check_numerics(options, numerics, placement, opened.target, draft));
  ModelsToLoad to_load;
  to_load.models = {{{&opened.target, numerics.weights},
                     {draft, numerics.draft_weights.value_or(WeightOverride::kAsStored)}}};
  to_load.activation = numerics.activation;
  to_load.options = &options;
  to_load.stage_layers = options.stage_layers;
  return to_load;
}

}  // namespace forerun
