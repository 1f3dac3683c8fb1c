// What a request's output must be like, as samplers take it: which tokens may come after others.
//
// A state stands for the output so far. It is immutable and cheap to copy, so a draft's tree can
// have one a node. Samplers of target and draft mask what a state does not allow, in the same way,
// so that speculation stays exact and guesses are rarely in vain.
//
// Making a state's mask may take long. So whoever runs Steps asks for it before (prepare()), and
// leaves a request whose mask is late out of the Step; within a Step masks are only read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "forerun/status.h"
#include "step/types.h"

namespace forerun {

// Whether a state's mask is there.
enum class MaskState : uint8_t {
  kReady,
  kLate,    // it is being made elsewhere
  kFailed,  // it will never be: TokenConstraint::error() says why
};

// Any thread.
class TokenConstraint {
 public:
  using State = std::shared_ptr<const void>;

  virtual ~TokenConstraint() = default;
  // Before the first token of the output.
  virtual State start() const = 0;
  // Null, or a state that allow() masks nothing for, where no output goes on with the token.
  virtual State after(const State& state, TokenId token) const = 0;
  // Sets bit i % 32 of word i / 32 for each token i that may come next, end tokens included where
  // the output may end, and clears all others. Sets all for a state that no output leads to, and
  // for one whose mask has failed. Where the mask is not there it is made by the calling thread.
  virtual void allow(const State& state, std::span<uint32_t> words) const = 0;

  // Asks for the mask of a state, not null. Where it takes at most `steps` (counted work, some 10
  // ns each) it is made at once, by the calling thread, and what it took is subtracted. Else it is
  // late, for threads of the constraint's own to make. Whether it fails depends on nothing but the
  // tokens before it.
  virtual MaskState prepare(const State& /*state*/, int64_t& /*steps*/) const {
    return MaskState::kReady;
  }
  // Of a state that prepare() has said to be late: whether it still is. Costs next to nothing.
  virtual bool is_late(const State& /*state*/) const { return false; }
  // Why the mask has failed: the request's own fault.
  virtual Status error(const State& /*state*/) const { return {}; }
};

}  // namespace forerun
