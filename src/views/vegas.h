// Vegas (Yue et al., 2026; SparseSpec's PillarAttn is of the same kind): verification computes the
// attention scores of all tokens anyway, so its rows choose what the next drafts see. No extra row
// is run, the choice is at most a few rounds old, and all of the budget but a block's worth is the
// chosen head; the tail is the sequence's last blocks, with the tokens since the choice and a few
// before it.
//
// The first head, which drafts need before anything has been verified, is chosen as SnapKV chooses:
// by the last tokens, run once more. So are all heads of a model that verifies nothing.
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
