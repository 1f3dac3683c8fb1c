#include "model/held_tensors.h"

#include <algorithm>

namespace forerun {

std::vector<ModuleTensor> held_tensors(const Checkpoint& checkpoint,
                                       std::span<const LayerRange> stages) {
  std::vector<ModuleTensor> held;
  for (const Module& module : decoder_modules(checkpoint.config())) {
    const bool is_held = std::any_of(stages.begin(), stages.end(), [&](const LayerRange& stage) {
      return stage.holds(module.id, checkpoint.config());
    });
    if (!is_held) continue;
    for (ModuleTensor& tensor : checkpoint.tensors_of(module.id)) held.push_back(std::move(tensor));
  }
  return held;
}

int64_t held_bytes(const Checkpoint& checkpoint, const LayerRange& stage) {
  int64_t bytes = 0;
  for (const ModuleTensor& each : held_tensors(checkpoint, {&stage, 1})) {
    bytes += static_cast<int64_t>(each.tensor->bytes.size());
  }
  return bytes;
}

}  // namespace forerun
