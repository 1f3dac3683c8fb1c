// The layout of a weight in GPU memory and the split of its products over a GPU. It is host
// arithmetic only, so tests need no GPU.
//
// A weight [out][in] is stored as units of 32 outputs (linear/unit_formats.h). Inside a unit,
// bytes lie in the order of the tensor core's fragments: weights are the 16-row operand A of
// mma.m16n8k16, and rows of activations are the 8 columns of operand B: 8 rows are an n8 tile.
//
// The split depends on the weight's shape and on may_idle_sms (plan_linear()), never on the number
// of rows. A weight is cut into `clusters` ranges of 32-output tiles. A cluster of `cluster_size`
// blocks shares a range, and each of its blocks takes a part of the inputs (split-K). Inside a
// block, `tile_warps` groups of warps take different tiles, and the `slice_k_warps` warps of a
// group take different inputs. Sums run over a warp's inputs in order, then over the warps of a
// group in order, then over the blocks of a cluster in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "forerun/status.h"
#include "kernels/linear/unit_formats.h"

namespace forerun::cuda {

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

inline constexpr int kTileOutputs = 32;
inline constexpr int kLinearWarps = 8;      // warps per block
inline constexpr int kMaxLinearWarps = 16;  // warps of a block with at least one warp per tile
inline constexpr int kInt4Group = 128;      // inputs that share a scale
inline constexpr int kInt8Group = 64;

// From this many rows on, the kernel for many rows (linear/cuda/tiles.cu) is faster, since the
// kernel for few rows would read the weight twice.
inline constexpr int kFewestTileRows = 33;

// Returns the row stride, in elements, with which layers read `rows` rows of `width` activations
// fastest. It never exceeds the stride for one row. The copy engine (TMA) is slow if source and
// target differ modulo 128 bytes, and the stride of few rows in shared memory is 16 bytes more than
// a multiple of 128 (on an H100, QKV of 70B over 4 GPUs at 8 rows takes 6.8 us instead of 8.1).
// Many rows lie in shared memory without gaps.
constexpr int64_t linear_input_stride(int64_t width, int rows) {
  return (width + 63) / 64 * 64 + (rows < kFewestTileRows ? 8 : 0);
}

// The largest number of clusters of a launch, by cluster size. Launches with exactly one block per
// SM, each with half of the SM's shared memory, are placed evenly: while one runs, the next finds
// room for one block on every SM. Larger clusters cannot fill 132 SMs, since a cluster lies inside
// a GPC; these numbers fit at once with one block per SM (cudaOccupancyMaxActiveClusters on an
// H200). 32 clusters of 4 or 16 of 8 would leave 12 SMs empty and put two blocks on 8 SMs, which
// would take twice as long.
inline constexpr int kMaxClusterSize = 8;
constexpr int max_clusters(int cluster_size) {
  constexpr int kMax[kMaxClusterSize] = {132, 66, 39, 30, 22, 17, 15, 15};
  return kMax[cluster_size - 1];
}

// Bytes of the sums of 8 rows' activations of a unit with so many groups
// (linear/cuda/group_sums.h).
constexpr int group_sum_bytes(int groups) { return 8 * groups / 2 * 8; }

// Bytes of a stage of the ring, which holds one unit. Bulk copies to addresses that are not
// multiples of 128 are slower (13% for bf16 layers).
constexpr int stage_bytes(LinearFormat format) { return (unit_bytes(format) + 127) / 128 * 128; }

struct LinearPlan {
  LinearFormat format = LinearFormat::kBf16;
  int64_t in_features = 0;
  int64_t out_features = 0;
  int tiles = 0;  // ceil(out / 32)
  int units = 0;  // in / unit_inputs
  int cluster_size = 1;
  int clusters = 1;
  int slice_k_warps = 1;
  // Returns the bytes that a kernel reads in one pass over the weight.
  size_t weight_bytes() const {
    return static_cast<size_t>(tiles) * static_cast<size_t>(units) *
           static_cast<size_t>(unit_bytes(format));
  }
};

// Returns the split for a shape. With `may_idle_sms`, some SMs may stay without a block if that is
// faster. Allowed only if the next kernel would not place two blocks on an idle SM: before
// attention, which has few blocks, but not before a linear layer. Fails if the inputs are not a
// multiple of 128 (int4), 64 (int8) or 32 (bf16).
Result<LinearPlan> plan_linear(LinearFormat format, int64_t in_features, int64_t out_features,
                               bool may_idle_sms = false);

// Returns a plan with a given split, for benches. Fails if the split does not fit the shape.
Result<LinearPlan> plan_linear(LinearFormat format, int64_t in_features, int64_t out_features,
                               int cluster_size, int slice_k_warps);

// Returns "a linear layer of ... inputs and ... outputs", for messages.
std::string linear_shape_text(int64_t in_features, int64_t out_features);

// The largest number of segments of activations in shared memory.
inline constexpr int kInputSegments = 4;
// The largest number of units that a warp has in flight.
inline constexpr int kMaxStages = 6;
// The bytes for barriers at the start of a block's shared memory: two barriers per segment of
// activations, two for sums from other blocks, one for the scales of rows; the scales; then one
// barrier for each unit that the warps may have in flight, as many as fit.
inline constexpr int kBarrierBytes = 512;
constexpr int ring_barrier_offset(int n8_tiles) {
  return (2 * kInputSegments + 3) * 8 + n8_tiles * 8 * 4;
}
constexpr int ring_barriers(int n8_tiles) {
  return (kBarrierBytes - ring_barrier_offset(n8_tiles)) / 8;
}
static_assert(ring_barriers(1) >= kLinearWarps * kMaxStages);

// The order in which a block multiplies its tiles.
enum class TileSchedule : uint8_t {
  kMultiPass,   // 8 warps; several passes, activations in segments
  kSinglePass,  // at most 8 warps; all tiles at once, activations in one segment
  kManyWarps,   // like kSinglePass with more than 8 warps, with fewer registers
};

// The share of an SM's shared memory that a block takes, which determines the other blocks that fit
// beside it.
enum class LinearFootprint : uint8_t {
  kHalf,  // half, if possible
  // Just over half, or a little more if up to 8 rows of activations then fit at once (int4). For
  // every second layer in a chain of dependent launches. Each layer is placed while the previous
  // one still runs, beside its blocks. Once a layer has two blocks on one SM and none on another,
  // the layers after it take the same places and up to twice as long. Two blocks of over half never
  // fit on one SM, nor do two of half beside one of over half, so a chain that alternates both
  // kinds becomes even again.
  kOverHalf,
  // Like kHalf, but over half if the layer has 9 to 16 rows, many warps, plain outputs on one GPU
  // and a block on every SM. It then also uses fewer registers, so that beside each block there is
  // room for a block of attention's clusters (attention/cuda/decode_cluster.cu), which starts while
  // the layer runs, but not for another block of this layer.
  kBesideAttention,
};

// Returns whether a separate producer warp loads activations of `n8_tiles` * 8 rows if they come in
// more segments than there are buffers. A warp that also multiplies would lose a microsecond to the
// copies of each segment (3% for 8B int4 at 24 rows). Up to 8 rows need few copies, and a ninth
// warp would leave less room for blocks of the next layer (8B at 8 rows would be 2% slower).
constexpr bool has_producer_warp(int n8_tiles) { return n8_tiles > 1; }

// Parameters of a launch for some number of rows, which are cut into tiles of 8 * n8_tiles rows.
struct LinearLaunch {
  int n8_tiles = 1;   // 1, 2 or 4 n8 tiles (8 rows each) that share the registers of weights
  int row_tiles = 1;  // tiles of rows; each reads the weight once
  TileSchedule schedule = TileSchedule::kMultiPass;
  int tile_warps = 1;          // tiles in parallel: a block has tile_warps * slice_k_warps warps
  int segment_units = 1;       // units of a warp whose activations are loaded together
  int segments = 1;            // number of segments of the inputs of one tile
  int input_buffers = 1;       // segments in shared memory at once
  int producer_warps = 0;      // producer warps (has_producer_warp()) beside those that multiply
  int stages = 2;              // units that a warp has in flight
  int input_stride_bytes = 0;  // stride of rows of activations in shared memory
  int input_rows = 8;          // rows of a segment in shared memory: 8 * n8_tiles or, below 8, all
  // Offsets in bytes in shared memory.
  int slice_k_offset = 0, receive_offset = 0, ring_offset = 0;
  int receive_buffer_bytes = 0;  // of one of the two buffers
  int receive_places = 0;        // halves of fragments (16 outputs, 8 rows) that a block owns
  int shared_bytes = 0;
  bool few_registers = false;  // set if kBesideAttention takes effect
};
// Returns the launch parameters. `shared_limit` is the shared memory in bytes that a block may
// request on the device. Fewer than 8 rows request as much as 8 rows, except with kOverHalf. The
// number of n8 tiles depends only on `rows`, so ranks of a group with shards of different sizes
// have the same tiles of rows, on which two-shot all-reduces rely (linear/cuda/reduce.h). Fails if
// the rows do not fit.
Result<LinearLaunch> plan_launch(const LinearPlan& plan, int rows, int shared_limit,
                                 LinearFootprint footprint = LinearFootprint::kHalf);

}  // namespace forerun::cuda
