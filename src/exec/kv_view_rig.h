// Helpers for tests of views: token sequences, the fake target's next tokens, and items with a
// view.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exec/exec_rig.h"
#include "views/view_table.h"

namespace forerun {

inline constexpr int32_t kBudget = 192;

inline std::vector<TokenId> text_of(int32_t tokens, int32_t seed) {
  std::vector<TokenId> text;
  text.reserve(static_cast<size_t>(tokens));
  for (int32_t i = 0; i < tokens; ++i) text.push_back((i * i * 3 + i * seed + seed) % 53);
  return text;
}

// Returns the target's next token after these tokens.
inline TokenId best_after(const std::vector<TokenId>& seen) {
  std::vector<float> logits(kVocab + 4);
  fake_logits(fake_history(seen, 1), kVocab + 4, logits.data());
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.begin() + kVocab) -
                              logits.begin());
}

inline WorkItem target_item(SequenceId sequence, const KvViewSpec& view) {
  WorkItem item;
  item.sequence = sequence;
  item.role = Role::kTarget;
  item.view = view;
  return item;
}

inline WorkRow tree_row(TokenId token, int32_t position, NodeId node, NodeId parent, Want want) {
  return {.token = token,
          .position = position,
          .node = node,
          .parent = parent,
          .want = want,
          .count = want == Want::kTopK ? 1 : 0};
}

}  // namespace forerun
