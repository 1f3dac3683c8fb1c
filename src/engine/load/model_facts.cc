#include "engine/load/model_facts.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace forerun {

bool has_window(const OpenedModel& model) {
  const std::vector<int32_t>& windows = model.checkpoint.config().sliding_window;
  return std::any_of(windows.begin(), windows.end(), [](int32_t window) { return window > 0; });
}

ModelFacts facts_of(const OpenedModels& opened) {
  const OpenedModel* const draft = opened.draft_or_null();
  const int32_t head_dim = opened.target.checkpoint.config().head_dim;
  return {
      .has_draft_model = draft != nullptr,
      .draft_is_head = draft != nullptr && draft->is_head(),
      .target_vocab = opened.target.live_vocab(),
      .draft_vocab = draft != nullptr ? draft->live_vocab() : 0,
      .has_window = {has_window(opened.target), draft != nullptr && has_window(*draft)},
      .head_dim = {head_dim, draft != nullptr ? draft->checkpoint.config().head_dim : head_dim}};
}

void add_loaded(const LoadedModels& loaded, ModelFacts& facts) {
  facts.max_context = loaded.memory().max_context_tokens;
  facts.tree_tokens = loaded.memory().tree_tokens;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    const auto role_idx = static_cast<size_t>(role);
    facts.selects_kv[role_idx] = loaded.selects_kv(role);
    facts.quantizes_keys[role_idx] = loaded.quantizes_keys(role);
  }
}

}  // namespace forerun
