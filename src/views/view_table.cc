#include "views/view_table.h"

#include "views/pq_cache.h"
#include "views/snap_kv.h"
#include "views/streaming_llm.h"
#include "views/top_k.h"
#include "views/vegas.h"

namespace forerun {
namespace {

template <class View>
std::unique_ptr<KvView> make(int32_t budget_tokens) {
  return std::make_unique<View>(budget_tokens);
}

template <class View>
constexpr KvViewEntry entry(const char* name, const char* help) {
  return {name,
          help,
          View::check,
          make<View>,
          View::own_blocks,
          View::tokens_between_reruns,
          View::kNeeds,
          View::kFacts};
}

constexpr KvViewEntry kTable[] = {
    entry<StreamingLlm>("streaming_llm", "the first tokens and the last ones, where they lie"),
    entry<SnapKv>("snapkv",
                  "the tokens that the last ones attend to most, gathered, and the last ones"),
    entry<Vegas>("vegas", "the tokens that a verification attended to most, and the last ones"),
    entry<PqCache>("pqcache", "the best of all tokens at each draft step, by quantized keys"),
    entry<TopK>("topk", "the best of all tokens at each draft step: an upper bound, for benches"),
};

}  // namespace

std::span<const KvViewEntry> view_table() { return kTable; }

const KvViewEntry* find_view(const std::string& name) {
  for (const KvViewEntry& view : kTable) {
    if (name == view.name) return &view;
  }
  return nullptr;
}

const KvViewEntry& window_view() { return kTable[0]; }

std::string view_names(KvViewNeeds most) {
  std::string names;
  for (const KvViewEntry& view : kTable) {
    if (view.needs > most) continue;
    names += (names.empty() ? "" : ", ") + std::string(view.name);
  }
  return names;
}

}  // namespace forerun
