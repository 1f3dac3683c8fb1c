#include "engine/host_agreement.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "engine/build_fingerprint.h"
#include "kernels/isa.h"
#include "text/hash_bytes.h"

namespace forerun {
namespace {

std::string hex(uint64_t number) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(number));
  return digits.data();
}

// Names, types and shapes of all tensors and a sample of what is in them: another training, another
// rounding or another order of layers is another model. Not every byte: a stage reads its own
// layers alone.
std::string model_fingerprint(const Checkpoint& checkpoint) {
  constexpr size_t kSample = 256;
  uint64_t hash = 0;
  for (const RawTensor& tensor : checkpoint.tensors()) {
    hash = text::hash_bytes(tensor.name, hash);
    hash = text::hash_bytes(dtype_name(tensor.dtype), hash);
    for (const int64_t size : tensor.shape) {
      hash = text::mix_bits(hash ^ static_cast<uint64_t>(size));
    }
    const std::span<const std::byte> sample =
        tensor.bytes.first(std::min(kSample, tensor.bytes.size()));
    hash = text::hash_bytes({reinterpret_cast<const char*>(sample.data()), sample.size()}, hash);
  }
  return hex(hash);
}

std::string numbers(const std::vector<int32_t>& list) {
  std::string text;
  for (const int32_t number : list) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

}  // namespace

HostFacts facts_of_host(const EngineOptions& options, const ModelsToLoad& to_load,
                        const Placement& placement) {
  const OpenedModel& target = *to_load.of(Role::kTarget).opened;
  return {{"version", FORERUN_VERSION},
          {"build", build_fingerprint()},
          {"instruction set", placement.target.on_gpus() ? "cuda" : isa_name(current_isa())},
          {"model fingerprint", model_fingerprint(target.checkpoint)},
          {"tokens of the model", std::to_string(target.live_vocab())},
          {"stages", std::to_string(placement.target.num_stages())},
          {"stage layers", numbers(options.stage_layers)},
          {"target devices", options.devices},
          {"weights", options.weights},
          {"activations", options.activations},
          {"context", std::to_string(options.max_context_tokens)},
          {"KV memory", std::to_string(options.kv_memory_bytes)},
          {"active requests", std::to_string(options.max_active_requests)}};
}

}  // namespace forerun
