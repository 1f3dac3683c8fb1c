// The GPU interface of builds without a GPU backend.
#include <string>

#include "engine/load/gpu.h"

namespace forerun {
namespace {

Status refused(int32_t gpu) {
  return {StatusCode::kUnsupported,
          "devices: found cuda:" + std::to_string(gpu) +
              ", but this build has no CUDA backend; configure with the preset cuda-release"};
}

}  // namespace

Result<std::vector<GpuDescription>> describe_gpus() { return std::vector<GpuDescription>(); }

Result<std::string> gpu_model(int32_t gpu) { return refused(gpu); }

Result<std::string> gpu_uuid(int32_t gpu) { return refused(gpu); }

Result<DeviceMemory> gpu_memory(int32_t gpu) { return refused(gpu); }

Result<std::vector<MemoryNeed>> gpu_memory_needs(const Checkpoint& /*checkpoint*/,
                                                 const LayerRange& /*layers*/, int32_t degree,
                                                 WeightOverride /*weights*/,
                                                 const TargetOfHead& /*target*/) {
  return std::vector<MemoryNeed>(static_cast<size_t>(degree));
}

Result<std::unique_ptr<Decoder>> load_on_gpus(const Checkpoint& /*checkpoint*/,
                                              // NOLINTNEXTLINE(*-value-param)
                                              GpuDecoderOptions options) {
  return refused(options.gpus.front());
}

}  // namespace forerun
