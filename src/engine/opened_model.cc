#include "engine/opened_model.h"

#include <algorithm>
#include <numeric>

#include "model/decoder_memory.h"
#include "model/memory_limit.h"
#include "model/shard_plan.h"
#include "step/step.h"

namespace forerun {
namespace {

// Tree rows beside a sequence's own tokens.
constexpr int32_t kTreeReserveTokens = 256;

std::string megabytes(int64_t bytes) {
  if (bytes >= int64_t{1'000'000'000'000}) {
    return std::to_string(bytes / 1'000'000'000'000) + " TB";
  }
  if (bytes < 1'000'000) return std::to_string((bytes + 999) / 1000) + " KB";
  return std::to_string(bytes / 1'000'000) + " MB";
}

int64_t blocks_for(int64_t tokens) { return (tokens + kKvBlockTokens - 1) / kKvBlockTokens; }

// KV bytes a token takes on each of the model's devices.
Result<std::vector<int64_t>> token_bytes_of_devices(const ModelDevices& model,
                                                    Activation activation) {
  const ModelConfig& config = model.checkpoint->config();
  auto plan = make_shard_plan(config, model.degree, config.vocab_size);
  if (!plan.ok()) return plan.status().with_context(model.checkpoint->dir().string());
  std::vector<int64_t> bytes;
  for (const DecoderMemory& device :
       estimate_group_memory(*model.checkpoint, WeightOverride::kAsStored, activation, *plan)) {
    bytes.push_back(device.kv_bytes_per_token);
  }
  return bytes;
}

// ": 4096 + 4096 + 2048 on its devices", where there are several.
std::string listed(const std::vector<int64_t>& device_bytes) {
  if (device_bytes.size() < 2) return "";
  std::string text = ": ";
  for (size_t index = 0; index < device_bytes.size(); ++index) {
    text += (index == 0 ? "" : " + ") + std::to_string(device_bytes[index]);
  }
  return text + " on its devices";
}

}  // namespace

int32_t OpenedModel::live_vocab() const {
  const ModelConfig& config = checkpoint.config();
  return std::min({tokenizer.vocab_size(), config.vocab_size,
                   config.live_vocab_size.value_or(config.vocab_size)});
}

std::vector<int32_t> OpenedModel::eos_token_ids() const {
  std::vector<int32_t> ids =
      defaults.eos_token_ids.empty() ? checkpoint.config().eos_token_ids : defaults.eos_token_ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Result<OpenedModel> open_model(const std::string& model) {
  FORERUN_ASSIGN_OR_RETURN(const std::filesystem::path dir, resolve_checkpoint_dir(model));
  FORERUN_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(dir));
  FORERUN_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(dir));
  FORERUN_ASSIGN_OR_RETURN(GenerationDefaults defaults, read_generation_defaults(dir));
  return OpenedModel{std::move(checkpoint), std::move(tokenizer), std::move(defaults)};
}

SamplingParams default_sampling(const GenerationDefaults& defaults) {
  SamplingParams params;
  const bool sampled = defaults.do_sample.value_or(defaults.temperature.has_value());
  params.temperature = sampled ? defaults.temperature.value_or(1.0f) : 0.0f;
  params.top_k = defaults.top_k.value_or(params.top_k);
  params.top_p = defaults.top_p.value_or(params.top_p);
  params.min_p = defaults.min_p.value_or(params.min_p);
  params.repetition_penalty = defaults.repetition_penalty.value_or(params.repetition_penalty);
  return params;
}

Result<KvPlan> plan_kv(const EngineOptions& options, Activation activation,
                       const ModelDevices& target, const std::optional<ModelDevices>& draft) {
  int32_t longest = target.checkpoint->config().max_position;
  if (draft) longest = std::min(longest, draft->checkpoint->config().max_position);
  if (options.max_context_tokens < 0 || options.max_context_tokens > longest) {
    return Status(StatusCode::kInvalidArgument,
                  "context: found " + std::to_string(options.max_context_tokens) +
                      " tokens, accepted are 1 to " + std::to_string(longest) +
                      ", what the checkpoint was made for");
  }
  FORERUN_ASSIGN_OR_RETURN(std::vector<int64_t> device_bytes,
                           token_bytes_of_devices(target, activation));
  if (draft) {
    FORERUN_ASSIGN_OR_RETURN(const std::vector<int64_t> of_draft,
                             token_bytes_of_devices(*draft, activation));
    device_bytes.insert(device_bytes.end(), of_draft.begin(), of_draft.end());
  }
  const int64_t token_bytes = std::accumulate(device_bytes.begin(), device_bytes.end(), int64_t{0});
  const int64_t block_bytes = token_bytes * kKvBlockTokens;
  const int64_t available = memory_limit().available_bytes;
  if (options.kv_memory_bytes < 0 || options.kv_memory_bytes > available) {
    return Status(StatusCode::kResourceExhausted,
                  "KV memory: asked for " + megabytes(options.kv_memory_bytes) +
                      ", this machine has " + megabytes(available) + " available");
  }
  const int64_t limit = options.kv_memory_bytes > 0 ? options.kv_memory_bytes : available / 2;
  const int32_t context = options.max_context_tokens > 0 ? options.max_context_tokens : longest;
  const int64_t needed_blocks = blocks_for(int64_t{context} + kTreeReserveTokens);
  const int64_t limit_blocks = limit / block_bytes;

  KvPlan plan;
  plan.max_context_tokens = context;
  if (needed_blocks > limit_blocks) {
    const int64_t fits = limit_blocks * kKvBlockTokens - kTreeReserveTokens;
    if (options.max_context_tokens > 0 || fits < kKvBlockTokens) {
      return Status(StatusCode::kResourceExhausted,
                    "KV cache: " + std::to_string(context) + " tokens of context need " +
                        megabytes(needed_blocks * block_bytes) + " (" +
                        std::to_string(token_bytes) + " bytes a token" + listed(device_bytes) +
                        "), the limit is " + megabytes(limit));
    }
    plan.max_context_tokens = static_cast<int32_t>(fits);
  }
  // Pages are committed when a token is written, so room for many requests costs nothing until
  // they come.
  const int64_t wanted = needed_blocks * std::max(1, options.max_active_requests);
  plan.target_blocks = std::min(wanted, limit_blocks);
  plan.draft_blocks = draft ? plan.target_blocks : 0;
  return plan;
}

}  // namespace forerun
