// StreamingLLM (Xiao et al., 2023): attention sinks and a window of the last tokens. The sinks are
// the sequence's first block, the window its last blocks, all in place: the view takes no memory,
// chooses nothing and copies nothing. The window advances by a block at a time.
#pragma once

#include <cstdint>

#include "forerun/status.h"
#include "views/view_table.h"

namespace forerun {

class StreamingLlm : public KvView {
 public:
  // For the table of views.
  static constexpr KvViewNeeds kNeeds = KvViewNeeds::kNothing;
  static constexpr KvViewFacts kFacts = {
      .acceptance = 0.83, .acceptance_source = kMagicDecTable6, .by_default = true};
  static Status check(int32_t budget_tokens);
  static int32_t own_blocks(int32_t /*budget_tokens*/, const KvShape& /*shape*/) { return 0; }
  static int32_t tokens_between_reruns(int32_t /*budget_tokens*/) { return 0; }

  explicit StreamingLlm(int32_t budget_tokens);
  KvViewLayout layout(int32_t prefix_tokens, const KvChosen& last) const override;

 private:
  const int32_t window_blocks_;  // includes the block that the next token falls into
};

}  // namespace forerun
