#include "planner/draft_views.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "views/view_table.h"

namespace forerun {
namespace {

// Of views that this build does not have: an observation window of 32 and as many chosen.
constexpr int64_t kLeastBudget = 64;

}  // namespace

const std::vector<DraftView>& draft_views() {
  // PQCache's codes are 16 bytes a key vector beside 512 of bf16 keys and values.
  static const std::vector<DraftView> views = {
      {"streaming_llm", "the first tokens and the last ones", 512, 0.0, 0.83},
      {"snapkv", "chosen a head once after the prompt", 2049, 0.0, 0.89},
      {"pqcache", "found a head at each step, by quantized keys", 512, 1.0 / 32, {}},
      {"topk", "the best of all keys at each step: an upper bound", 512, 0.5, {}}};
  return views;
}

const DraftView* find_draft_view(const std::string& name) {
  for (const DraftView& view : draft_views()) {
    if (view.name == name) return &view;
  }
  return nullptr;
}

bool can_run(const DraftView& view) { return find_view(view.name) != nullptr; }

Status check_budget(const DraftView& view, int64_t budget) {
  if (const KvViewEntry* const entry = find_view(view.name)) {
    return entry->check(static_cast<int32_t>(std::clamp<int64_t>(budget, 0, INT32_MAX)));
  }
  if (budget >= kLeastBudget) return Status();
  return {StatusCode::kInvalidArgument, "found " + std::to_string(budget) + ", view " + view.name +
                                            " accepts " + std::to_string(kLeastBudget) +
                                            " and more"};
}

double acceptance_at(double published, int64_t published_budget, int64_t budget) {
  if (budget >= published_budget || budget <= 0) return published;
  const double less = static_cast<double>(published_budget) / static_cast<double>(budget);
  return std::max(0.0, 1.0 - (1.0 - published) * std::pow(less, 0.25));
}

}  // namespace forerun
