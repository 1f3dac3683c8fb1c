#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "device/cuda/cuda_devices.h"
#include "engine/load/gpu.h"
#include "model/cuda/load_decoder.h"
#include "model/shard_plan.h"

namespace forerun {

Result<std::vector<GpuDescription>> describe_gpus() {
  constexpr size_t kReadBytes = size_t{2} << 30;  // many times the size of the L2 cache
  constexpr size_t kCopyBytes = size_t{256} << 20;
  FORERUN_ASSIGN_OR_RETURN(const std::vector<cuda::DeviceInfo> devices, cuda::list_devices());
  std::vector<GpuDescription> gpus;
  for (const cuda::DeviceInfo& device : devices) {
    GpuDescription gpu{.name = device.name,
                       .compute_capability = std::to_string(device.compute_major) + "." +
                                             std::to_string(device.compute_minor),
                       .multiprocessors = device.multiprocessors,
                       .memory_bytes = device.memory_bytes,
                       .free_bytes = device.free_bytes,
                       .read_bytes_per_s = 0,
                       .link_bytes_per_s = {}};
    FORERUN_RETURN_IF_ERROR(cuda::use_device(device.index));
    // A bandwidth that cannot be measured (too little free memory, or a GPU without built kernels)
    // stays 0.
    const auto read = cuda::measure_read_bandwidth(kReadBytes);
    if (read.ok()) gpu.read_bytes_per_s = *read;
    for (size_t other = 0; other < devices.size(); ++other) {
      double& link = gpu.link_bytes_per_s.emplace_back(0.0);
      if (!device.peer_access[other]) continue;
      const auto copied =
          cuda::measure_copy_bandwidth(device.index, static_cast<int>(other), kCopyBytes);
      if (copied.ok()) link = *copied;
    }
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

namespace {

Result<cuda::DeviceInfo> info_of(int32_t gpu) {
  FORERUN_ASSIGN_OR_RETURN(const std::vector<cuda::DeviceInfo> devices, cuda::list_devices());
  std::string seen;
  for (const cuda::DeviceInfo& device : devices) {
    if (device.index == gpu) return device;
    seen += (seen.empty() ? "cuda:" : ", cuda:") + std::to_string(device.index);
  }
  return Status(StatusCode::kNotFound,
                "devices: found cuda:" + std::to_string(gpu) + "; accepted: " +
                    (seen.empty() ? "processors, since this process sees no GPU" : seen));
}

}  // namespace

Result<std::string> gpu_model(int32_t gpu) {
  FORERUN_ASSIGN_OR_RETURN(const cuda::DeviceInfo device, info_of(gpu));
  return device.name + ", " + std::to_string(device.multiprocessors) + " multiprocessors";
}

Result<std::string> gpu_uuid(int32_t gpu) {
  FORERUN_ASSIGN_OR_RETURN(const cuda::DeviceInfo device, info_of(gpu));
  return device.uuid;
}

Result<DeviceMemory> gpu_memory(int32_t gpu) {
  const Status chosen = cuda::use_device(gpu);
  if (!chosen.ok()) return chosen.with_context("devices");
  FORERUN_ASSIGN_OR_RETURN(const int64_t free_bytes, cuda::free_memory());
  return DeviceMemory{.name = "cuda:" + std::to_string(gpu), .available_bytes = free_bytes};
}

Result<std::vector<MemoryNeed>> gpu_memory_needs(const Checkpoint& checkpoint,
                                                 const LayerRange& layers, int32_t degree,
                                                 WeightOverride weights,
                                                 const TargetOfHead& target) {
  const ModelConfig& config = checkpoint.config();
  const auto plan = make_shard_plan(config, degree, config.vocab_size);
  if (!plan.ok()) return plan.status().with_context(checkpoint.path().string());
  return cuda::estimate_decoder_cuda_memory(checkpoint, *plan, layers, weights, target);
}

Result<std::unique_ptr<Decoder>> load_on_gpus(const Checkpoint& checkpoint,
                                              GpuDecoderOptions options) {
  cuda::DecoderCudaOptions on_gpus;
  on_gpus.devices = std::move(options.gpus);
  on_gpus.layers = options.layers;
  on_gpus.kv_blocks = options.kv_blocks;
  on_gpus.live_vocab = options.live_vocab;
  on_gpus.weights = options.weights;
  on_gpus.taps = std::move(options.taps);
  on_gpus.target = options.target;
  on_gpus.target_decoder = options.target_decoder;
  on_gpus.progress = std::move(options.progress);
  return cuda::load_decoder_cuda(checkpoint, std::move(on_gpus));
}

}  // namespace forerun
