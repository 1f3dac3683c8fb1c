#include <string>
#include <utility>
#include <vector>

#include "device/cuda/cuda_devices.h"
#include "engine/gpu.h"
#include "model/cuda/load_decoder_cuda.h"

namespace forerun {

Result<GpuMemory> gpu_memory(int32_t gpu) {
  FORERUN_ASSIGN_OR_RETURN(const std::vector<cuda::DeviceInfo> devices, cuda::list_devices());
  if (gpu >= static_cast<int32_t>(devices.size())) {
    return Status(
        StatusCode::kNotFound,
        "devices: found cuda:" + std::to_string(gpu) + ", this machine has " +
            (devices.empty() ? "no GPU" : "cuda:0 to cuda:" + std::to_string(devices.size() - 1)));
  }
  return GpuMemory{.free_bytes = devices[static_cast<size_t>(gpu)].free_bytes};
}

GpuModelMemory gpu_model_memory(const Checkpoint& checkpoint) {
  const cuda::DecoderCudaMemory memory = cuda::estimate_decoder_cuda_memory(checkpoint);
  return {memory.weight_bytes, memory.buffer_bytes, memory.kv_block_bytes};
}

Result<std::unique_ptr<Decoder>> load_on_gpu(const Checkpoint& checkpoint, int32_t gpu,
                                             int64_t kv_blocks, int32_t live_vocab,
                                             std::function<void(double)> progress) {
  cuda::DecoderCudaOptions options;
  options.device = gpu;
  options.kv_blocks = kv_blocks;
  options.live_vocab = live_vocab;
  options.progress = std::move(progress);
  return cuda::load_decoder_cuda(checkpoint, std::move(options));
}

}  // namespace forerun
