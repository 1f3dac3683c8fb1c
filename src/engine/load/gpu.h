// The GPU backend as the engine sees it. An engine built without it refuses GPUs by name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"
#include "model/decoder.h"
#include "model/decoder_weights.h"
#include "model/device_memory.h"
#include "model/head_ports.h"
#include "model/layer_range.h"
#include "model/tap_store.h"

namespace forerun {

struct GpuDescription {
  std::string name;
  std::string compute_capability;  // "9.0"
  int32_t multiprocessors = 0;
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;
  double read_bytes_per_s = 0;  // rate of reading its memory, measured; 0 where that failed
  // Measured bandwidth to each other GPU; 0 for itself and where there is no peer access.
  std::vector<double> link_bytes_per_s;
};
// Empty where there is no GPU, or no backend for one. Takes up to 2 GB of each for a moment.
Result<std::vector<GpuDescription>> describe_gpus();

// The GPU's model: "NVIDIA H200, 132 multiprocessors". Fails as gpu_memory().
Result<std::string> gpu_model(int32_t gpu);
// The GPU's UUID, the same in every process and container. Fails as gpu_memory().
Result<std::string> gpu_uuid(int32_t gpu);
// The GPU's free memory, with no needs filled in. kUnsupported where this build has no GPU backend;
// kNotFound where there is no such GPU: the message names those that exist.
Result<DeviceMemory> gpu_memory(int32_t gpu);
// The memory that these layers of a model need on each of `degree` GPUs, by rank. `weights`:
// kAsStored, kInt8Head or, of a draft, kInt4Head or kInt4. Fails as make_shard_plan.
Result<std::vector<MemoryNeed>> gpu_memory_needs(const Checkpoint& checkpoint,
                                                 const LayerRange& layers, int32_t degree,
                                                 WeightOverride weights,
                                                 const TargetOfHead& target);

struct GpuDecoderOptions {
  std::vector<int32_t> gpus;  // by rank; each gets a shard
  LayerRange layers;
  int64_t kv_blocks = 0;
  int32_t live_vocab = 0;
  WeightOverride weights = WeightOverride::kAsStored;
  TapOptions taps;
  // Only for a trained head: the model that it guesses for, and that model's decoder on GPUs, of
  // which the first is the head's. The decoder must outlive the head's.
  const Checkpoint* target = nullptr;
  const Decoder* target_decoder = nullptr;
  std::function<void(double)> progress;  // gets the fraction of the weights that is loaded
};
Result<std::unique_ptr<Decoder>> load_on_gpus(const Checkpoint& checkpoint,
                                              GpuDecoderOptions options);

}  // namespace forerun
