// Predicts the costs of a model's Steps on GPUs that are not available, from the model's config and
// the GPUs' peaks.
//
// The time of a Step is the sum, not the maximum, of the time to read the weights and the time to
// compute the rows, because forward passes of this project take that long (8B bf16 on one H200 at
// 1, 32, 128, 512 and 1,024 rows: 3.9, 4.6, 7.3, 18.0 and 31.9 ms; by this formula 3.8, 4.7, 7.5,
// 19.0 and 34.2 ms). The formula adds the host's time (HostSeconds), two all-reduces a layer in a
// group, and the slopes of StepCosts: for each token read from the KV cache, each attended pair and
// each sequence.
//
// Thread rules: pure.
#pragma once

#include <cstdint>

#include "checkpoint/model_config.h"
#include "forerun/status.h"
#include "planner/gpu_spec.h"
#include "step/step_costs.h"
#include "step/types.h"

namespace forerun {

// The work of one device of a group, the device with the most weights in the model's shard plan.
struct DeviceWork {
  double weight_bytes = 0.0;    // bytes that every Step reads: the layers and the head
  double resident_bytes = 0.0;  // weight_bytes and the embedding
  double row_flops = 0.0;       // FLOPs per row without attention
  double kv_token_bytes = 0.0;  // bytes of K and V per token in bf16, all layers
  double pair_flops = 0.0;      // FLOPs of attention from one row to one token
  int32_t num_layers = 0;
  int32_t hidden_size = 0;
  int32_t head_dim = 0;
};

// Fails if make_shard_plan() fails, and for models with attention windows: their reads of the KV
// cache do not grow with the context, and they refuse views.
Result<DeviceWork> device_work(const ModelConfig& config, int32_t degree);

// Adds the costs of a role's Steps to `costs`, which must have none for that role yet.
void add_roofline(const DeviceWork& work, const GpuGroup& group, Role role, StepCosts& costs);

}  // namespace forerun
