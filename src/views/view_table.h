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

struct KvViewEntry {
  const char* name;
  const char* help;  // one line: what of the cache is seen
  // kInvalidArgument where it cannot do with a budget of so many tokens, and with how many it can.
  Status (*check)(int32_t budget_tokens);
  // Of a budget that check() has accepted. Rows see at most so many tokens of their prefix.
  std::unique_ptr<KvView> (*make)(int32_t budget_tokens);
  // Blocks that it takes beside the sequence's, of a budget that check() has accepted.
  int32_t (*own_blocks)(int32_t budget_tokens);
};

std::span<const KvViewEntry> view_table();
const KvViewEntry* find_view(const std::string& name);  // null: there is none
// For messages.
std::string view_names(bool with_own_blocks = true);

}  // namespace forerun
