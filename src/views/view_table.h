// The views of a sequence's KV there are, by name: the one place where a view is added. Accepted
// names, messages, help texts and what the lossless tests run are derived from it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "forerun/status.h"
#include "views/kv_view.h"

namespace forerun {

// What a view needs of the devices: more, the later.
enum class KvViewNeeds : uint8_t {
  kNothing,
  kSelection,      // rows choose tokens, which are gathered (Decoder::selects_kv())
  kQuantizedKeys,  // and find them by quantized keys (Decoder::quantizes_keys())
};

// What its blocks depend on beside the budget.
struct KvShape {
  int32_t tokens;    // of the text
  int32_t head_dim;  // of the model whose KV it is
};

// What plans assume of it before anything has been measured.
struct KvViewFacts {
  int32_t budget = 512;  // tokens, the paper's best
  // Of the cache, read at every draft Step to choose: keys are one half of it, heads of 128.
  double selection_share = 0.0;
  // Self-speculation's acceptance at that budget, PG-19 behind 32,000 tokens (MagicDec, Table 6);
  // 0: nothing published that a plan may assume.
  double published_acceptance = 0.0;
  // A bound for benches to measure others by: never a candidate of strategy `auto`.
  bool is_bound = false;
};

struct KvViewEntry {
  const char* name;
  const char* help;  // one line: what of the cache is seen
  // kInvalidArgument where it cannot do with a budget of so many tokens, and with how many it can.
  Status (*check)(int32_t budget_tokens);
  // Of a budget that check() has accepted. Rows see at most so many tokens of their prefix.
  std::unique_ptr<KvView> (*make)(int32_t budget_tokens);
  // Blocks that it takes beside the sequence's, of a budget that check() has accepted.
  int32_t (*own_blocks)(int32_t budget_tokens, const KvShape& shape);
  // Tokens by which a text grows between two choices for which its last tokens are run once more
  // (KvObservers::kLastTokens); 0: rows that run anyway choose, or nobody does.
  int32_t (*tokens_between_reruns)(int32_t budget_tokens);
  KvViewNeeds needs;
  KvViewFacts facts;
};

std::span<const KvViewEntry> view_table();
const KvViewEntry* find_view(const std::string& name);  // null: there is none
// The first tokens and the last ones, where they lie: what costs nothing and needs nothing.
const KvViewEntry& window_view();
// Of those that need no more; for messages.
std::string view_names(KvViewNeeds most = KvViewNeeds::kQuantizedKeys);

}  // namespace forerun
