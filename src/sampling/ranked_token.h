// The order of a row's tokens: by logit, descending; among equal logits by id, ascending.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/logits_summary/logits_summary.h"

namespace forerun {

using RankedToken = TokenLogit;

// Returns whether `a` comes before `b`.
inline bool ranks_before(const RankedToken& a, const RankedToken& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// Keeps the `limit` best of `tokens`, best first if `sorted`.
inline void keep_best(std::vector<RankedToken>& tokens, int32_t limit, bool sorted) {
  if (static_cast<size_t>(limit) < tokens.size()) {
    std::nth_element(tokens.begin(), tokens.begin() + limit, tokens.end(), ranks_before);
    tokens.resize(static_cast<size_t>(limit));
  }
  if (sorted) std::sort(tokens.begin(), tokens.end(), ranks_before);
}

}  // namespace forerun
