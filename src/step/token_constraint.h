// A constraint on a request's output for samplers: it says which tokens may follow others.
//
// A state stands for the output so far. It is immutable and cheap to copy, so each node of a draft
// tree can have one. The samplers of target and draft mask the same tokens for a state, so
// speculation stays exact and few guesses are wasted.
//
// A mask may take long to compute. So the executor asks for it in advance (prepare()) and leaves a
// request with a late mask out of the Step; within a Step, samplers only read masks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "forerun/status.h"
#include "step/types.h"

namespace forerun {

// The progress of a state's mask.
enum class MaskState : uint8_t {
  kReady,
  kLate,    // other threads are computing it
  kFailed,  // it will never be ready: TokenConstraint::error() says why
};

// All methods may be called from any thread.
class TokenConstraint {
 public:
  using State = std::shared_ptr<const void>;

  virtual ~TokenConstraint() = default;
  // Returns the state before the first token of the output.
  virtual State start() const = 0;
  // Returns the state after `token`. If no output continues with it, returns null or a state for
  // which allow() masks nothing.
  virtual State after(const State& state, TokenId token) const = 0;
  // Sets bit i % 32 of word i / 32 for each token i that may come next, including end tokens where
  // the output may end, and clears all others. Sets all bits for a state that no output leads to,
  // and for one with a failed mask. Computes the mask on the calling thread if it is not ready.
  virtual void allow(const State& state, std::span<uint32_t> words) const = 0;

  // Asks for the mask of a state that is not null. If the mask takes at most `steps` (counted work,
  // some 10 ns each), the calling thread computes it at once and subtracts the work from `steps`.
  // Otherwise the mask is late, and the constraint's own threads compute it. Failure depends only
  // on the tokens before it.
  virtual MaskState prepare(const State& /*state*/, int64_t& /*steps*/) const {
    return MaskState::kReady;
  }
  // Returns whether a mask for which prepare() returned kLate is still late. This call is cheap.
  virtual bool is_late(const State& /*state*/) const { return false; }
  // Returns why the mask failed, which is the request's own fault.
  virtual Status error(const State& /*state*/) const { return {}; }
};

}  // namespace forerun
