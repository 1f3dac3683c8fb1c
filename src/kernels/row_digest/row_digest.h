// What a sampler needs of a row of logits, small enough to cross a bus: made where the logits lie,
// while the host's own functions still decide everything. The device never draws a token. It names
// every token that the host's arithmetic could draw, lists the best tokens, and sums weights in
// fixed point (base/token_weight.h), which have the host's bits. What a digest does not hold is
// answered from the logits themselves.
#pragma once

#include <cstdint>
#include <span>

#include "forerun/status.h"

namespace forerun {

struct TokenLogit {
  float logit = 0.0f;
  int32_t token = 0;
};

// What is asked of a row. Kernels read it in the step's data.
struct RowQuery {
  // The kinds of answers; best tokens and errors are always told.
  enum : uint32_t {
    kNoise = 1,       // candidates for the Gumbel draw
    kWeights = 2,     // sum of weights at `inv_temperature`
    kRawWeights = 4,  // sum of weights at temperature 1
    kLogits = 8,      // no digest: all logits are needed on the host
    kNoisyTop = 16,   // the best tokens to list are those of the largest score + Gumbel noise
  };
  uint32_t kinds = kLogits;
  // At least so many of the best tokens are listed, by logit unless kNoisyTop is asked for, or all
  // if there are fewer; at most kMaxTop.
  int32_t top = 0;
  int32_t vocab = 0;  // tokens from there on are never drawn
  float inv_temperature = 1.0f;
  // The counter of the noise (base/noise.h), stream kTarget.
  uint32_t seed_low = 0;
  uint32_t seed_high = 0;
  int32_t position = 0;
  // What is done to the logits before they are asked: the number of a RowEdits of the Step
  // (row_edits.h); kNone: nothing. All answers but whole logits are of the edited ones.
  int32_t edits = kNone;

  static constexpr int32_t kNone = -1;
  static constexpr int32_t kMaxTop = 256;
  bool operator==(const RowQuery&) const = default;
};

// Answers for a row, or for the part of it that one device holds. score(token) = (logit - origin) *
// inv_temperature, in f32; the origin is the row's largest logit for weights and may be the part's
// for candidates, where it does not matter.
struct RowSummary {
  static constexpr int32_t kMaxListed = 1024;
  static constexpr int32_t kMaxCandidates = 16;

  // The lowest id among equals; token -1 and -infinity where all are masked (-infinity).
  TokenLogit best{0.0f, -1};
  int32_t bad = 0;  // a logit is NaN or +infinity: nothing else is meaningful
  // `listed`: no token that is left out has the logit of a listed one or more; by noise, none that
  // is left out is among the `top` of the largest sums, whoever takes the logarithms (see
  // kListMargin). num_listed -1: they are too many to list. In no order.
  int32_t num_listed = 0;
  int32_t lists_all = 0;  // that are not masked
  int32_t by_noise = 0;   // the list is one of kNoisyTop
  // Every token that may have the part's largest score + Gumbel noise, whatever the scores' origin
  // and whoever takes the logarithms (see kNoiseMargin). -1: too many.
  int32_t num_candidates = 0;
  int32_t has_weights = 0;  // those that are asked for, of scores from `weight_origin`
  float weight_origin = 0.0f;
  uint64_t weights = 0;      // sum of fixed_token_weight(token_weight(score))
  uint64_t raw_weights = 0;  // the same at temperature 1
  TokenLogit candidates[kMaxCandidates];
  TokenLogit listed[kMaxListed];
};

// A candidate's score + noise lies within this of the largest, as its device computes them. Twice
// the error of that (logarithms in f32: 2e-5), and twice what another origin of the scores and the
// host's roundings can move two sums that compete for the largest: their scores differ by less than
// 40, in f32.
inline constexpr float kNoiseMargin = 1e-4f;

// A list by noise goes so much deeper than its device's sums tell. Twice the error of these
// (logarithms of the hardware: 2e-3), and 1e-3 for what f32 can move two sums that compete for a
// place, on the device and from another origin on the host: less than 8e-7 of their scores, which
// must be above -1,000. Lower ones, among the `top` at temperatures of hundredths only, may be left
// out for others that near: another guess of a draft, never another token of the target.
inline constexpr float kListMargin = 5e-3f;

// Logits of a Step that lie on a device and have not been copied: a sampler's way to its rows.
class DeviceLogits {
 public:
  virtual ~DeviceLogits() = default;
  // A row's answers; null: the row is in host memory. Valid until the next Step.
  virtual const RowSummary* summary(int32_t logits_row) const = 0;
  // What they answer. Only of rows that have a summary; valid as long.
  virtual const RowQuery& query(int32_t logits_row) const = 0;
  // Brings a row to the host memory that has been told for it. From any thread; each row's reader
  // is one at a time.
  virtual Status fetch(int32_t logits_row) = 0;
};

// `logits` [tokens] of the part from `first_token` on; tokens past query.vocab are left out by the
// caller. `weight_origin`: where weights are measured from; null: the part's largest logit. A plain
// twin of the devices' kernels: lists exactly the best tokens, names exactly the candidates.
void row_digest_ref(std::span<const float> logits, int32_t first_token, const RowQuery& query,
                    const float* weight_origin, RowSummary* digest);

// Of the parts of one row, in the order of their tokens, by one query. `whole` is none of them. It
// has weights where those of all parts have one origin.
void merge_row_digests(std::span<const RowSummary* const> parts, RowSummary* whole);

}  // namespace forerun
