// How the next token of a request is chosen. Everything here keeps its exact meaning under
// speculation: a token is a pure function of (logits, history, these parameters, seed, position).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace forerun {

// The accepted ranges. Values beyond them only repeat one token for ever, or allow none.
inline constexpr float kLeastRepetitionPenalty = 0.01f;
inline constexpr float kMaxRepetitionPenalty = 100.0f;
inline constexpr float kMaxLogitBias = 100.0f;  // and down to -100

// Every value said: what a token is a function of.
struct SamplingParams {
  float temperature = 1.0f;  // 0 is greedy; never negative
  int32_t top_k = 0;         // keep the k most likely tokens; 0 keeps all
  float top_p = 1.0f;        // keep the smallest set with this much probability, in (0, 1]
  float min_p = 0.0f;        // drop tokens less likely than min_p times the most likely, in [0, 1]

  // Over prompt and output, as in Hugging Face transformers: positive logits are divided by it,
  // negative ones multiplied. 1 is off; from 0.01 to 100.
  float repetition_penalty = 1.0f;
  // Over the output only, as in OpenAI's API: logit -= presence (once) + frequency * count.
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;

  // (token id, added to its logit, from -100 to 100), each token once.
  std::vector<std::pair<int32_t, float>> logit_bias;

  uint64_t seed = 0;
  int32_t logprobs = -1;  // report the chosen token's log-probability and this many
                          // alternatives (>= 0); -1 reports nothing
  // The same of each token of the prompt but the first: how likely it was after those before it
  // (Event::prompt_logprobs). All of the prompt is then read: no KV of others is taken.
  int32_t prompt_logprobs = -1;

  // The first `min_tokens` tokens of the output are none of `end_tokens`, which ascend
  // (Request::min_new_tokens).
  int32_t min_tokens = 0;
  std::vector<int32_t> end_tokens;
};

// What a request says of it. What it leaves unset is the checkpoint's own default
// (EngineInfo::default_sampling); what it sets is taken as it is, also where it is 0. Meanings and
// ranges are those of SamplingParams. The fields that are not optional have no defaults in
// checkpoints.
struct SamplingOptions {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::vector<std::pair<int32_t, float>> logit_bias;
  // Unset: one is drawn, below 2^53 so that it passes through JSON. RequestStats::seed tells it.
  std::optional<uint64_t> seed;
  int32_t logprobs = -1;         // alternatives: at most EngineOptions::max_logprobs
  int32_t prompt_logprobs = -1;  // likewise
};

// The seed of sample `sample_idx` of a request with `seed`: sample 0 has the seed itself, so it is
// what the request alone would give; sample i > 0 has the i-th number of the SplitMix64 generator
// that starts from it. Asking for one sample with this seed repeats that sample.
uint64_t sample_seed(uint64_t seed, int32_t sample_idx);

}  // namespace forerun
