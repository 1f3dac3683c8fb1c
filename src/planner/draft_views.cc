#include "planner/draft_views.h"

#include <algorithm>
#include <cmath>

namespace forerun {

const std::vector<DraftView>& draft_views() {
  // PQCache's codes are 16 bytes a key vector beside 512 of bf16 keys and values.
  static const std::vector<DraftView> views = {
      {"streaming_llm", "the first tokens and the last ones", 128, 512, 0.0, 0.83},
      {"snapkv", "chosen a head once after the prompt", 64, 2049, 0.0, 0.89},
      {"pqcache", "found a head at each step, by quantized keys", 64, 512, 1.0 / 32, {}},
      {"topk", "the best of all keys at each step: an upper bound", 64, 512, 0.5, {}}};
  return views;
}

const DraftView* find_draft_view(const std::string& name) {
  for (const DraftView& view : draft_views()) {
    if (view.name == name) return &view;
  }
  return nullptr;
}

double acceptance_at(double published, int64_t published_budget, int64_t budget) {
  if (budget >= published_budget || budget <= 0) return published;
  const double less = static_cast<double>(published_budget) / static_cast<double>(budget);
  return std::max(0.0, 1.0 - (1.0 - published) * std::pow(less, 0.25));
}

}  // namespace forerun
