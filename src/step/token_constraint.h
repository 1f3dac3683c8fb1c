// A constraint on a request's output, as samplers use it: which tokens may come after others.
//
// A state stands for the output so far. It is immutable and cheap to copy, so each node of a
// draft's tree can have one. Samplers of target and draft mask what a state does not allow, in the
// same way, so that speculation stays exact and guesses are rarely in vain.
//
// Making a state's mask may take long. So the executor asks for it beforehand (prepare()) and
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

// All methods may be called from any thread.
class TokenConstraint {
 public:
  using State = std::shared_ptr<const void>;

  virtual ~TokenConstraint() = default;
  // The state before the first token of the output.
  virtual State start() const = 0;
  // The state after `token`; where no output continues with it, null or a state for which allow()
  // masks nothing.
  virtual State after(const State& state, TokenId token) const = 0;
  // Sets bit i % 32 of word i / 32 for each token i that may come next, end tokens included where
  // the output may end, and clears all others. Sets all for a state that no output leads to, and
  // for one whose mask has failed. Where the mask is not there, the calling thread makes it.
  virtual void allow(const State& state, std::span<uint32_t> words) const = 0;

  // Asks for the mask of a state, not null. Where it takes at most `steps` (counted work, some 10
  // ns each), the calling thread makes it at once and subtracts what it took. Otherwise the mask is
  // late, and the constraint's own threads make it. Whether it fails depends only on the tokens
  // before it.
  virtual MaskState prepare(const State& /*state*/, int64_t& /*steps*/) const {
    return MaskState::kReady;
  }
  // Whether the mask of a state for which prepare() returned kLate is still late. Costs next to
  // nothing.
  virtual bool is_late(const State& /*state*/) const { return false; }
  // Why the mask has failed: the request's own fault.
  virtual Status error(const State& /*state*/) const { return {}; }
};

}  // namespace forerun
