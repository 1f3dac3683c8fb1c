// What a request's output must be like, as samplers take it: which tokens may come after others.
//
// A state stands for the output so far. It is immutable and cheap to copy, so a draft's tree can
// have one a node. Samplers of target and draft mask what a state does not allow, in the same way,
// so that speculation stays exact and guesses are rarely in vain.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "step/types.h"

namespace forerun {

// Any thread.
class TokenConstraint {
 public:
  using State = std::shared_ptr<const void>;

  virtual ~TokenConstraint() = default;
  // Before the first token of the output.
  virtual State start() const = 0;
  // Null where no output goes on with the token.
  virtual State after(const State& state, TokenId token) const = 0;
  // Sets bit i % 32 of word i / 32 for each token i that may come next, end tokens included where
  // the output may end, and clears all others.
  virtual void allow(const State& state, std::span<uint32_t> words) const = 0;
};

}  // namespace forerun
