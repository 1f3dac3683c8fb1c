#include "engine/load/cost_key.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>

#include "base/hex.h"
#include "base/status_macros.h"
#include "checkpoint/side_files.h"
#include "engine/load/build_fingerprint.h"
#include "engine/load/gpu.h"
#include "kernels/isa.h"
#include "text/hash_bytes.h"

namespace forerun {
namespace {

// Returns `text` as valid UTF-8, shortened so that a key stays readable.
std::string plain_text(std::string text) {
  constexpr size_t kMax = 400;
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text.size() <= kMax
             ? text
             : text.substr(0, kMax) + "... " + std::to_string(text::hash_bytes(text));
}

// Returns the kernel's names of this machine's processors, each kind once: the "model name" on x86,
// elsewhere the lines with implementer and part.
std::string processors() {
  std::ifstream in("/proc/cpuinfo");
  std::set<std::string> kinds;
  for (std::string line; std::getline(in, line);) {
    for (const char* field : {"model name", "CPU implementer", "CPU part", "microcode"}) {
      if (!line.starts_with(field)) continue;
      const size_t colon = line.find(':');
      if (colon != std::string::npos) kinds.insert(field + line.substr(colon));
    }
  }
  std::string text;
  for (const std::string& kind : kinds) text += (text.empty() ? "" : ", ") + kind;
  return text + ", " + std::to_string(std::thread::hardware_concurrency()) + " of them, " +
         isa_name(current_isa());
}

// Returns a hash of the checkpoint's description, without its tensors.
Result<uint64_t> description_hash(const Checkpoint& checkpoint, uint64_t hash) {
  if (checkpoint.gguf() != nullptr) {
    for (const auto& [name, value] : description_facts(checkpoint)) {
      hash = text::hash_bytes(value, text::hash_bytes(name, hash));
    }
    return hash;
  }
  const std::filesystem::path config = checkpoint.path() / "config.json";
  std::ifstream in(config, std::ios::binary);
  hash = text::hash_bytes(
      std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}, hash);
  if (!in) return Status(StatusCode::kNotFound, config.string() + ": cannot be read");
  return hash;
}

// Describes shapes, types and names of all tensors. The description covers the rest, such as
// attention windows.
Result<std::string> model_text(const ModelsToLoad::Model& model) {
  const Checkpoint& checkpoint = model.opened->checkpoint;
  uint64_t hash = 0;
  for (const RawTensor& tensor : checkpoint.tensors()) {
    hash = text::hash_bytes(tensor.name, hash);
    hash = text::hash_bytes(format_name(tensor), hash);
    for (const int64_t size : tensor.shape)
      hash = text::mix_bits(hash ^ static_cast<uint64_t>(size));
  }
  FORERUN_ASSIGN_OR_RETURN(hash, description_hash(checkpoint, hash));
  return checkpoint.name() + " " + hex(hash) + ", weights " + weight_override_name(model.weights) +
         ", tokens " + std::to_string(model.opened->live_vocab());
}

}  // namespace

Result<CostKey> cost_key(const ModelsToLoad& models, const Placement& placement,
                         int32_t max_context_tokens) {
  CostKey key = {{"build", build_fingerprint()},
                 {"processors", plain_text(processors())},
                 {"placement", plain_text(describe(placement))},
                 {"activations", activation_name(models.activation)},
                 {"max_context_tokens", std::to_string(max_context_tokens)}};
  std::set<int32_t> gpus;
  for (int32_t stage = 0; stage < placement.target.num_stages(); ++stage) {
    const std::vector<int32_t>& stage_gpus = placement.target.stage(stage).gpus;
    gpus.insert(stage_gpus.begin(), stage_gpus.end());
  }
  for (const int32_t layers : models.options->stage_layers) {
    key["stage_layers"] += (key["stage_layers"].empty() ? "" : ",") + std::to_string(layers);
  }
  if (placement.draft) gpus.insert(placement.draft->gpus.begin(), placement.draft->gpus.end());
  for (const int32_t gpu : gpus) {
    FORERUN_ASSIGN_OR_RETURN(const std::string model, gpu_model(gpu));
    key["cuda:" + std::to_string(gpu)] = plain_text(model);
  }
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (models.of(role).opened == nullptr) continue;
    FORERUN_ASSIGN_OR_RETURN(const std::string text, model_text(models.of(role)));
    key[role_name(role)] = plain_text(text);
  }
  return key;
}

}  // namespace forerun
