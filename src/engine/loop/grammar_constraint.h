// GrammarConstraint applies a grammar to one request's tokens. Its masks are made within a budget;
// expensive masks are made outside the Steps.
//
// States form a tree over the tokens that have been asked for, including guesses. A new state holds
// only its parent and its token; prepare() computes the grammar's state and the mask. Costs are
// counted along the path from the start, as if no result had been kept, so whether a request
// exceeds its budget is a function of its own tokens alone: not of guesses, of other requests or of
// the machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/loop/mask_threads.h"
#include "grammar/grammar.h"
#include "grammar/token_masks.h"
#include "step/token_constraint.h"

namespace forerun {

// The bounds of masks, in steps of a grammar's walker; a step takes about 10 ns for usual schemas.
struct MaskBudget {
  uint64_t request = 100'000'000;  // for all masks of a request
  uint64_t per_token = 500'000;    // added for each of its tokens
  uint64_t token = 2'000'000;      // to advance by one token; TokenMaskLimits bounds a mask
  int64_t inline_steps = 10'000;   // for a mask that prepare() makes at once
};

class GrammarConstraint : public TokenConstraint {
 public:
  // The data that requests of one format share.
  struct Format {
    grammar::Grammar grammar;
    uint32_t prepared = 0;  // result of TokenMasks::prepare()
    std::shared_ptr<grammar::TokenMasks> masks;
    std::vector<int32_t> end_tokens;
    std::shared_ptr<MaskThreads> threads;
    MaskBudget budget = {};
  };
  explicit GrammarConstraint(std::shared_ptr<const Format> format);

  State start() const override;
  // Returns the state after `bytes` from the start, which need not be whole tokens; null if no
  // output begins with them.
  State begin(std::string_view bytes) const;
  State after(const State& state, TokenId token) const override;
  void allow(const State& state, std::span<uint32_t> words) const override;
  MaskState prepare(const State& state, int64_t& steps) const override;
  bool is_late(const State& state) const override;
  Status error(const State& state) const override;

 private:
  struct Node;
  struct Tree;

  const std::shared_ptr<Tree> tree_;
  const std::shared_ptr<Node> root_;
};

}  // namespace forerun
