// Which tokens a sequence holds, for the penalties. Grows with the sequence; adding a token is
// amortized O(1) and allocates only when the number of distinct tokens doubles.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/row_digest/row_edits.h"
#include "step/types.h"

namespace forerun {

class TokenCounts {
 public:
  using Entry = TokenCount;

  void add(TokenId token, bool is_prompt);
  // Brings back an entry of another one; a distinct token each, in the order of entries().
  void restore(const Entry& entry);
  // One a distinct token, in the order of their first occurrence. Valid until the next add().
  std::span<const Entry> entries() const { return entries_; }
  // Null where the token has not occurred.
  const Entry* find(TokenId token) const;

 private:
  size_t slot_of(TokenId token) const;
  Entry& entry_of(TokenId token);  // a new one: as of the prompt
  void grow();

  std::vector<Entry> entries_;
  std::vector<int32_t> table_;  // open addressing: index into entries_, or -1
};

}  // namespace forerun
