// The table of all views, by name. A new view is added only here: accepted names, messages, help
// texts and the cases of the lossless tests come from this table.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "forerun/status.h"
#include "views/kv_view.h"

namespace forerun {

// The abilities that a view needs of the devices; each value includes all values before it.
enum class KvViewNeeds : uint8_t {
  kNothing,
  kSelection,      // rows choose tokens, which a kernel gathers (Decoder::selects_kv())
  kQuantizedKeys,  // rows also find tokens by quantized keys (Decoder::quantizes_keys())
};

// The sizes that determine a view's own blocks, besides the budget.
struct KvShape {
  int32_t tokens;    // tokens in the sequence
  int32_t head_dim;  // head_dim of the model that owns the KV
};

inline constexpr const char* kMagicDecTable6 = "MagicDec, PG-19 at 32,000 tokens";
inline constexpr const char* kMeasuredOnDemo =
    "measured: this project's demo target, novels at 7,000 tokens";

// The properties of a view that plans assume before any measurement.
struct KvViewFacts {
  int32_t budget = 512;  // tokens, the paper's best
  // The share of the KV cache that each draft Step reads to choose tokens, for heads of 128
  // dimensions; reading all keys is one half.
  double selection_share = 0.0;
  double acceptance = 0.0;             // acceptance rate of self-speculation at that budget
  const char* acceptance_source = "";  // who published or measured it, and on which prompts
  // True for candidates of strategy `auto` and of plans that name no view: the cost of their
  // choices is known.
  bool by_default = false;
};

struct KvViewEntry {
  const char* name;
  const char* help;  // one line: the part of the cache that rows attend to
  // Returns kInvalidArgument if the view cannot work with this budget; the message says which
  // budgets it takes.
  Status (*check)(int32_t budget_tokens);
  // Makes a view for a budget that check() has accepted. Rows attend to `budget_tokens` tokens of
  // their prefix, to half a block; with a gathered view also to those that have come since the
  // choice.
  std::unique_ptr<KvView> (*make)(int32_t budget_tokens);
  // Returns the number of blocks that the view takes beside the sequence's, for a budget that
  // check() has accepted.
  int32_t (*own_blocks)(int32_t budget_tokens, const KvShape& shape);
  // Returns the number of tokens between two choices for which the last tokens run again
  // (KvObservers::kLastTokens), or 0 if no row runs again to choose.
  int32_t (*tokens_between_reruns)(int32_t budget_tokens);
  KvViewNeeds needs;
  KvViewFacts facts;
};

std::span<const KvViewEntry> view_table();
const KvViewEntry* find_view(const std::string& name);  // null if there is none
// Returns the view of the first and the last tokens in place, which needs no memory and no
// selection.
const KvViewEntry& window_view();
// Returns, for messages, the names of the views that need no more than `most` of the devices.
std::string view_names(KvViewNeeds most = KvViewNeeds::kQuantizedKeys);

}  // namespace forerun
