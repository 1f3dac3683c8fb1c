// What strategies are told of costs while the batch changes: seconds of a Step to which every
// request that decodes gives so many rows, the host's work for them included. So trees shrink as
// the batch grows, down to plain decoding where a row is no longer nearly free, and grow again.
//
// A draft that takes turns with the target on its devices holds up every request, also those that
// do not draft. Its entries are the price of a Step that the whole batch shares; whether one runs
// is decided where all that is offered for it is seen (WorkItem::gain). After a round of which
// nothing was run, nobody offers for some Steps, longer each time, and then all do at once: so many
// items that are turned down would cost the host more than the draft might bring.
//
// Requests that still wait for their prompt's result are held up as well: while there are some, all
// that goes beyond a plain Step is charged for them, too.
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
  // Steps of the target for which nobody offers to draft.
  static constexpr double kShortestRest = 16.0;
  static constexpr double kLongestRest = 64.0;

  // `costs` may be null: then nothing is known, ever. It must outlive the object. `sequential`: a
  // draft Step holds up the target.
  BatchCosts(const LiveCosts* costs, bool sequential) : costs_(costs), sequential_(sequential) {}

  // A request has been admitted, will run no more.
  void admit() { ++admitted_; }
  void retire() { --admitted_; }
  // A request of so many tokens begins to decode, has grown, decodes no more; it is admitted.
  void join(int64_t tokens);
  void grow(int64_t tokens) { tokens_ += tokens; }
  void leave(int64_t tokens);

  // What the loop's thread took to handle a result of `rows` rows that wanted something.
  void note_turn(Role role, size_t rows, double seconds);
  // A result of a request that decodes: which Step it is from, or whether it was left out.
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

  // Both fill in the table being made. The first sets what strategies are told, beside the entries,
  // where draft Steps hold up a batch; the second charges longer Steps for all the requests that
  // wait, `held_up` times as many as decode.
  void tell_of_drafting_together(int64_t context);
  void charge_for_prompts(float held_up);
  // Sets CostTable::least_row of the table being made.
  void find_least_row(int64_t context);

  const LiveCosts* costs_;
  const bool sequential_;
  int64_t admitted_ = 0;
  int64_t sequences_ = 0;  // of them, those that decode
  int64_t tokens_ = 0;     // of all of them
  std::array<TurnSeconds, kNumRoles> turns_;
  // Drafting together. Steps are counted in parts, by the results that share them.
  bool drafted_ = false;        // since the last Step of the target
  double drafted_steps_ = 0.0;  // of the draft, since it was last turned down
  double rest_steps_ = 0.0;     // of the target, until it is offered again
  double next_rest_ = kShortestRest;
  int32_t results_since_refresh_ = 0;
  // What the table was made for: requests that decode, their context, whether they rest from
  // drafting, those that are held up.
  using Bucket = std::array<int64_t, 4>;
  Bucket load_bucket_{};
  uint64_t version_ = 0;
  CostTable table_;
};

}  // namespace forerun
