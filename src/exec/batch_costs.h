// What strategies are told of costs while the batch changes: seconds of a Step to which every
// request that decodes gives so many rows, the host's work for them included. So trees shrink as
// the batch grows, down to plain decoding where a row is no longer nearly free, and grow again.
//
// A draft that takes turns with the target on its devices holds up every request, also those that
// do not draft. Where m of n requests share a draft Step, each of the m is told n / m of its time:
// what all of them lose by it, divided among those who wanted it. So a draft that pays when the
// whole batch drafts together is not run for one request alone. Since nobody then learns whether
// together it would pay, the batch is told the price of drafting together again now and then, for
// as long as it takes to see who joins; that may take up to kTrialShare of the time.
//
// Requests that still wait for their prompt's result are held up as well: while there are some, all
// that goes beyond a plain Step is charged for them, too.
//
// Rows of a verification are told in the same way: where few requests guess, a row is charged what
// it adds to the Step as it is, at the cost of all, if that is more than a part of what rows of all
// of them would add. A tile of a kernel that is begun for one row alone is no bargain. GuessRows
// leaves such rows out of the Step as well, but only once the draft has run for them: without this
// price the worst of 64 simulated requests' batches, on a machine where 64 rows are free, fell from
// 0.96 of plain decoding's speed to 0.94 (simulation/play_batches_test.cc, other seeds).
//
// One thread.
#pragma once

#include <array>
#include <cstdint>

#include "exec/live_costs.h"
#include "step/cost_table.h"
#include "step/types.h"
#include "step/work.h"

namespace forerun {

class BatchCosts {
 public:
  // Of the time, draft Steps of those who are told the price of drafting together and are not
  // joined by most of the batch.
  static constexpr double kTrialShare = 0.003;

  // `costs` may be null: then nothing is known, ever. It must outlive the object. `in_turn`: a
  // draft Step holds up the target.
  BatchCosts(const LiveCosts* costs, bool in_turn) : costs_(costs), in_turn_(in_turn) {}

  // A request has been admitted, will run no more.
  void admit() { ++admitted_; }
  void retire() { --admitted_; }
  // A request of so many tokens begins to decode, has grown, decodes no more; it is admitted.
  void join(int64_t tokens);
  void grow(int64_t tokens) { tokens_ += tokens; }
  void leave(int64_t tokens);

  // What the loop's thread took to handle a result of `rows` rows that wanted something.
  void note_turn(Role role, size_t rows, double seconds);
  // A result of a request that decodes: who shared its Step, and how long that lasted.
  void note_step(const WorkResult& result);

  // Brings the table up to date where the batch has changed by enough to matter, or some hundred
  // results have come. Once a Step is often enough.
  void refresh();
  // What a request is told before it is part of the batch.
  CostTable for_newcomer() const;
  // Requests that decode, and their tokens together.
  int64_t sequences() const { return sequences_; }
  int64_t tokens() const { return tokens_; }
  // Grows whenever the table changes; 0: there is none yet.
  uint64_t version() const { return version_; }
  const CostTable& table() const { return table_; }

 private:
  // Turns of plain decoding and those that handle a tree differ by far.
  struct TurnSeconds {
    double plain = 0.0;
    double tree = 0.0;
  };

  // Requests that share a draft Step, as the table is made.
  int32_t drafters() const;
  // How far the table goes by what rows of one request alone add, from 0 to 1, in quarters.
  double lone_rows() const;
  // Of the table being made: the draft's Steps where so many share one, rows that one request
  // gives alone, and what `held_up` times as many requests as decode lose by either.
  void share_draft(int32_t drafting, int64_t context);
  void charge_lone_rows(int64_t context);
  void charge_for_prompts(float held_up);
  // Of the table being made: what a further row costs where the batch makes the most of it.
  void find_least_row(int64_t context);

  const LiveCosts* costs_;
  const bool in_turn_;
  int64_t admitted_ = 0;
  int64_t sequences_ = 0;  // of them, those that decode
  int64_t tokens_ = 0;     // of all of them
  std::array<TurnSeconds, kNumRoles> turns_;
  // Of the requests that decode, those that share a draft Step, over the last ones.
  double draft_share_ = 1.0;
  double rows_ = 2.0;          // of a request's target Steps, over the last ones
  double wait_seconds_ = 0.0;  // of target Steps until drafting together is tried again
  int32_t results_since_refresh_ = 0;
  // What the table was made for: requests that decode, their context, those that share a draft
  // Step, those that are held up, lone rows.
  using Bucket = std::array<int64_t, 5>;
  Bucket load_bucket_{};
  uint64_t version_ = 0;
  CostTable table_;
};

}  // namespace forerun
