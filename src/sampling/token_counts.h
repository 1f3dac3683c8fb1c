// The tokens of a sequence and their counts, for the penalties. Adding a token is amortized O(1)
// and allocates only when the number of distinct tokens doubles.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/logits_summary/row_edits.h"
#include "step/types.h"

namespace forerun {

class TokenCounts {
 public:
  using Entry = TokenCount;

  void add(TokenId token, bool is_prompt);
  // Adds an entry of another TokenCounts; call it once for each distinct token, in the order of
  // entries().
  void restore(const Entry& entry);
  // Returns an entry for each distinct token, in the order of first occurrence. Valid until the
  // next add().
  std::span<const Entry> entries() const { return entries_; }
  // Returns null if the token has not occurred.
  const Entry* find(TokenId token) const;

 private:
  size_t slot_of(TokenId token) const;
  Entry& entry_of(TokenId token);  // makes an entry if there is none, as for a prompt token
  void grow();

  std::vector<Entry> entries_;
  std::vector<int32_t> table_;  // open addressing: index into entries_, or -1
};

}  // namespace forerun
