// How the tiles of many sequences are assigned to workers (warpgroups) in even shares: host
// arithmetic only.
//
// A unit is the work of one query tile for one part of a key/value head: a number of tiles that
// are taken in ascending order. Units no longer than a worker's share are laid end to end and cut
// where shares end, as in McNaughton's wrap-around rule: the worker before the cut begins its share
// with the unit's first tiles and hands the total over; the worker after the cut ends its share
// with the rest, so that it never waits. A unit somewhat longer than a share has a worker to
// itself: memory is the bottleneck, and a worker may be faster than its share of the bandwidth.
// Still longer units would take too long one tile after another: their first tiles become one
// total, the tiles behind leave one partial result per span, and all are merged in the end. Either
// way sums run in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace forerun::cuda {

// kPersistent: workers (warpgroups) per block. Worker w is number w / multiprocessors of
// multiprocessor w % multiprocessors.
inline constexpr int kPersistentWorkers = 2;

// A query tile: the tiles that all of its rows go through together, the same for every part.
struct PersistentQueryTileCuda {
  int32_t tiles = 0;
  int32_t cut_step = 1;  // every row has a span end before tile c for all multiples c of cut_step
  int32_t last_cut = 0;  // the last multiple to cut at; 0: it cannot be cut
};

// A run: some tiles of one unit, or several whole units, for one worker. Number of a unit: query
// tile * parts + part.
struct alignas(16) AttentionRunCuda {
  int32_t first_unit = 0;
  int32_t num_units = 1;
  int32_t first_tile = 0;
  int32_t end_tile = 0;  // 0: all of the units' tiles
  // takes_up: continues from the total of the tiles before, which another worker hands over.
  // hands_over: hands its own total over. keeps: stores its total as a partial result. splits:
  // stores each span as a partial result.
  int32_t takes_up = 0, hands_over = 0, keeps = 0, splits = 0;
};

// The runs of a worker, in order.
struct AttentionWorkerCuda {
  int32_t first_run = 0;
  int32_t end_run = 0;
};

// Reusable: keeps its memory.
class AttentionScheduleCuda {
 public:
  std::vector<AttentionRunCuda> runs;
  std::vector<AttentionWorkerCuda> workers;
  struct Unit {
    int32_t total_tiles = 0;  // tiles of the first piece where the pieces are merged, otherwise all
    int32_t pieces = 0;       // partial results to merge; 1 where it is whole or handed over
    bool handed_over = false;
    bool alone = false;  // a worker takes it whole and nothing else
  };
  std::vector<Unit> units;

  // `columns`: the most columns of a unit. `may_split`: if false, units longer than a share stay
  // whole.
  void schedule(std::span<const PersistentQueryTileCuda> query_tiles, int32_t parts,
                int32_t num_workers, int32_t columns, bool may_split);

 private:
  struct Piece {
    int32_t worker;
    AttentionRunCuda run;
  };
  double largest_share(std::span<const PersistentQueryTileCuda> query_tiles, int32_t parts,
                       int32_t num_workers, bool round_up) const;
  bool is_alone(const PersistentQueryTileCuda& query_tile) const;
  bool is_long(const PersistentQueryTileCuda& query_tile) const;
  int32_t first_tiles(const PersistentQueryTileCuda& query_tile, bool round_up) const;
  void lay_end_to_end(std::span<const PersistentQueryTileCuda> query_tiles, int32_t parts,
                      int32_t first_worker, int32_t end_worker);

  double share_ = 0;           // tiles of a worker, on average
  double longest_whole_ = 0;   // the most tiles of a unit that stays whole
  std::vector<Piece> pieces_;  // scratch, ascending by worker
};

}  // namespace forerun::cuda
