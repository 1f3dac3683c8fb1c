// What Steps of a model would cost on GPUs that are not at hand, from the model's config and the
// GPUs' peaks.
//
// A Step takes the sum, not the larger, of reading the weights and computing its rows: that is what
// forwards of this project measure (8B bf16 on one H200 at 1, 32, 128, 512 and 1,024 rows: 3.9,
// 4.6, 7.3, 18.0 and 31.9 ms; this formula 3.8, 4.7, 7.5, 19.0 and 34.2). To that come the start
// and end of each layer's kernels, two sums a layer over a group, and the slopes of StepCosts: a
// token of the cache read, a pair attended, a sequence.
//
// Pure.
#pragma once

#include <cstdint>

#include "checkpoint/model_config.h"
#include "forerun/status.h"
#include "planner/gpu_spec.h"
#include "step/step_costs.h"
#include "step/types.h"

namespace forerun {

// What one device of a group does: the fullest one of the model's shard plan.
struct DeviceWork {
  double weight_bytes = 0.0;    // that every Step reads: the layers and the head
  double resident_bytes = 0.0;  // with the embedding
  double row_flops = 0.0;       // a row, attention aside
  double kv_token_bytes = 0.0;  // K and V in bf16, all layers
  double pair_flops = 0.0;      // attention of a row and a token that it sees
  int32_t num_layers = 0;
  int32_t hidden_size = 0;
};

// Fails where make_shard_plan does, and for models with attention windows: what they read of a
// cache does not grow with the context, and views of it are refused.
Result<DeviceWork> device_work(const ModelConfig& config, int32_t degree);

// Puts the Steps of a role's model into `costs`, which has none of that role yet.
void add_roofline(const DeviceWork& work, const GpuGroup& group, Role role, StepCosts& costs);

}  // namespace forerun
