// The parameters that determine the next token of a request. They keep their exact meaning under
// speculation: a token is a pure function of (logits, history, these parameters, seed, position).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace forerun {

inline constexpr float kMaxLogitBias = 100.0f;  // the largest bias; the least is -100

// The complete parameters of a request; every field has a value. sampling_fields.h lists the ranges
// of the numbers.
struct SamplingParams {
  float temperature = 1.0f;  // 0 is greedy
  int32_t top_k = 0;         // keep the k most likely tokens; 0 and -1 keep all
  float top_p = 1.0f;        // keep the smallest set with this much probability, at least one token
  float min_p = 0.0f;        // drop tokens less likely than min_p times the most likely

  // Applies to prompt and output, as in Hugging Face transformers: positive logits are divided by
  // it, negative ones multiplied. 1 is off.
  float repetition_penalty = 1.0f;
  // Apply to the output only, as in OpenAI's API: logit -= presence (once) + frequency * count.
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;

  // Pairs of a token id and the bias that is added to its logit, from -100 to 100; each token once.
  std::vector<std::pair<int32_t, float>> logit_bias;

  uint64_t seed = 0;
  int32_t logprobs = -1;  // number of alternatives that are reported beside the chosen token's
                          // log-probability; -1 reports nothing
  // The same for each token of the prompt but the first, given the tokens before it
  // (Event::prompt_logprobs). The engine then computes the whole prompt and uses no KV of other
  // requests.
  int32_t prompt_logprobs = -1;

  // None of the first `min_tokens` output tokens may be one of `end_tokens`, which are sorted in
  // ascending order (Request::min_new_tokens).
  int32_t min_tokens = 0;
  std::vector<int32_t> end_tokens;
};

// The sampling options of a request. An unset field takes the checkpoint's own default
// (EngineInfo::default_sampling); a set field is used unchanged, even if it is 0. Meanings and
// ranges are those of SamplingParams.
struct SamplingOptions {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::vector<std::pair<int32_t, float>> logit_bias;
  // Unset: a random seed below 2^53, which JSON can represent. RequestStats::seed reports it.
  std::optional<uint64_t> seed;
  int32_t logprobs = -1;         // number of alternatives: at most EngineOptions::max_logprobs
  int32_t prompt_logprobs = -1;  // the same for the prompt's tokens
};

// Returns the seed of sample `sample_idx` of a request with `seed`. Sample 0 has the seed itself,
// so it equals the only sample of such a request; sample i > 0 has the i-th number of the
// SplitMix64 generator that starts from it. Asking for one sample with this seed repeats that
// sample.
uint64_t sample_seed(uint64_t seed, int32_t sample_idx);

}  // namespace forerun
