#include "runner/model_pair.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "exec/decoder_step_runner.h"
#include "model/cpu_decoder.h"

namespace forerun::bench {

Result<ModelPair> ModelPair::load(const std::string& target, const std::string& draft,
                                  const std::array<int64_t, kNumRoles>& kv_blocks) {
  ModelPair pair;
  FORERUN_ASSIGN_OR_RETURN(pair.devices,
                           CpuDeviceGroup::create({.devices = {{available_cores(), 0}}}));
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    const auto idx = static_cast<size_t>(role);
    FORERUN_ASSIGN_OR_RETURN(OpenedModel model, open_model(role == Role::kTarget ? target : draft));
    pair.models[idx] = std::make_unique<OpenedModel>(std::move(model));
    CpuDecoderOptions options;
    options.kv_blocks = kv_blocks[idx];
    options.live_vocab = pair.models[idx]->live_vocab();
    const auto& stored = pair.models[idx]->checkpoint.config().quantization;
    if (role == Role::kDraft && stored.kind == QuantizationConfig::Kind::kNone) {
      options.weights = WeightOverride::kInt8;
    }
    FORERUN_ASSIGN_OR_RETURN(
        pair.decoders[idx],
        CpuDecoder::load(pair.models[idx]->checkpoint, pair.devices.get(), std::move(options)));
  }
  FORERUN_RETURN_IF_ERROR(
      check_same_tokenizer(pair.models[0]->tokenizer(), pair.models[1]->tokenizer()));
  pair.live_vocab = std::min(pair.models[0]->live_vocab(), pair.models[1]->live_vocab());
  return pair;
}

std::unique_ptr<StepRunner> ModelPair::make_runner(Role role) const {
  return std::make_unique<DecoderStepRunner>(decoders[static_cast<size_t>(role)].get(),
                                             devices.get(), live_vocab);
}

}  // namespace forerun::bench
