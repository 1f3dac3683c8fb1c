// Vegas (Yue et al., 2026; similar to SparseSpec's PillarAttn): verification computes the attention
// scores of all tokens anyway, so its rows choose the tokens for the next drafts. No extra row
// runs, and the choice is at most a few rounds old. All of the budget but one block is the chosen
// head; the tail is the sequence's last blocks, with the tokens since the choice and a few before
// it.
//
// Drafts need a first head before any verification. It is chosen as in SnapKV: by the last tokens,
// which run again. This also holds for every head of a model that verifies nothing.
#pragma once

#include <cstdint>

#include "forerun/status.h"
#include "views/gathered_budget.h"
#include "views/view_table.h"

namespace forerun {

class Vegas : public KvView {
 public:
  // For the table of views.
  static constexpr KvViewNeeds kNeeds = KvViewNeeds::kSelection;
  static constexpr KvViewFacts kFacts = {.acceptance = 0.89, .acceptance_source = kMeasuredOnDemo};
  static Status check(int32_t budget_tokens);
  static int32_t own_blocks(int32_t budget_tokens, const KvShape& shape);
  static int32_t tokens_between_reruns(int32_t /*budget_tokens*/) { return 0; }

  explicit Vegas(int32_t budget_tokens);
  KvViewLayout layout(int32_t prefix_tokens, const KvChosen& last) const override;
  KvViewLayout layout_by_verification(int32_t prefix_tokens, const KvChosen& last) const override;
  KvChoice choice() const override;

 private:
  const GatheredBudget budget_;
};

}  // namespace forerun
