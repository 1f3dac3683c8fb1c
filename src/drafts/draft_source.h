// Draft sources that need no model: they guess continuations from tokens already seen. Pure; one
// object a request.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "step/types.h"

namespace forerun {

class DraftSource {
 public:
  virtual ~DraftSource() = default;
  // Tokens verified since the last call (the whole prompt first). Amortized O(1) a token.
  virtual void observe(std::span<const TokenId> tokens) = 0;
  // Replaces the content of `out` by at most `count` distinct guesses for the token after
  // (everything observed, then `path`), best first, with natural log-probabilities as this source
  // estimates them. May be empty. Does not change what was observed.
  virtual void propose(std::span<const TokenId> path, int32_t count,
                       std::vector<Candidate>& out) const = 0;
};

}  // namespace forerun
