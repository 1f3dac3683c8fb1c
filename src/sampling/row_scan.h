// The passes over a row of logits, or a part of one, that the sampler is made of. Where the logits
// lie on a device and a summary of them is at hand (kernels/row_digest), it answers as far as it
// goes; the first question that it cannot answer brings the logits to the host. The answers are the
// same either way.
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

// Whose biases, penalties and constraint change a row's logits (logits_processor.h).
struct RowEditor {
  const RowContext* context = nullptr;  // null: nobody's
  SamplerScratch* scratch = nullptr;    // where edited logits go
};

class RowScan {
 public:
  RowScan() = default;
  // Finds the best tokens of a row, or of this scan's part of a row, together with the scans of the
  // other parts. `lane_max` is working memory of this scan for as long as it is used. With an
  // `editor` it scans the edited logits, by a summary of such ones or as it edits them itself.
  // Fails with kInvalidArgument, the row's own fault, if a logit is NaN or +inf, or all are -inf,
  // in any part; the message names the position. Any other failure is the device's and has another
  // code.
  Status start(const LogitsRow& logits, int32_t position, std::vector<float>* lane_max,
               const RowEditor& editor = {});

  // `values` may be read after read().
  const LogitsRow& logits() const { return logits_; }
  // The lowest id among equals; of the part: token -1 where it has none but masked ones.
  const RankedToken& best() const { return best_; }
  const RankedToken& part_best() const { return part_best_; }

  // Brings the logits to the host, if they are not there. Every question may fail as this does.
  Status read();
  std::span<const float> lane_max() const { return *lane_max_; }  // after read(); as of scan.h

  // The logit of `token`, which the part must hold.
  Status logit(TokenId token, float* logit);
  // Sum of the part's fixed-point weights.
  Status weight_sum(ScoreScale scale, uint64_t* sum);
  // The part's unmasked tokens of at least this logit, in no order.
  Status at_least(float reach, std::vector<int32_t>& ids, std::vector<RankedToken>& out);
  // The `limit` best of the part's unmasked tokens (fewer where there are fewer), in no order.
  Status best_tokens(int32_t limit, std::vector<int32_t>& ids, std::vector<RankedToken>& out);
  // Whether a device has listed tokens among which are the best by score + noise that
  // `candidates` asks for, and which they are. Otherwise the logits are to be searched.
  bool listed_by_noise(const RowQuery& candidates, std::span<const RankedToken>* tokens) const;
  // Whether a device has named the tokens that may have the part's largest score + noise for
  // `draw`, and which they are. Otherwise the logits are to be searched.
  bool candidates_for_draw(const RowQuery& draw, std::span<const RankedToken>* tokens) const;

 private:
  // By logit.
  std::span<const RankedToken> listed() const;
  bool lists_all() const;
  bool asked_for_noise(const RowQuery& query) const;
  // Brings the logits here and edits them; no summary is asked from then on.
  Status fetch();

  LogitsRow logits_{std::span<const float>()};
  std::vector<float>* lane_max_ = nullptr;
  RowEditor editor_;
  RankedToken best_;
  RankedToken part_best_{0.0f, -1};
  const RowSummary* summary_ = nullptr;  // null once the logits are here
  const RowQuery* query_ = nullptr;      // what it answers
};

}  // namespace forerun
