// A target and its draft on this machine's processors, which take turns: real answers for benches
// that run strategies without the engine.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "device/cpu/device_group.h"
#include "engine/load/opened_model.h"
#include "exec/step_runner.h"
#include "forerun/status.h"
#include "model/decoder.h"
#include "step/types.h"

namespace forerun::bench {

struct ModelPair {
  std::array<std::unique_ptr<OpenedModel>, kNumRoles> models;
  std::unique_ptr<CpuDeviceGroup> devices;
  std::array<std::unique_ptr<Decoder>, kNumRoles> decoders;
  int32_t live_vocab = 0;

  // Loads both checkpoint directories, with weights as the engine loads them. Fails if the two
  // models have different tokenizers. `kv_blocks`: KV cache blocks of each role.
  static Result<ModelPair> load(const std::string& target, const std::string& draft,
                                const std::array<int64_t, kNumRoles>& kv_blocks);
  // Makes a runner, which the pair must outlive. Each role may have one runner at a time.
  std::unique_ptr<StepRunner> make_runner(Role role) const;
};

}  // namespace forerun::bench
