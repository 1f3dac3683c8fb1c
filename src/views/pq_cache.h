// PQCache (Zhang et al., 2024): as TopK, but estimates a row's attention score for a token from the
// token's quantized key, 16 bytes in place of the key. The Step of the first row with the view
// builds the index of quantized keys, and tokens join it as they leave the tail (kernels/pq_index).
#pragma once

#include <cstdint>

#include "forerun/status.h"
#include "views/gathered_budget.h"
#include "views/view_table.h"

namespace forerun {

class PqCache : public KvView {
 public:
  // For the table of views.
  static constexpr KvViewNeeds kNeeds = KvViewNeeds::kQuantizedKeys;
  // A code has 16 bytes; a token's key and value have 512 in bf16 (heads of 128).
  static constexpr KvViewFacts kFacts = {
      .selection_share = 1.0 / 32, .acceptance = 0.96, .acceptance_source = kMeasuredOnDemo};
  static Status check(int32_t budget_tokens);
  static int32_t own_blocks(int32_t budget_tokens, const KvShape& shape);
  static int32_t tokens_between_reruns(int32_t /*budget_tokens*/) { return 0; }

  explicit PqCache(int32_t budget_tokens);
  KvViewLayout layout(int32_t prefix_tokens, const KvChosen& last) const override;
  KvChoice choice() const override;

 private:
  const GatheredBudget budget_;
};

}  // namespace forerun
