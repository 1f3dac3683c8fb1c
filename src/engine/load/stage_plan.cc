#include "engine/load/stage_plan.h"

#include <string>

#include "base/status_macros.h"
#include "model/decoder_memory.h"
#include "model/shard_plan.h"

namespace forerun {

int32_t stages_of(const EngineOptions& options) {
  if (options.stages != 0) return options.stages;
  return static_cast<int32_t>(options.stage_layers.size());
}

Result<std::vector<LayerRange>> plan_stages(const Checkpoint& checkpoint, WeightOverride weights,
                                            Activation activation, bool on_gpus, int32_t stages,
                                            const std::vector<int32_t>& stage_layers) {
  const ModelConfig& config = checkpoint.config();
  const std::string where = checkpoint.path().string();
  if (!stage_layers.empty()) {
    if (static_cast<int32_t>(stage_layers.size()) != stages) {
      return Status(StatusCode::kInvalidArgument, "stage layers: found " +
                                                      std::to_string(stage_layers.size()) +
                                                      " numbers; accepted: one for each of " +
                                                      std::to_string(stages) + " stages");
    }
    auto cut = cut_layers(stage_layers, config);
    if (!cut.ok()) return cut.status().with_context(where);
    return cut;
  }
  FORERUN_ASSIGN_OR_RETURN(const ShardPlan whole, make_shard_plan(config, 1, config.vocab_size));
  const auto bytes_of = [&](const LayerRange& layers) {
    return estimate_group_memory(checkpoint, weights, activation, whole, layers)
        .front()
        .weight_bytes;
  };
  const int32_t last = config.num_layers - 1;
  std::vector<int64_t> layer_bytes;
  for (int32_t layer = 0; layer <= last; ++layer) {
    layer_bytes.push_back(bytes_of({layer, layer + 1, false, false}));
  }
  const int64_t head_bytes = bytes_of({last, last + 1, false, true}) - layer_bytes.back();
  const int64_t embedding_bytes = on_gpus ? bytes_of({0, 1, true, false}) - layer_bytes.front() : 0;
  auto cut = balance_layers(stages, layer_bytes, embedding_bytes, head_bytes, config);
  if (!cut.ok()) return cut.status().with_context(where);
  return cut;
}

}  // namespace forerun
