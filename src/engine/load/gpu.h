// The engine's interface to the GPU backend. An engine built without the backend refuses GPUs by
// name.
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
  // Measured bandwidth of reading its memory; 0 if the measurement failed.
  double read_bytes_per_s = 0;
  // Measured bandwidth to each other GPU; 0 for itself and for GPUs without peer access.
  std::vector<double> link_bytes_per_s;
};
// Returns nothing if there is no GPU or no backend. Allocates up to 2 GB on each GPU for a moment.
Result<std::vector<GpuDescription>> describe_gpus();

// Returns the GPU's model: "NVIDIA H200, 132 multiprocessors". Fails as gpu_memory() does.
Result<std::string> gpu_model(int32_t gpu);
// Returns the GPU's UUID, which is the same in every process and container. Fails as gpu_memory()
// does.
Result<std::string> gpu_uuid(int32_t gpu);
// Returns the GPU's free memory, without any needs. Fails with kUnsupported if this build has no
// GPU backend, and with kNotFound if there is no such GPU; the message names the existing ones.
Result<DeviceMemory> gpu_memory(int32_t gpu);
// Returns the memory that these layers of a model need on each of `degree` GPUs, by rank. `weights`
// is kAsStored, kInt8Head or, for a draft, kInt4Head or kInt4. Fails as make_shard_plan() does.
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
  // Set only for a trained head: the target model, and the target's decoder on GPUs. The head runs
  // on the first of these GPUs. The target's decoder must outlive the head's.
  const Checkpoint* target = nullptr;
  const Decoder* target_decoder = nullptr;
  // Called with the fraction of the weights that has been loaded.
  std::function<void(double)> progress;
};
Result<std::unique_ptr<Decoder>> load_on_gpus(const Checkpoint& checkpoint,
                                              GpuDecoderOptions options);

}  // namespace forerun
