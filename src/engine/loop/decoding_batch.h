// Counts the requests that decode together: how many there are, how many tokens they have, and how
// many run by a plan that the engine has chosen. What rows cost these requests depends on the
// counts (BatchCosts).
//
// One thread.
#pragma once

#include <cstdint>

#include "exec/batch_costs.h"
#include "step/work.h"

namespace forerun {

class DecodingBatch {
 public:
  // What is counted for one request.
  class Share {
   public:
    // Whether it has had a token since it was admitted.
    bool decodes() const { return decodes_; }

   private:
    friend class DecodingBatch;
    int64_t tokens_at_start_ = 0;  // when it was admitted
    int64_t tokens_ = 0;           // tokens that the batch counts for it while it decodes
    bool decodes_ = false;
  };

  // `costs` may be null: no costs are known; it must outlive the object. `drafts_sequentially`: a
  // Step of the draft holds up the target.
  DecodingBatch(const LiveCosts* costs, bool drafts_sequentially)
      : costs_(costs, drafts_sequentially) {}

  // A request of `tokens` tokens has been admitted; it does not decode yet.
  void admit(Share& share, int64_t tokens);
  // The request has `tokens` tokens now; `is_automatic`: the engine has chosen its plan. Returns
  // how many of them it has gained since the last call.
  int64_t count(Share& share, int64_t tokens, bool is_automatic);
  // The plan of an admitted request has changed.
  void change_plan(const Share& share, bool was_automatic, bool is_automatic);
  // An admitted request runs no more.
  void retire(Share& share, bool is_automatic);

  // A result of a request that decodes kept the loop's thread busy for `seconds`.
  void note_turn(const WorkResult& result, double seconds);
  // Calls BatchCosts::refresh().
  void refresh_costs() { costs_.refresh(); }

  const BatchCosts& costs() const { return costs_; }
  int64_t sequences() const { return costs_.sequences(); }
  int64_t tokens() const { return costs_.tokens(); }
  // Requests that decode by a plan that the engine has chosen.
  int64_t automatic_sequences() const { return automatic_sequences_; }
  // Sum over all requests so far, of what they decoded by such a plan, without the first tokens of
  // each admission.
  int64_t automatic_tokens() const { return automatic_tokens_; }
  // Whether no admitted request still reads its prompt.
  bool all_decode() const { return admitted_ == sequences(); }

 private:
  BatchCosts costs_;
  int64_t admitted_ = 0;
  int64_t automatic_tokens_ = 0;
  int64_t automatic_sequences_ = 0;
};

}  // namespace forerun
