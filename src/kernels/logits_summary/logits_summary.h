// A summary of a row of logits with all that a sampler needs, small enough to send over a bus. The
// device that holds the logits computes it, but the host still makes every decision: the device
// never draws a token. The summary names every token that the host's arithmetic could draw, lists
// the best tokens, and has sums of weights in fixed point (base/token_weight.h), so that the sums
// have the same bits as the host's. For anything else the sampler reads the logits themselves.
#pragma once

#include <cstdint>
#include <span>

#include "forerun/status.h"

namespace forerun {

struct TokenLogit {
  float logit = 0.0f;
  int32_t token = 0;
};

// The query of a row: the required contents of its summary. Kernels read it from the Step's data.
struct RowQuery {
  // Kinds of answers. The best token and errors are always reported.
  enum : uint32_t {
    kNoise = 1,       // candidates for the Gumbel draw
    kWeights = 2,     // sum of weights at `inv_temperature`
    kRawWeights = 4,  // sum of weights at temperature 1
    kLogits = 8,      // no summary: the host needs all logits
    kNoisyTop = 16,   // list the tokens with the largest score + Gumbel noise
  };
  uint32_t kinds = kLogits;
  // The summary lists at least this many of the best tokens (all tokens, if there are fewer),
  // ranked by logit, or by noisy score with kNoisyTop. At most kMaxTop.
  int32_t top = 0;
  int32_t vocab = 0;  // tokens from `vocab` on are never drawn
  float inv_temperature = 1.0f;
  // The counter of the noise (base/noise.h), in stream kTarget.
  uint32_t seed_low = 0;
  uint32_t seed_high = 0;
  int32_t position = 0;
  // The edits of the logits before the summary: index of a RowEdits of the Step (row_edits.h), or
  // kNone. All answers, except whole logits, are about edited logits.
  int32_t edits = kNone;

  static constexpr int32_t kNone = -1;
  static constexpr int32_t kMaxTop = 256;
  bool operator==(const RowQuery&) const = default;
};

// The summary of a row, or of the part (vocabulary shard) of it that one device holds. score(token)
// = (logit - origin) * inv_temperature, in f32. For weights the origin is the row's largest logit;
// for candidates it does not matter and may be the part's largest logit.
struct LogitsSummary {
  static constexpr int32_t kMaxListed = 1024;
  static constexpr int32_t kMaxCandidates = 16;

  // The token with the largest logit; among equal logits, the lowest token id. Token -1 and
  // -infinity if all tokens are masked (-infinity).
  TokenLogit best{0.0f, -1};
  int32_t bad = 0;  // 1: a logit is NaN or +infinity, and the other fields are meaningless
  // `listed` is in no order. No token outside of the list has a logit equal to or larger than that
  // of a listed token. With kNoisyTop, no token outside of the list is among the `top` largest
  // noisy scores, whether the host or the device computes the logarithms (see kListMargin).
  // num_listed is -1 if there are too many tokens to list.
  int32_t num_listed = 0;
  int32_t lists_all = 0;  // 1: the list holds all tokens that are not masked
  int32_t by_noise = 0;   // 1: the list is ranked by noisy score (kNoisyTop)
  // `candidates` holds every token that may have the part's largest score + Gumbel noise, for any
  // origin of the scores and whether the host or the device computes the logarithms (see
  // kNoiseMargin). num_candidates is -1 if there are too many.
  int32_t num_candidates = 0;
  int32_t has_weights = 0;  // 1: the requested sums are valid, for scores with origin
                            // `weight_origin`
  float weight_origin = 0.0f;
  uint64_t weights = 0;      // sum of fixed_token_weight(token_weight(score))
  uint64_t raw_weights = 0;  // the same at temperature 1
  TokenLogit candidates[kMaxCandidates];
  TokenLogit listed[kMaxListed];
};

// A token is a candidate if its score + noise, computed on the device, lies within this margin of
// the largest. The margin covers twice the device's error (logarithms in f32: 2e-5) and twice the
// change from another origin of the scores and the host's rounding, for two sums that compete for
// the largest (their scores differ by less than 40, in f32).
inline constexpr float kNoiseMargin = 1e-4f;

// The margin by which a list of kNoisyTop goes deeper than the device's sums require. It covers
// twice the device's error (hardware logarithms: 2e-3), and 1e-3 for the rounding in f32 of two
// sums that compete for a place, on the device and from another origin on the host: less than 8e-7
// of scores above -1,000. Lower scores reach the `top` only at temperatures of a few hundredths.
// There one that is nearly as good may replace a token, which changes a draft token but never a
// token of the target.
inline constexpr float kListMargin = 5e-3f;

// An interface by which a sampler accesses the logits of a Step that lie on a device and have not
// been copied to the host.
class DeviceLogits {
 public:
  virtual ~DeviceLogits() = default;
  // Returns the summary of a row; null if the row is in host memory. Valid until the next Step.
  virtual const LogitsSummary* summary(int32_t logits_row) const = 0;
  // Returns the query that a row's summary answers. Only for rows with a summary; valid as long as
  // the summary.
  virtual const RowQuery& query(int32_t logits_row) const = 0;
  // Copies a row to its host memory. Any thread may call it, but only one at a time for each row.
  virtual Status fetch(int32_t logits_row) = 0;
};

// Reference implementation for the devices' kernels: lists exactly the best tokens and names
// exactly the candidates. `logits` [tokens] is the part from `first_token` on; the caller leaves
// out tokens past query.vocab. `weight_origin` is the origin of scores for weights; if null, it is
// the part's largest logit.
void logits_summary_ref(std::span<const float> logits, int32_t first_token, const RowQuery& query,
                        const float* weight_origin, LogitsSummary* summary);

// Merges the summaries of the parts of one row, for the same query, in token order. `whole` must
// not be one of the parts. It has weights if the weights of all parts have the same origin.
void merge_logits_summaries(std::span<const LogitsSummary* const> parts, LogitsSummary* whole);

}  // namespace forerun
