// The assignment of many sequences' tiles to workers (warpgroups) in even shares. It is host
// arithmetic only.
//
// A unit is the work of one query tile for one part of a key/value head: a number of tiles that are
// taken in ascending order. Units no longer than a worker's share are laid end to end and cut where
// shares end, as in McNaughton's wrap-around rule: the worker before the cut begins its share with
// the unit's first tiles and hands the total over; the worker after the cut ends its share with the
// rest, so that it never waits. A unit somewhat longer than a share has a worker to itself: memory
// is the bottleneck, and a worker may be faster than its share of the bandwidth. Still longer units
// would take too long one tile after another: their first tiles become one total, the later tiles
// give one partial result per span, and all are merged in the end. Either way sums run in the same
// order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace forerun::cuda {

// Workers (warpgroups) per block of kPersistent. Worker w is number w / multiprocessors on SM w %
// multiprocessors.
inline constexpr int kPersistentWorkers = 2;

// A query tile: tiles that all of its rows process together, the same for every part.
struct PersistentQueryTileCuda {
  int32_t tiles = 0;
  // Each multiple c of cut_step is a possible cut: every row has a span end before tile c.
  int32_t cut_step = 1;
  int32_t last_cut = 0;  // last multiple at which it may be cut; 0 if it cannot be cut
};

// A run: some tiles of one unit, or several whole units, for one worker. A unit has the number
// query tile * parts + part.
struct alignas(16) AttentionRunCuda {
  int32_t first_unit = 0;
  int32_t num_units = 1;
  int32_t first_tile = 0;
  int32_t end_tile = 0;  // 0 for all of the units' tiles
  // takes_up continues from the total of the earlier tiles, which another worker hands over.
  // hands_over passes on its own total. keeps stores its total as a partial result. splits stores
  // each span as a partial result.
  int32_t takes_up = 0, hands_over = 0, keeps = 0, splits = 0;
};

// The runs of a worker, in order.
struct AttentionWorkerCuda {
  int32_t first_run = 0;
  int32_t end_run = 0;
};

// A builder of schedules, which reuses its memory.
class AttentionScheduleCuda {
 public:
  std::vector<AttentionRunCuda> runs;
  std::vector<AttentionWorkerCuda> workers;
  struct Unit {
    int32_t total_tiles = 0;  // tiles of the first piece if the pieces are merged, otherwise all
    int32_t pieces = 0;       // partial results to merge; 1 if the unit is whole or handed over
    bool handed_over = false;
    bool alone = false;  // a worker takes only this unit, as a whole
  };
  std::vector<Unit> units;

  // `columns` is the largest number of columns of a unit. If `may_split` is false, units longer
  // than a share stay whole.
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

  double share_ = 0;           // average tiles per worker
  double longest_whole_ = 0;   // largest number of tiles of a unit that stays whole
  std::vector<Piece> pieces_;  // scratch, ascending by worker
};

}  // namespace forerun::cuda
