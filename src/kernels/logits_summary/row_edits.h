// Logits processors: biases, penalties and a mask that change a row's logits, on the device that
// holds them, before the row is summarized or sampled. The sampler and the kernels use the same
// functions, which consist of single IEEE operations, so every device gives the same bits.
#pragma once

#include <cstdint>
#include <span>

namespace forerun {

struct TokenBias {
  int32_t token = 0;
  float bias = 0.0f;
};
// A token of the sequence and its count in the output; 0 if it occurs only in the prompt.
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

// Returns the result of an edit that turns logit `before` into `after`. If a finite logit
// overflows, the result is the largest or the lowest float. A logit that was not finite is not
// clamped: -inf masks a token, NaN and +inf are errors.
constexpr float saturated(float before, float after) {
  constexpr float kMax = 3.402823466e+38f;
  if (!(before >= -kMax && before <= kMax)) return after;
  return after > kMax ? kMax : after < -kMax ? -kMax : after;
}

// Adds a bias; -inf masks the token.
constexpr float biased(float logit, float bias) {
  return bias < -3.402823466e+38f ? logit + bias : saturated(logit, logit + bias);
}

// Applies repetition as Hugging Face transformers does, then frequency and presence as vLLM does.
constexpr float penalized(float logit, int32_t output_count, const Penalties& penalties) {
  if (penalties.repetition != 1.0f) {
    logit = saturated(logit,
                      logit > 0.0f ? logit / penalties.repetition : logit * penalties.repetition);
  }
  logit = saturated(logit, logit - penalties.frequency * static_cast<float>(output_count));
  if (output_count > 0) logit = saturated(logit, logit - penalties.presence);
  return logit;
}

// The edits of one row, applied in this order. The lists are views; no list names a token twice.
struct RowEdits {
  std::span<const TokenBias> biases;
  Penalties penalties;
  // Tokens to penalize. A token that is also in `path` is penalized once, with the count from
  // `path`.
  std::span<const TokenCount> history;
  std::span<const TokenCount> path;
  int32_t mask = -1;  // index of a mask of the Step; -1 if all tokens are allowed
  // The longest path that devices accept.
  static constexpr int32_t kMaxPath = 1024;
};

// The edits of a Step's rows; RowQuery::edits is an index into them. Only one thread may use an
// object.
class StepEdits {
 public:
  virtual ~StepEdits() = default;
  virtual const RowEdits& row(int32_t edits) const = 0;
  virtual int32_t num_masks() const = 0;
  // Sets bit i % 32 of word i / 32 for each allowed token i, and clears all others.
  virtual void write_mask(int32_t mask, std::span<uint32_t> words) const = 0;
};

// Edits the part of a row from `first_token` on, in place. `mask` covers the whole vocabulary; it
// is empty if the row has no mask. The host uses this function, which also defines the devices'
// results.
void edit_logits(std::span<float> logits, int32_t first_token, const RowEdits& edits,
                 std::span<const uint32_t> mask);

}  // namespace forerun
