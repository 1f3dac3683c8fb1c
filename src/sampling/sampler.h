// Samples tokens from rows of logits: the request's own sampler, log-probabilities, and the
// candidate lists of drafts.
//
// All randomness is counter-based (base/noise.h): a token is a pure function of (logits, history,
// parameters, seed, position). A request's token is the arg-max over kept tokens of score + Gumbel
// noise(seed, kTarget, position, token), both in f32 and added in f32, ties to the lowest id;
// greedy requests take the arg-max of the logits, ties to the lowest id.
//
// Logits may be whole rows or a device's parts of rows (sampling/logits_row.h): every function is
// then called by all devices of the group, with otherwise equal arguments, and gives all of them
// the same result.
//
// Thread rules: the functions have no state except the caller's scratch; any number of threads may
// call them, with one scratch each.
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
  // temperature and filters), as in OpenAI's API; at least -9999. Only if SamplingParams::logprobs
  // >= 0.
  float logprob = 0.0f;
};

// Samples the token after a row, [live vocabulary]; tokens beyond its end are never sampled.
// `alternatives`: the SamplingParams::logprobs most likely tokens by raw logits, best first. Fails
// as process_logits() does.
Status sample_token(const LogitsRow& logits, const RowContext& context, SamplerScratch& scratch,
                    SampledToken* out, std::vector<Candidate>* alternatives);

// Reports for a token that another rule chose what sample_token() reports for its own: its
// log-probability and the `count` most likely tokens. `position` is the token's, for messages.
Status token_logprobs(const LogitsRow& logits, int32_t position, TokenId token, int32_t count,
                      SamplerScratch& scratch, float* logprob,
                      std::vector<Candidate>* alternatives);

// Log-probabilities are reported as finite numbers; lower ones become this value.
inline constexpr float kLowestLogprob = -9999.0f;

// The weights of candidates by shared noise sum up to 1 over this many candidates, or over the
// requested number if that is larger: further candidates would add little.
inline constexpr int32_t kSharedNoiseCandidates = 16;

// Finds the `count` best continuations, best first (fewer if fewer tokens are kept). With
// `shared_noise` and a temperature, tokens are ranked by score plus the noise that the target will
// use, and the best are weighted by the log-softmax of that sum: this predicts the target's sample
// from the draft's distribution. Otherwise they are ranked by log-probability in the processed
// distribution (greedy: by the logits after bias and penalties).
Status top_candidates(const LogitsRow& logits, const RowContext& context, int32_t count,
                      bool shared_noise, SamplerScratch& scratch, std::vector<Candidate>* out);

// A draft's processed distribution at one row, kept for the rejection rule.
struct DraftDistribution {
  // Unnormalized, [live vocabulary]; 0 for filtered tokens. Empty for greedy requests.
  std::vector<float> weights;
  uint64_t total = 0;  // sum of to_fixed_weight(weights)
};

// Samples `count` tokens independently (with repetition) from the processed distribution, by
// NoiseStream::kDraft at (position, number of the sample), and stores the distribution in
// `distribution`, which all devices share. Greedy requests: the `count` best tokens, no
// distribution.
Status draw_candidates(const LogitsRow& logits, const RowContext& context, int32_t count,
                       SamplerScratch& scratch, std::vector<Candidate>* out,
                       DraftDistribution* distribution);

// Writes the unnormalized processed distribution of a part, dense: `weights` is as long as its
// logits, which must have been read (RowScan::read). Returns the sum of their fixed-point values.
uint64_t dense_weights(const ProcessedRow& row, std::span<float> weights);

// Returns floor(random * total / 2^64): uniform in [0, total) from 64 random bits.
uint64_t scaled_random(uint64_t random, uint64_t total);
// Returns 64 random bits: words 2 * index (the upper half) and 2 * index + 1 of the stream.
uint64_t noise_word64(uint64_t seed, NoiseStream stream, int32_t position, uint32_t index);

// Returns a uniform number in [0, 1), 53 bits, from two words of the stream.
double noise_uniform53(uint64_t seed, NoiseStream stream, int32_t position, uint32_t index);

}  // namespace forerun
