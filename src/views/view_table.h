// All views of a sequence's KV, by name: the one place where a view is added. Accepted names,
// messages, help texts and the cases of the lossless tests are derived from this table.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "forerun/status.h"
#include "views/kv_view.h"

namespace forerun {

// What a view needs of the devices; each entry needs all that the ones before it need.
enum class KvViewNeeds : uint8_t {
  kNothing,
  kSelection,      // rows choose tokens, which are gathered (Decoder::selects_kv())
  kQuantizedKeys,  // rows also find tokens by quantized keys (Decoder::quantizes_keys())
};

// What the number of a view's own blocks depends on beside the budget.
struct KvShape {
  int32_t tokens;    // tokens of the text
  int32_t head_dim;  // head_dim of the model whose KV it is
};

inline constexpr const char* kMagicDecTable6 = "MagicDec, PG-19 at 32,000 tokens";
inline constexpr const char* kMeasuredOnDemo =
    "measured: this project's demo target, novels at 7,000 tokens";

// What plans assume of a view before anything has been measured.
struct KvViewFacts {
  int32_t budget = 512;  // tokens, the paper's best
  // The share of the KV cache that is read at every draft Step to choose tokens; all keys are one
  // half. For heads of 128 dimensions.
  double selection_share = 0.0;
  double acceptance = 0.0;             // acceptance rate of self-speculation at that budget
  const char* acceptance_source = "";  // who published or measured it, on which texts
  // A candidate of strategy `auto`, and of plans that name no view: what it costs to choose is
  // known.
  bool by_default = false;
};

struct KvViewEntry {
  const char* name;
  const char* help;  // one line: what of the cache is seen
  // kInvalidArgument where the view cannot work with this budget; the message says which budgets it
  // takes.
  Status (*check)(int32_t budget_tokens);
  // A view of a budget that check() has accepted. Rows see `budget_tokens` tokens of their prefix,
  // to half a block, and of a gathered view also those that have come since it chose.
  std::unique_ptr<KvView> (*make)(int32_t budget_tokens);
  // How many blocks the view takes beside the sequence's, for a budget that check() has accepted.
  int32_t (*own_blocks)(int32_t budget_tokens, const KvShape& shape);
  // Tokens by which a text grows between two choices for which its last tokens are run once more
  // (KvObservers::kLastTokens); 0: rows that run anyway choose, or none do.
  int32_t (*tokens_between_reruns)(int32_t budget_tokens);
  KvViewNeeds needs;
  KvViewFacts facts;
};

std::span<const KvViewEntry> view_table();
const KvViewEntry* find_view(const std::string& name);  // null: there is none
// The view of the first and the last tokens in place, which needs no memory and no selection.
const KvViewEntry& window_view();
// The names of the views that need no more than `most` of the devices; for messages.
std::string view_names(KvViewNeeds most = KvViewNeeds::kQuantizedKeys);

}  // namespace forerun
