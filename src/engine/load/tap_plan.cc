#include "engine/load/tap_plan.h"

#include <algorithm>

#include "base/dtype.h"
#include "engine/load/memory_plan.h"
#include "exec/role/row_taps.h"

namespace forerun {
namespace {

// Number of target rows that verify one tree.
constexpr int64_t kVerifiedRows = 64;

}  // namespace

TapOptions planned_taps(const ModelsToLoad& models, Role role, const LayerRange& layers) {
  const OpenedModel* const draft = models.of(Role::kDraft).opened;
  if (draft == nullptr || !draft->is_head()) return {};
  const ModelConfig& head = draft->checkpoint.config();
  const int64_t requests = std::max(1, models.options->max_active_requests);
  if (role == Role::kDraft) {
    return {.after_layers = {head.num_layers}, .places = requests * kTreeReserveTokens};
  }
  const ModelConfig& target = models.of(Role::kTarget).opened->checkpoint.config();
  // Room for the ends of two prompts, beside the places that every request keeps.
  const TapOptions taps = {.after_layers = fit_eagle3(head, target).value(),
                           .places = 2 * int64_t{TapPlaces::kMaxKept} +
                                     requests * (TapPlaces::kMinKept + kVerifiedRows)};
  return taps_of_stage(taps, layers);
}

int64_t tap_bytes(const ModelsToLoad& models, Role role, const LayerRange& layers) {
  const TapOptions taps = planned_taps(models, role, layers);
  const int64_t values = static_cast<int64_t>(taps.after_layers.size()) *
                         models.of(role).opened->checkpoint.config().hidden_size;
  const DType dtype = models.activation == Activation::kF32 ? DType::kF32 : DType::kBf16;
  return taps.places * values * dtype_bytes(dtype);
}

}  // namespace forerun
