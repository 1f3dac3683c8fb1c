// Draws tokens from rows of logits: the request's own sampler, log-probabilities, and the candidate
// lists of drafts.
//
// All randomness is counter-based (base/noise.h): a token is a pure function of (logits, history,
// parameters, seed, position). A request's token is the arg-max over kept tokens of
// score + Gumbel noise(seed, kTarget, position, token), both in f32 and added in f32, ties to the
// lowest id; greedy requests take the arg-max of the logits, ties to the lowest id.
//
// Logits may be whole rows or a device's parts of rows (sampling/logits_row.h): every function is
// then called by all devices of the group with the same arguments otherwise, and gives all of them
// the same.
//
// Free functions, no state but the caller's scratch: any number of threads, one scratch each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/noise.h"
#include "forerun/status.h"
#include "sampling/logits_processor.h"
#include "step/types.h"

namespace forerun {

struct SampledToken {
  TokenId token = -1;
  // Natural log-probability under the softmax of the raw logits (before bias, penalties,
  // temperature and filters), as OpenAI's API reports it; at least -9999. Only where
  // SamplingParams::logprobs >= 0.
  float logprob = 0.0f;
};

// Draws the token after a row, [live vocabulary]; tokens at or beyond its end are never drawn.
// `alternatives`: the SamplingParams::logprobs most likely tokens by raw logits, best first. Fails
// as process_logits.
Status sample_token(const LogitsRow& logits, const RowContext& context, SamplerScratch& scratch,
                    SampledToken* out, std::vector<Candidate>* alternatives);

// Reports about a token that another rule chose what sample_token() reports about the one it drew:
// its log-probability and the `count` most likely tokens. `position` is the token's, for messages.
Status token_logprobs(const LogitsRow& logits, int32_t position, TokenId token, int32_t count,
                      SamplerScratch& scratch, float* logprob,
                      std::vector<Candidate>* alternatives);

// Log-probabilities are reported as finite numbers: lower ones are reported as this.
inline constexpr float kLowestLogprob = -9999.0f;

// The weights of candidates by shared noise sum up to 1 over so many candidates, or over as many as
// are asked for if that is more: candidates further down would add little.
inline constexpr int32_t kSharedNoiseCandidates = 16;

// The `count` best continuations, best first (fewer if fewer tokens are kept). With `shared_noise`
// and a temperature, tokens are ranked by score plus the noise that the target will use, and the
// best are weighted by the log-softmax of that sum: this predicts the target's draw by the draft's
// distribution. Otherwise they are ranked by log-probability in the processed distribution (greedy:
// by the logits after bias and penalties).
Status top_candidates(const LogitsRow& logits, const RowContext& context, int32_t count,
                      bool shared_noise, SamplerScratch& scratch, std::vector<Candidate>* out);

// A draft's processed distribution at one row, kept for the rejection rule.
struct DraftDistribution {
  // Unnormalized, [live vocabulary]; 0 where filtered. Empty for greedy requests.
  std::vector<float> weights;
  uint64_t total = 0;  // sum of to_fixed_weight(weights)
};

// Draws `count` tokens independently (with repetition) from the processed distribution, by
// NoiseStream::kDraft at (position, number of the draw), and leaves the distribution in
// `distribution`, which all devices share. Greedy requests: the `count` best tokens, no
// distribution.
Status draw_candidates(const LogitsRow& logits, const RowContext& context, int32_t count,
                       SamplerScratch& scratch, std::vector<Candidate>* out,
                       DraftDistribution* distribution);

// The unnormalized processed distribution of a part, dense: `weights` as long as its logits, which
// have been read (RowScan::read); returns the sum of their fixed-point values.
uint64_t dense_weights(const ProcessedRow& row, std::span<float> weights);

// floor(random * total / 2^64): uniform in [0, total) from 64 random bits.
uint64_t scaled_random(uint64_t random, uint64_t total);
// 64 random bits: words 2 * index and 2 * index + 1 of the stream, the first one above.
uint64_t noise_word64(uint64_t seed, NoiseStream stream, int32_t position, uint32_t index);

// Uniform in [0, 1), 53 bits, from two words of the stream.
double noise_uniform53(uint64_t seed, NoiseStream stream, int32_t position, uint32_t index);

}  // namespace forerun
