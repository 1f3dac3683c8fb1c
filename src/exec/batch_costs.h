// The cost table that strategies get while the batch changes: seconds of a Step, the host's work
// included, by the number of rows that every decoding request gives to it. So trees shrink as the
// batch grows, down to plain decoding where a row is no longer nearly free, and grow again as it
// shrinks.
//
// A draft that takes turns with the target on the same devices holds up every request, also those
// that do not draft. Its entries are the price of a Step that the whole batch shares; the executor,
// which sees all offers, decides whether such a Step runs (WorkItem::gain). After a round of offers
// of which none was run, no request offers for some Steps, longer each time, and then all do at
// once: otherwise, handling items that are turned down would cost the host more than the draft
// could bring.
//
// Requests that still wait for their prompt's result are held up as well: while there are some, all
// time beyond a plain Step is charged for them too.
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
  // Bounds of the number of target Steps for which no request offers to draft.
  static constexpr double kShortestRest = 16.0;
  static constexpr double kLongestRest = 64.0;

  // `costs` may be null, and then the table stays empty. It must outlive the object. `sequential`:
  // a draft Step holds up the target.
  BatchCosts(const LiveCosts* costs, bool sequential) : costs_(costs), sequential_(sequential) {}

  // A request has been admitted; an admitted request will run no more.
  void admit() { ++admitted_; }
  void retire() { --admitted_; }
  // An admitted request of `tokens` tokens begins to decode; one that decodes has grown by
  // `tokens`; one of `tokens` tokens no longer decodes.
  void join(int64_t tokens);
  void grow(int64_t tokens) { tokens_ += tokens; }
  void leave(int64_t tokens);

  // Takes the time in which the loop's thread handled a result with `rows` rows that wanted
  // something.
  void note_turn(Role role, size_t rows, double seconds);
  // Takes a result of a decoding request: which Step it is from, or that it was left out.
  void note_step(const WorkResult& result);

  // Updates the table where the batch has changed enough to matter, or after some hundred results.
  // Once a Step is often enough.
  void refresh();
  // The table for a request that is not yet part of the batch.
  CostTable for_newcomer() const;
  // Requests that decode, and their tokens together.
  int64_t sequences() const { return sequences_; }
  int64_t tokens() const { return tokens_; }
  // Grows whenever the table changes; 0: there is none yet.
  uint64_t version() const { return version_; }
  const CostTable& table() const { return table_; }

 private:
  // Turns of plain decoding take far less time than turns that handle a tree.
  struct TurnSeconds {
    double plain = 0.0;
    double tree = 0.0;
  };

  // Both fill in the table being made. The first sets what strategies are told, beside the entries,
  // where draft Steps hold up a batch; the second charges longer Steps for all requests that wait
  // for them, `waiting_per_decoding` for each one that decodes.
  void tell_of_drafting_together(int64_t context);
  void charge_for_prompts(float waiting_per_decoding);
  // Sets CostTable::min_row of the table being made.
  void find_min_row(int64_t context);

  const LiveCosts* costs_;
  const bool sequential_;
  int64_t admitted_ = 0;
  int64_t sequences_ = 0;  // admitted requests that decode
  int64_t tokens_ = 0;     // their tokens, all requests together
  std::array<TurnSeconds, kNumRoles> turns_;
  // Drafting together. Each result counts as its part of the Step that it shares with others.
  bool drafted_ = false;        // there was a draft Step since the last Step of the target
  double drafted_steps_ = 0.0;  // draft Steps since an offer was last turned down
  double rest_steps_ = 0.0;     // target Steps until drafting is offered again
  double next_rest_ = kShortestRest;
  int32_t results_since_refresh_ = 0;
  // What the table was made for, in buckets: decoding requests, their context, whether drafting
  // rests, requests that are held up.
  using Bucket = std::array<int64_t, 4>;
  Bucket load_bucket_{};
  uint64_t version_ = 0;
  CostTable table_;
};

}  // namespace forerun
