// TopK: at every draft step, for each layer and KV head, gathers exactly the tokens to which the
// row attends most, among all before the block that it writes to. The choice reads all keys, so the
// view saves next to nothing: it is the upper bound for other views (MagicDec §5), and `auto` never
// chooses it.
#pragma once

#include <cstdint>

#include "forerun/status.h"
#include "views/gathered_budget.h"
#include "views/view_table.h"

namespace forerun {

class TopK : public KvView {
 public:
  // For the table of views.
  static constexpr KvViewNeeds kNeeds = KvViewNeeds::kSelection;
  static constexpr KvViewFacts kFacts = {
      .selection_share = 0.5, .acceptance = 0.97, .acceptance_source = kMeasuredOnDemo};
  static Status check(int32_t budget_tokens);
  static int32_t own_blocks(int32_t budget_tokens, const KvShape& shape);
  static int32_t tokens_between_reruns(int32_t /*budget_tokens*/) { return 0; }

  explicit TopK(int32_t budget_tokens);
  KvViewLayout layout(int32_t prefix_tokens, const KvChosen& last) const override;
  KvChoice choice() const override;

 private:
  const GatheredBudget budget_;
};

}  // namespace forerun
