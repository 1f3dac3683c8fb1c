// Draft sources that need no model: they guess continuations from tokens already seen. One object
// serves one request; a request that is rebuilt after a preemption gets a new one.
// draft_source_table.cc lists all sources (docs/writing-a-draft-source.md).
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
  // Takes the tokens verified since the last call, one or more. The first call gives exactly the
  // whole prompt, later calls give output; if the request is rebuilt, the second call gives all its
  // earlier output. Amortized O(1) per token.
  virtual void observe(std::span<const TokenId> tokens) = 0;
  // Replaces `out` by at most `count` distinct guesses for the token that follows the observed
  // tokens and then `path`, best first, with natural log-probabilities as this source estimates
  // them. `out` may become empty. Does not change the observed tokens.
  virtual void propose(std::span<const TokenId> path, int32_t count,
                       std::vector<Candidate>& out) const = 0;
};

}  // namespace forerun
