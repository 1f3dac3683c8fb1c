// Draft sources that need no model: they guess continuations from tokens already seen. Pure; one
// object a request, and a new one when a request is rebuilt after a preemption. A source joins the
// others by a line in draft_source_table.cc (docs/writing-a-draft-source.md).
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
  // Takes the tokens verified since the last call, one or more. The first call gives the whole
  // prompt and nothing else, later ones give output; where a request is rebuilt, the second call
  // gives all the output that it had before. Amortized O(1) a token.
  virtual void observe(std::span<const TokenId> tokens) = 0;
  // Replaces the content of `out` by at most `count` distinct guesses for the token after
  // (everything observed, then `path`), best first, with natural log-probabilities as this source
  // estimates them. May be empty. Does not change what was observed.
  virtual void propose(std::span<const TokenId> path, int32_t count,
                       std::vector<Candidate>& out) const = 0;
};

}  // namespace forerun
