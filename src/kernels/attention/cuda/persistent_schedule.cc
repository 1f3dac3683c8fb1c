#include "kernels/attention/cuda/persistent_schedule.h"

#include <algorithm>
#include <cmath>

namespace forerun::cuda {
namespace {

// The cost of beginning and ending a run, in tiles, and the smallest number of tiles that is worth
// a run.
constexpr int32_t kRunCost = 1;
constexpr int32_t kFewestTiles = 2;
// The longest unit with its own worker, as a multiple of a share: measured on an H200 with heads of
// 128. A worker without a neighbour takes a tile in 1 us, while memory brings one to each of the
// 264 workers in 1.9; if some workers have neighbours and others do not, memory serves them
// unevenly.
constexpr double kAloneOnMultiprocessor = 2.0;
constexpr double kAlone = 1.22;
// The cost of partial results in tiles: per tile and column, and for merging in any case.
constexpr double kSplitCost = 0.006;
constexpr double kMergeCost = 5.5;

}  // namespace

bool AttentionScheduleCuda::is_alone(const PersistentQueryTileCuda& query_tile) const {
  return query_tile.tiles + kRunCost > share_;
}
bool AttentionScheduleCuda::is_long(const PersistentQueryTileCuda& query_tile) const {
  return query_tile.tiles + kRunCost > longest_whole_ && query_tile.last_cut >= query_tile.cut_step;
}

// Returns the number of a long unit's tiles that become one total: about a share.
int32_t AttentionScheduleCuda::first_tiles(const PersistentQueryTileCuda& query_tile,
                                           bool round_up) const {
  const auto step = static_cast<double>(query_tile.cut_step);
  const double steps = (share_ - kRunCost) / step;
  const auto tiles = static_cast<int32_t>((round_up ? std::ceil(steps) : std::floor(steps)) * step);
  return std::clamp(tiles, query_tile.cut_step, query_tile.last_cut);
}

// Returns the largest share if the first pieces of long units, each with its own worker, are
// rounded according to `round_up`.
double AttentionScheduleCuda::largest_share(std::span<const PersistentQueryTileCuda> query_tiles,
                                            int32_t parts, int32_t num_workers,
                                            bool round_up) const {
  double rest = 0;
  double largest = 0;
  int32_t taken = 0;
  for (const PersistentQueryTileCuda& query_tile : query_tiles) {
    if (query_tile.tiles == 0) continue;
    const double all = static_cast<double>(query_tile.tiles + kRunCost) * parts;
    if (!is_alone(query_tile)) rest += all;
    if (is_alone(query_tile)) taken += parts;
    if (!is_long(query_tile)) continue;
    const int32_t first = first_tiles(query_tile, round_up);
    rest += all - static_cast<double>(first) * parts;
    largest = std::max(largest, static_cast<double>(first + kRunCost));
  }
  return std::max(largest, rest / (num_workers - taken) + kRunCost);
}

void AttentionScheduleCuda::schedule(std::span<const PersistentQueryTileCuda> query_tiles,
                                     int32_t parts, int32_t num_workers, int32_t columns,
                                     bool may_split) {
  pieces_.clear();
  units.assign(query_tiles.size() * static_cast<size_t>(parts), {});
  double all = 0;
  for (const PersistentQueryTileCuda& query_tile : query_tiles) {
    if (query_tile.tiles > 0) all += static_cast<double>(query_tile.tiles + kRunCost) * parts;
  }
  share_ = all / num_workers + kRunCost;  // each share cuts one unit
  // True if there is at most one unit per SM, and no other work.
  const bool are_few = static_cast<int32_t>(units.size()) <= num_workers / kPersistentWorkers &&
                       std::all_of(query_tiles.begin(), query_tiles.end(),
                                   [&](const PersistentQueryTileCuda& query_tile) {
                                     return query_tile.tiles == 0 || is_alone(query_tile);
                                   });
  longest_whole_ =
      (are_few ? kAloneOnMultiprocessor : kAlone) * (1 + kSplitCost * columns) * share_ +
      kMergeCost;
  const bool round_up = largest_share(query_tiles, parts, num_workers, true) <
                        largest_share(query_tiles, parts, num_workers, false);
  int32_t worker = 0;
  for (size_t i = 0; i < query_tiles.size(); ++i) {
    const PersistentQueryTileCuda& query_tile = query_tiles[i];
    const bool splits = may_split && is_long(query_tile);
    const int32_t first = splits ? first_tiles(query_tile, round_up) : query_tile.tiles;
    for (int32_t part = 0; part < parts; ++part) {
      const auto unit_idx = static_cast<int32_t>(i) * parts + part;
      Unit& unit = units[static_cast<size_t>(unit_idx)];
      unit.total_tiles = first;
      unit.pieces = query_tile.tiles > 0 ? 1 : 0;
      unit.alone = !splits && query_tile.tiles > 0 && is_alone(query_tile);
      if (unit.alone) pieces_.push_back({worker++, {.first_unit = unit_idx}});
      if (!splits) continue;
      pieces_.push_back({worker++, {.first_unit = unit_idx, .end_tile = first, .keeps = 1}});
    }
  }
  lay_end_to_end(query_tiles, parts, worker, num_workers);

  // A worker's last piece may be one to hand over, so it runs first; its first piece, which may
  // take up a total, runs last.
  runs.clear();
  workers.assign(static_cast<size_t>(num_workers), {});
  for (size_t begin = 0; begin < pieces_.size();) {
    size_t end = begin;
    while (end < pieces_.size() && pieces_[end].worker == pieces_[begin].worker) ++end;
    AttentionWorkerCuda& worker_runs = workers[static_cast<size_t>(pieces_[begin].worker)];
    worker_runs.first_run = static_cast<int32_t>(runs.size());
    for (size_t i = end; i > begin; --i) runs.push_back(pieces_[i - 1].run);
    worker_runs.end_run = static_cast<int32_t>(runs.size());
    begin = end;
  }
}

// Lays the remaining tiles of all units end to end over workers [first_worker, end_worker).
void AttentionScheduleCuda::lay_end_to_end(std::span<const PersistentQueryTileCuda> query_tiles,
                                           int32_t parts, int32_t first_worker,
                                           int32_t end_worker) {
  double rest = 0;
  int32_t longest = 0;  // longest unit that may be handed over: at most a share
  for (size_t unit = 0; unit < units.size(); ++unit) {
    const PersistentQueryTileCuda& query_tile = query_tiles[unit / static_cast<size_t>(parts)];
    if (query_tile.tiles == 0 || units[unit].alone) continue;
    const bool splits = units[unit].total_tiles < query_tile.tiles;
    rest += query_tile.tiles - (splits ? units[unit].total_tiles : 0) + kRunCost;
    if (!splits) longest = std::max(longest, query_tile.tiles);
  }
  const double share = std::max<double>(rest / (end_worker - first_worker), longest) + kRunCost;
  int32_t worker = first_worker;
  double at = 0;  // tiles and costs of all workers so far
  const auto room = [&] { return share * (worker + 1 - first_worker) - at; };
  for (size_t index = 0; index < units.size(); ++index) {
    const PersistentQueryTileCuda& query_tile = query_tiles[index / static_cast<size_t>(parts)];
    Unit& unit = units[index];
    if (query_tile.tiles == 0 || unit.alone) continue;
    const auto unit_idx = static_cast<int32_t>(index);
    const bool splits = unit.total_tiles < query_tile.tiles;
    int32_t begin = splits ? unit.total_tiles : 0;
    for (bool placed = false; !placed;) {
      const bool last = worker + 1 == end_worker;
      // The end of this worker's share, rounded to a span's end.
      const double target = begin + room() - kRunCost;
      const auto cut =
          static_cast<int32_t>(std::lround(target / query_tile.cut_step)) * query_tile.cut_step;
      const bool fits =
          at + query_tile.tiles - begin + kRunCost <= share * (worker + 1 - first_worker);
      const bool may_cut = splits || (!unit.handed_over && begin == 0);
      if (!fits && !last && cut < begin + kFewestTiles) {
        ++worker;  // too little room; the others' shares compensate
        continue;
      }
      AttentionRunCuda run = {.first_unit = unit_idx, .first_tile = begin};
      placed = fits || last || !may_cut ||
               cut > std::min(query_tile.last_cut, query_tile.tiles - kFewestTiles);
      run.end_tile = placed ? query_tile.tiles : cut;
      if (splits) {
        run.splits = 1;
        ++unit.pieces;
      } else if (!placed) {
        run.hands_over = 1;
        unit.handed_over = true;
      } else if (begin > 0) {
        run.takes_up = 1;
      } else {
        run.end_tile = 0;
      }
      Piece* const before = pieces_.empty() ? nullptr : &pieces_.back();
      if (run.end_tile == 0 && before != nullptr && before->worker == worker &&
          before->run.end_tile == 0 && before->run.first_unit + before->run.num_units == unit_idx) {
        ++before->run.num_units;
      } else {
        pieces_.push_back({worker, run});
      }
      at += (placed ? query_tile.tiles : cut) - begin + kRunCost;
      begin = cut;
      if (!last && (!placed || room() < kFewestTiles)) ++worker;
    }
  }
}

}  // namespace forerun::cuda
