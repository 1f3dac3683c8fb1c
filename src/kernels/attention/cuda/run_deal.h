// How the tiles of many sequences are dealt to workers (warpgroups) in even shares: host arithmetic
// only.
//
// A unit is what one group of rows sees through one part of a key/value head: so many tiles, which
// are worked on in ascending order. Units no longer than a worker's share are laid end to end and
// cut where shares end, as in McNaughton's wrap-around rule: the worker before the cut begins its
// share with the unit's first tiles and hands the total over, the worker behind it ends its share
// with the rest, so that it never waits. A unit somewhat longer than a share has a worker to
// itself: memory is what all wait for, and a worker may be faster than its share of that. Still
// longer units cannot be worked on one tile after another in time: their first tiles become one
// total, the tiles behind leave partial results by spans, which are merged in the end. Either way
// sums run in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace forerun::cuda {

// kRuns: warpgroups of a block that work by themselves: worker w is the (w / multiprocessors)-th of
// multiprocessor w % multiprocessors.
inline constexpr int kRunWorkers = 2;

// A group of rows: the tiles that all of them work on together, for every part alike.
struct RunGroupCuda {
  int32_t tiles = 0;
  int32_t cut_step = 1;  // every row has a span end before tile c for all multiples c of cut_step
  int32_t last_cut = 0;  // up to this one; 0: it cannot be cut
};

// What a worker does of one unit, or several whole units. Unit: group * parts + part.
struct alignas(16) AttentionRunCuda {
  int32_t first_unit = 0;
  int32_t num_units = 1;
  int32_t first_tile = 0;
  int32_t end_tile = 0;  // 0: all of the units' tiles
  // It takes up the total of the tiles before its own, which another worker hands over; hands its
  // own over; leaves its total as a partial result; leaves every span as one.
  int32_t takes_up = 0, hands_over = 0, keeps = 0, splits = 0;
};

// The runs of a worker, in order.
struct AttentionWorkerCuda {
  int32_t first_run = 0;
  int32_t end_run = 0;
};

// Reusable: keeps its memory.
class AttentionDealCuda {
 public:
  std::vector<AttentionRunCuda> runs;
  std::vector<AttentionWorkerCuda> workers;
  struct Unit {
    int32_t total_tiles = 0;  // tiles of the first piece where the pieces are merged, otherwise all
    int32_t pieces = 0;       // to be merged: 1 where it is whole or handed over
    bool handed_over = false;
    bool alone = false;  // a worker has it alone, whole
  };
  std::vector<Unit> units;

  // `columns`: of a unit at most; `may_split`: otherwise units that are longer than a share stay
  // whole.
  void deal(std::span<const RunGroupCuda> groups, int32_t parts, int32_t num_workers,
            int32_t columns, bool may_split);

 private:
  struct Piece {
    int32_t worker;
    AttentionRunCuda run;
  };
  double largest_share(std::span<const RunGroupCuda> groups, int32_t parts, int32_t num_workers,
                       bool round_up) const;
  bool is_alone(const RunGroupCuda& group) const;
  bool is_long(const RunGroupCuda& group) const;
  int32_t first_tiles(const RunGroupCuda& group, bool round_up) const;
  void lay_end_to_end(std::span<const RunGroupCuda> groups, int32_t parts, int32_t first_worker,
                      int32_t end_worker);

  double share_ = 0;           // tiles of a worker, on average
  double longest_whole_ = 0;   // tiles of a unit that is not split
  std::vector<Piece> pieces_;  // scratch, ascending by worker
};

}  // namespace forerun::cuda
