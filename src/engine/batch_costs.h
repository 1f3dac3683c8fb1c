// What strategies are told of costs while the batch changes: seconds of a Step to which every
// request that decodes gives so many rows, the host's work for them included. So trees shrink as
// the batch grows, down to plain decoding where a row is no longer nearly free, and grow again.
//
// One thread.
#pragma once

#include <array>
#include <cstdint>

#include "exec/live_costs.h"
#include "step/cost_table.h"
#include "step/types.h"

namespace forerun {

class BatchCosts {
 public:
  // `costs` may be null: then nothing is known, ever. It must outlive the object.
  explicit BatchCosts(const LiveCosts* costs) : costs_(costs) {}

  // A request of so many tokens begins to decode, has grown, decodes no more.
  void join(int64_t tokens);
  void grow(int64_t tokens) { tokens_ += tokens; }
  void leave(int64_t tokens);

  // What the loop's thread took to handle a result of `rows` rows that wanted something.
  void note_turn(Role role, size_t rows, double seconds);

  // Brings the table up to date where the batch has changed by enough to matter, or some hundred
  // turns have passed.
  void refresh();
  // What a request is told before it is part of the batch.
  CostTable for_newcomer() const;
  // Grows whenever the table changes; 0: there is none yet.
  uint64_t version() const { return version_; }
  const CostTable& table() const { return table_; }

 private:
  // Turns of plain decoding and those that handle a tree differ by far.
  struct TurnSeconds {
    double plain = 0.0;
    double tree = 0.0;
  };

  const LiveCosts* costs_;
  int64_t sequences_ = 0;
  int64_t tokens_ = 0;  // of all of them
  std::array<TurnSeconds, kNumRoles> turns_;
  int32_t turns_since_refresh_ = 0;
  int64_t load_bucket_ = -1;  // that the table was made for
  uint64_t version_ = 0;
  CostTable table_;
};

}  // namespace forerun
