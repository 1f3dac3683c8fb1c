#include "kernels/linear/cuda/tile_plan.h"

#include <algorithm>
#include <limits>

namespace forerun::cuda {
namespace {

// Approximate times in nanoseconds, whose order alone matters: a unit of a tile; the start and end
// of a tile; the wait of blocks that share a tile for each other; a piece's round trip through
// memory.
struct Costs {
  double unit, tile, meeting, piece;
};
constexpr double kWideUnit = 400;

Costs costs_of(LinearFormat format, bool few_rows) {
  const UnitFormat& unit = unit_format(format);
  return few_rows ? Costs{static_cast<double>(unit.few_tile_ns), 3000, 1500, 1300}
                  : Costs{static_cast<double>(unit.tile_ns), 3000, 1500, 2500};
}

double estimated_ns(const LinearPlan& plan, const LinearTiling& tiling, int tiles) {
  const Costs costs = costs_of(plan.format, tiling.tile_rows <= kFewTileRows);
  const int all_chains = tiling.chains * tiling.splits;
  double tile = costs.tile + costs.unit * plan.units * tiling.chains / all_chains;
  if (tiling.splits > 1) {
    tile += costs.meeting + costs.piece * tiling.pieces / tiling.splits;
  }
  return tile * ceil_div(tiles * tiling.splits, tiling.blocks);
}

}  // namespace

LinearTiling plan_tiles(const LinearPlan& plan, int rows, int multiprocessors, bool may_be_wide) {
  const int row_tiles = ceil_div(rows, kTileRows);
  const int tiles = ceil_div(plan.tiles, kBlockTiles) * row_tiles;
  const int chains = plan.cluster_size * plan.slice_k_warps;
  LinearTiling best;
  double least = std::numeric_limits<double>::infinity();
  const int tile_rows = ceil_div(ceil_div(rows, row_tiles), 8) * 8;
  const int n8_tiles = tile_rows <= kFewTileRows ? kFewTileRows / 8 : kTileN8Tiles;
  for (int splits = 1; splits <= std::min({chains, n8_tiles, multiprocessors}); ++splits) {
    LinearTiling tiling;
    tiling.row_tiles = row_tiles;
    tiling.tile_rows = tile_rows;
    tiling.splits = splits;
    tiling.chains = chains / splits;
    // The chains of a block make up whole blocks of a cluster of LinearPlan, or a part of one.
    if (chains % splits != 0 || n8_tiles % splits != 0) continue;
    if (tiling.chains % plan.slice_k_warps != 0 && plan.slice_k_warps % tiling.chains != 0)
      continue;
    tiling.chains_per_piece = tiling.chains < plan.slice_k_warps ? 1 : plan.slice_k_warps;
    tiling.pieces = splits == 1 ? 1 : chains / tiling.chains_per_piece;
    // A block keeps its own pieces, for its share of the rows, in the shared memory of one piece.
    if (tiling.pieces > splits * splits) continue;
    if (splits > 1 && tiling.pieces * tiles > kMaxPieces) continue;
    // All blocks of a tile run at the same time.
    tiling.blocks = std::min(tiles, multiprocessors / splits) * splits;
    const double ns = estimated_ns(plan, tiling, tiles);
    if (ns < least) {
      least = ns;
      best = tiling;
    }
  }
  if (!may_be_wide || plan.format != LinearFormat::kBf16 || chains > 1) return best;
  const int wide_tiles = ceil_div(plan.tiles, kWideBlockTiles) * row_tiles;
  const int blocks = std::min(wide_tiles, multiprocessors);
  const double wide_ns =
      (costs_of(plan.format, false).tile + kWideUnit * plan.units) * ceil_div(wide_tiles, blocks);
  if (wide_ns < least) {
    best.block_tiles = kWideBlockTiles;
    best.blocks = blocks;
  }
  return best;
}

}  // namespace forerun::cuda
