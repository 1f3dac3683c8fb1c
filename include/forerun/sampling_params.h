// How the next token of a request is chosen. Everything here keeps its exact meaning under
// speculation: a token is a pure function of (logits, history, these parameters, seed, position).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace forerun {

struct SamplingParams {
  float temperature = 1.0f;  // 0 is greedy; never negative
  int32_t top_k = 0;         // keep the k most likely tokens; 0 keeps all
  float top_p = 1.0f;        // keep the smallest set with this much probability, in (0, 1]
  float min_p = 0.0f;        // drop tokens less likely than min_p times the most likely, in [0, 1]

  // Over prompt and output, as in Hugging Face transformers: positive logits are divided by it,
  // negative ones multiplied. 1 is off; must be > 0.
  float repetition_penalty = 1.0f;
  // Over the output only, as in OpenAI's API: logit -= presence (once) + frequency * count.
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;

  std::vector<std::pair<int32_t, float>> logit_bias;  // (token id, added to its logit)

  uint64_t seed = 0;
  int32_t logprobs = -1;  // report the chosen token's log-probability and this many
                          // alternatives (>= 0); -1 reports nothing
};

}  // namespace forerun
