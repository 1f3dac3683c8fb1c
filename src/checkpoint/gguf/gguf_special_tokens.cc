#include "checkpoint/gguf/gguf_special_tokens.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

namespace forerun {
namespace {

// Names of tokens that end a turn: files name one end token, but models write several.
constexpr std::string_view kEndsOfTurns[] = {"<|eot_id|>",
                                             "<|eom_id|>",
                                             "<|im_end|>",
                                             "<|end_of_text|>",
                                             "<|endoftext|>",
                                             "<|end|>",
                                             "<|return|>",
                                             "<|call|>",
                                             "<end_of_turn>",
                                             "<|EOT|>",
                                             "<EOT>",
                                             "_<EOT>",
                                             "[EOT]",
                                             "<|flush|>",
                                             "<|calls|>",
                                             "<end_of_utterance>",
                                             "</s>",
                                             "[EOS]",
                                             "<｜end▁of▁sentence｜>"};
// Types of tokens that do not occur in ordinary text. Some converters mark a name in the list as
// user-defined; llama.cpp ends a text there, too.
constexpr int64_t kControlToken = 3, kUserDefinedToken = 4;

void add_named_ends(GgufMetadataReader& fields, ModelConfig& config) {
  const auto tokens = fields.strings("tokenizer.ggml.tokens");
  const auto types = fields.integers("tokenizer.ggml.token_type", 0, 255);
  if (!tokens || !types) return;
  for (size_t token = 0; token < std::min(tokens->size(), types->size()); ++token) {
    const int64_t type = (*types)[token];
    if (type != kControlToken && type != kUserDefinedToken) continue;
    if (std::find(std::begin(kEndsOfTurns), std::end(kEndsOfTurns), (*tokens)[token]) !=
        std::end(kEndsOfTurns)) {
      config.eos_token_ids.push_back(static_cast<int32_t>(token));
    }
  }
}

}  // namespace

void read_gguf_special_tokens(GgufMetadataReader& fields, ModelConfig& config) {
  const auto id = [&](const char* name) -> std::optional<int32_t> {
    const auto value = fields.token_id(name);
    return value && *value < config.vocab_size ? value : std::nullopt;
  };
  config.bos_token_id = id("tokenizer.ggml.bos_token_id");
  for (const char* const name : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                 "tokenizer.ggml.eom_token_id"}) {
    if (const auto token = id(name)) config.eos_token_ids.push_back(*token);
  }
  // Ollama's key, which lists all of them.
  const auto ends = fields.integers("tokenizer.ggml.eos_token_ids", -1, UINT32_MAX);
  for (const int64_t end : ends.value_or(std::vector<int64_t>())) {
    if (end >= 0 && end < config.vocab_size) {
      config.eos_token_ids.push_back(static_cast<int32_t>(end));
    }
  }
  add_named_ends(fields, config);
  std::sort(config.eos_token_ids.begin(), config.eos_token_ids.end());
  const auto repeated = std::unique(config.eos_token_ids.begin(), config.eos_token_ids.end());
  config.eos_token_ids.erase(repeated, config.eos_token_ids.end());
}

}  // namespace forerun
