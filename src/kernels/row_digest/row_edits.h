// What changes a row's logits before anything is asked of them: biases, penalties and a mask, where
// the logits lie. Operations of IEEE arithmetic one by one, the same functions in the sampler and
// in kernels, so that every device gives the same bits.
#pragma once

#include <cstdint>
#include <span>

namespace forerun {

struct TokenBias {
  int32_t token = 0;
  float bias = 0.0f;
};
// A token of the sequence and how often it is in the output; 0: in the prompt only.
struct TokenCount {
  int32_t token = 0;
  int32_t output_count = 0;
  bool operator==(const TokenCount&) const = default;
};

struct Penalties {
  float repetition = 1.0f;
  float presence = 0.0f;
  float frequency = 0.0f;
};

// The result of an edit of the logit `before`: a finite logit whose edit overflows becomes the
// largest or the lowest float. A logit that was not finite stays as it is: -inf masks a token, NaN
// and +inf are errors.
constexpr float saturated(float before, float after) {
  constexpr float kMax = 3.402823466e+38f;
  if (!(before >= -kMax && before <= kMax)) return after;
  return after > kMax ? kMax : after < -kMax ? -kMax : after;
}

// A bias of -inf masks the token.
constexpr float biased(float logit, float bias) {
  return bias < -3.402823466e+38f ? logit + bias : saturated(logit, logit + bias);
}

// Repetition as in Hugging Face transformers, then frequency and presence as in vLLM.
constexpr float penalized(float logit, int32_t output_count, const Penalties& penalties) {
  if (penalties.repetition != 1.0f) {
    logit = saturated(logit,
                      logit > 0.0f ? logit / penalties.repetition : logit * penalties.repetition);
  }
  logit = saturated(logit, logit - penalties.frequency * static_cast<float>(output_count));
  if (output_count > 0) logit = saturated(logit, logit - penalties.presence);
  return logit;
}

// The edits of one row, in this order. Views; no list names a token twice.
struct RowEdits {
  std::span<const TokenBias> biases;
  Penalties penalties;
  // Tokens to penalize. One that `path` names has the count that it says there, and is penalized
  // once.
  std::span<const TokenCount> history;
  std::span<const TokenCount> path;
  int32_t mask = -1;  // the number of a mask of the Step; -1: all tokens are allowed
  // Devices take no longer paths.
  static constexpr int32_t kMaxPath = 1024;
};

// The edits of a Step's rows. A query refers to one of them (RowQuery::edits). One thread.
class StepEdits {
 public:
  virtual ~StepEdits() = default;
  virtual const RowEdits& row(int32_t edits) const = 0;
  virtual int32_t num_masks() const = 0;
  // Sets bit i % 32 of word i / 32 for each token i that is allowed, and clears all others.
  virtual void write_mask(int32_t mask, std::span<uint32_t> words) const = 0;
};

// Of a row's part from `first_token` on, in place. `mask`: of the whole vocabulary; empty where the
// row has none. What a host does, and the definition for devices.
void edit_logits(std::span<float> logits, int32_t first_token, const RowEdits& edits,
                 std::span<const uint32_t> mask);

}  // namespace forerun
