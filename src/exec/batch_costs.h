// The cost table for strategies while the batch changes: seconds per Step, including the host's
// work, by the number of rows that each decoding request adds. So trees shrink as the batch grows,
// down to plain decoding once a row is no longer nearly free, and grow again as it shrinks.
//
// A draft that shares its devices with the target holds up every request, also those that do not
// draft. Its entries are the price of a Step that the whole batch shares; the executor, which sees
// all offers, decides whether such a Step runs (WorkItem::gain). If it turns down all offers of a
// round, no request offers for some Steps, longer each time, and then all do at once. Otherwise
// handling refused items would cost the host more than the draft could gain.
//
// The draft also holds up requests that still wait for their prompt's result: while there are some,
// the table charges all time beyond a plain Step for them too.
//
// Only one thread may use an object.
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
  // Bounds for the number of target Steps without offers to draft.
  static constexpr double kShortestRest = 16.0;
  static constexpr double kLongestRest = 64.0;

  // If `costs` is null, the table stays empty. It must outlive the object. `sequential` says that a
  // draft Step holds up the target.
  BatchCosts(const LiveCosts* costs, bool sequential) : costs_(costs), sequential_(sequential) {}

  // Note that a request was admitted, or that an admitted one has ended.
  void admit() { ++admitted_; }
  void retire() { --admitted_; }
  // Records that an admitted request of `tokens` tokens begins to decode; that a decoding request
  // has grown by `tokens`; that one of `tokens` tokens has stopped.
  void join(int64_t tokens);
  void grow(int64_t tokens) { tokens_ += tokens; }
  void leave(int64_t tokens);

  // Records the time in which the engine's loop handled a result with `rows` rows that wanted
  // something.
  void note_turn(Role role, size_t rows, double seconds);
  // Records a result of a decoding request: its Step, or that the executor left it out.
  void note_step(const WorkResult& result);

  // Updates the table if the batch has changed enough to matter, or after some hundred results. One
  // call per Step is enough.
  void refresh();
  // Returns the table for a request that is not yet part of the batch.
  CostTable for_newcomer() const;
  // Return the number of decoding requests, and the sum of their tokens.
  int64_t sequences() const { return sequences_; }
  int64_t tokens() const { return tokens_; }
  // Grows whenever the table changes; 0 if there is no table yet.
  uint64_t version() const { return version_; }
  const CostTable& table() const { return table_; }

 private:
  // Mean times of turns: plain decoding takes far less time than handling a tree.
  struct TurnSeconds {
    double plain = 0.0;
    double tree = 0.0;
  };

  // Complete the new table. The first sets the fields beside the entries if draft Steps hold up a
  // batch; the second charges longer Steps for all requests that wait for them,
  // `waiting_per_decoding` for each decoding one.
  void tell_of_drafting_together(int64_t context);
  void charge_for_prompts(float waiting_per_decoding);
  // Sets CostTable::min_row of the new table.
  void find_min_row(int64_t context);

  const LiveCosts* costs_;
  const bool sequential_;
  int64_t admitted_ = 0;
  int64_t sequences_ = 0;  // admitted requests that decode
  int64_t tokens_ = 0;     // the sum of their tokens
  std::array<TurnSeconds, kNumRoles> turns_;
  // Statistics of drafting for the whole batch. Each result counts as its share of its Step.
  bool drafted_ = false;        // a draft Step ran since the last target Step
  double drafted_steps_ = 0.0;  // draft Steps since the last refused offer
  double rest_steps_ = 0.0;     // target Steps until requests offer to draft again
  double next_rest_ = kShortestRest;
  int32_t results_since_refresh_ = 0;
  // The bucketed inputs of the table: decoding requests, their context, whether drafting rests, and
  // waiting requests.
  using Bucket = std::array<int64_t, 4>;
  Bucket load_bucket_{};
  uint64_t version_ = 0;
  CostTable table_;
};

}  // namespace forerun
