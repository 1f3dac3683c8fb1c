// The answers of simulated models: the target's token for every history, and the draft's guesses at
// that token. A history is identified by its hash, mix_hash() over its tokens from 0 on
// (simulation/acceptance_model.h).
//
// Thread rules: pure; may be called from any number of threads.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "simulation/acceptance_model.h"
#include "step/types.h"

namespace forerun {

class AcceptanceSource {
 public:
  virtual ~AcceptanceSource() = default;
  virtual int32_t vocab() const = 0;
  // Returns the target's token after a history whose last token is at `position`.
  virtual TokenId target_token(uint64_t history, int32_t position) const = 0;
  // Replaces `out` by up to `count` guesses of the draft at this token, best first.
  virtual void draft_guesses(uint64_t history, int32_t position, int32_t count,
                             std::vector<Candidate>* out) const = 0;
};

// Answers sampled from an AcceptanceModel.
class ModelledAcceptance : public AcceptanceSource {
 public:
  explicit ModelledAcceptance(AcceptanceModel model) : model_(std::move(model)) {}
  int32_t vocab() const override { return model_.vocab; }
  TokenId target_token(uint64_t history, int32_t) const override {
    return model_.target_token(history);
  }
  void draft_guesses(uint64_t history, int32_t position, int32_t count,
                     std::vector<Candidate>* out) const override {
    *out = model_.draft_top(history, count, position);
  }

 private:
  AcceptanceModel model_;
};

}  // namespace forerun
