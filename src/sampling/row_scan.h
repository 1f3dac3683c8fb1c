// The passes of the sampler over a row of logits, or a part of one. If the logits are on a device
// and have a summary (kernels/logits_summary), the summary answers as far as possible; the first
// question that it cannot answer copies the logits to the host. The answers are the same in both
// cases.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/status.h"
#include "sampling/logits_row.h"
#include "sampling/ranked_token.h"
#include "sampling/scan.h"

namespace forerun {

struct RowContext;
struct SamplerScratch;

// The context with the biases, penalties and constraint that edit a row's logits
// (logits_processor.h).
struct RowEditor {
  const RowContext* context = nullptr;  // null: nothing is edited
  SamplerScratch* scratch = nullptr;    // holds edited logits
};

class RowScan {
 public:
  RowScan() = default;
  // Finds the best token of a row or, together with the scans of the other parts, of a row in
  // parts. `lane_max` is the scan's working memory as long as it is used. With an `editor` it scans
  // edited logits: their summary, or logits that it edits itself. Fails with kInvalidArgument if in
  // any part a logit is NaN or +inf, or if all logits are -inf; the message has the position.
  // Failures of a device have other codes.
  Status start(const LogitsRow& logits, int32_t position, std::vector<float>* lane_max,
               const RowEditor& editor = {});

  // `values` may be read after read().
  const LogitsRow& logits() const { return logits_; }
  // Return the best token of the row, and that of this part; the lowest id among equal logits.
  // part_best() has token -1 if all tokens of the part are masked.
  const RankedToken& best() const { return best_; }
  const RankedToken& part_best() const { return part_best_; }

  // Copies the logits to the host, unless they are there. Every function below that returns a
  // Status may fail with a failure of read().
  Status read();
  std::span<const float> lane_max() const { return *lane_max_; }  // valid after read(); see scan.h

  // Gets the logit of `token`, which the part must hold.
  Status logit(TokenId token, float* logit);
  // Computes the sum of the part's fixed-point weights.
  Status weight_sum(ScoreScale scale, uint64_t* sum);
  // Finds the part's unmasked tokens with at least this logit, in no order.
  Status at_least(float reach, std::vector<int32_t>& ids, std::vector<RankedToken>& out);
  // Finds the `limit` best of the part's unmasked tokens (fewer if there are fewer), in no order.
  Status best_tokens(int32_t limit, std::vector<int32_t>& ids, std::vector<RankedToken>& out);
  // If a device has listed tokens that include the best ones by score + noise that `candidates`
  // asks for, returns true and the list. Otherwise the logits must be searched.
  bool listed_by_noise(const RowQuery& candidates, std::span<const RankedToken>* tokens) const;
  // If a device has listed all tokens that may have the part's largest score + noise for `draw`,
  // returns true and the list. Otherwise the logits must be searched.
  bool candidates_for_draw(const RowQuery& draw, std::span<const RankedToken>* tokens) const;

 private:
  // Returns the tokens that the summary lists by logit.
  std::span<const RankedToken> listed() const;
  bool lists_all() const;
  bool asked_for_noise(const RowQuery& query) const;
  // Copies the logits to the host and edits them; the summary is not used afterwards.
  Status fetch();

  LogitsRow logits_{std::span<const float>()};
  std::vector<float>* lane_max_ = nullptr;
  RowEditor editor_;
  RankedToken best_;
  RankedToken part_best_{0.0f, -1};
  const LogitsSummary* summary_ = nullptr;  // null once the logits are on the host
  const RowQuery* query_ = nullptr;         // the query that the summary answers
};

}  // namespace forerun
