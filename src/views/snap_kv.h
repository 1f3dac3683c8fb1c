// SnapKV (Li et al., 2024): the next tokens attend to about the same tokens as the last ones before
// them. For each layer and KV head, the view gathers the tokens to which the last 32 tokens attend
// most, with scores averaged over 5 neighbours: as many as the budget leaves beside these 32, in
// whole blocks. Rows also attend to all tokens that come after the choice, on top of the budget.
// When these are half of the budget, the head is chosen anew, since attention has moved on.
#pragma once

#include <cstdint>

#include "forerun/status.h"
#include "views/gathered_budget.h"
#include "views/view_table.h"

namespace forerun {

class SnapKv : public KvView {
 public:
  // For the table of views.
  static constexpr KvViewNeeds kNeeds = KvViewNeeds::kSelection;
  static constexpr KvViewFacts kFacts = {
      .budget = 2049, .acceptance = 0.89, .acceptance_source = kMagicDecTable6, .by_default = true};
  static Status check(int32_t budget_tokens);
  static int32_t own_blocks(int32_t budget_tokens, const KvShape& shape);
  static int32_t tokens_between_reruns(int32_t budget_tokens);

  explicit SnapKv(int32_t budget_tokens);
  KvViewLayout layout(int32_t prefix_tokens, const KvChosen& last) const override;
  KvChoice choice() const override;

 private:
  const GatheredBudget budget_;
};

}  // namespace forerun
