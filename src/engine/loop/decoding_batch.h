// Counts the requests that decode together: their number, their tokens, and how many run by a plan
// that the engine has chosen. The cost of rows depends on these counts (BatchCosts).
//
// Thread rules: one thread.
#pragma once

#include <cstdint>

#include "exec/batch_costs.h"
#include "step/work.h"

namespace forerun {

class DecodingBatch {
 public:
  // The counts of one request.
  class Share {
   public:
    // Returns whether it has had a token since it was admitted.
    bool decodes() const { return decodes_; }

   private:
    friend class DecodingBatch;
    int64_t tokens_at_start_ = 0;  // tokens at its admission
    int64_t tokens_ = 0;           // tokens that the batch counts for it while it decodes
    bool decodes_ = false;
  };

  // `costs` may be null if no costs are known; it must outlive the object. `drafts_sequentially`: a
  // Step of the draft holds up the target.
  DecodingBatch(const LiveCosts* costs, bool drafts_sequentially)
      : costs_(costs, drafts_sequentially) {}

  // Adds an admitted request of `tokens` tokens, which does not decode yet.
  void admit(Share& share, int64_t tokens);
  // Updates the request to `tokens` tokens; `is_automatic`: the engine has chosen its plan. Returns
  // the number of tokens that it has gained since the last call.
  int64_t count(Share& share, int64_t tokens, bool is_automatic);
  // Notes a change of an admitted request's plan.
  void change_plan(const Share& share, bool was_automatic, bool is_automatic);
  // Removes an admitted request that no longer runs.
  void retire(Share& share, bool is_automatic);

  // Records that a result of a decoding request kept the loop's thread busy for `seconds`.
  void note_turn(const WorkResult& result, double seconds);
  // Calls BatchCosts::refresh().
  void refresh_costs() { costs_.refresh(); }

  const BatchCosts& costs() const { return costs_; }
  int64_t sequences() const { return costs_.sequences(); }
  int64_t tokens() const { return costs_.tokens(); }
  // Returns the number of decoding requests with a plan that the engine has chosen.
  int64_t automatic_sequences() const { return automatic_sequences_; }
  // Returns the number of tokens that all requests so far have decoded by such plans, without the
  // first tokens of each admission.
  int64_t automatic_tokens() const { return automatic_tokens_; }
  // Returns whether all admitted requests have read their prompts.
  bool all_decode() const { return admitted_ == sequences(); }

 private:
  BatchCosts costs_;
  int64_t admitted_ = 0;
  int64_t automatic_tokens_ = 0;
  int64_t automatic_sequences_ = 0;
};

}  // namespace forerun
