// How a weight lies in GPU memory and how its products are split over a GPU: host arithmetic only,
// so that it is tested where there is no GPU.
//
// A weight [out][in] is stored as units, [out / 32][in / unit_inputs], each one contiguous piece
// that a warp copies into shared memory and multiplies:
//   int4  32 outputs x 128 inputs: 2,048 bytes of nibbles, 32 f16 scales, 32 zero points of 4 bits
//         (2,128 bytes: 4.16 bits per weight)
//   int8  32 outputs x 64 inputs: 2,048 bytes, each 128 more than its weight, 32 f16 scales (2,112
//         bytes: 8.25 bits per weight)
//   bf16  32 outputs x 32 inputs: 2,048 bytes
// Inside a unit, bytes lie in the order of the tensor core's fragments: weights are the 16-row
// operand of mma.m16n8k16, the rows of the activation its 8 columns.
//
// The split depends on the weight's shape and its place in a layer (plan_linear()), never on the
// number of rows. A weight is cut into `clusters` ranges of 32-output tiles. A cluster of
// `cluster_size` blocks shares a range; each of its blocks has a part of the inputs. Inside a
// block, `tile_warps` groups of warps take different tiles, and the `input_warps` warps of a group
// different inputs. Sums run over a warp's inputs in order, then over the warps of a group in
// order, then over the blocks of a cluster in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "forerun/status.h"

namespace forerun::cuda {

enum class LinearFormat : uint8_t { kInt4Group128, kInt8Group64, kBf16 };

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

inline constexpr int kTileOutputs = 32;
inline constexpr int kLinearWarps = 8;      // of a block
inline constexpr int kMaxLinearWarps = 16;  // of one with a warp or more for each of its tiles
inline constexpr int kInt4Group = 128;      // inputs that share a scale
inline constexpr int kInt8Group = 64;

constexpr int unit_inputs(LinearFormat format) {
  return format == LinearFormat::kInt4Group128  ? kInt4Group
         : format == LinearFormat::kInt8Group64 ? kInt8Group
                                                : 32;
}
constexpr int unit_bytes(LinearFormat format) {
  return format == LinearFormat::kInt4Group128  ? 2048 + 64 + 16
         : format == LinearFormat::kInt8Group64 ? 2048 + 64
                                                : 2048;
}

// From this many rows on, a kernel of its own (linear/cuda/tiles.cu) is faster: the kernel for few
// rows would pass over the weight twice.
inline constexpr int kFewestTileRows = 33;

// Elements from row to row that layers read fastest, of `rows` rows of activations of `width`; no
// more than of one row. The
// copy engine is slow between addresses that differ modulo 128 bytes, and rows in shared memory are
// 16 bytes more than a multiple of that (QKV of 70B over 4 GPUs at 8 rows: 6.8 us, else 8.1). Many
// rows lie in shared memory without gaps.
constexpr int64_t linear_input_stride(int64_t width, int rows) {
  return (width + 63) / 64 * 64 + (rows < kFewestTileRows ? 8 : 0);
}

// Clusters of a launch by their size. Launches of exactly one block per SM (of half an SM's shared
// memory) place themselves evenly: while one runs, the next finds one place free on every SM.
// Larger clusters cannot fill 132 SMs, since they lie inside a GPC: these are as many as find a
// place at once at a block per SM (cudaOccupancyMaxActiveClusters on an H200). 32 of 4 or 16 of 8
// leave 12 SMs empty and 8 with two blocks, which take twice as long.
inline constexpr int kMaxClusterSize = 8;
constexpr int most_clusters(int cluster_size) {
  constexpr int kMax[kMaxClusterSize] = {132, 66, 39, 30, 22, 17, 15, 15};
  return kMax[cluster_size - 1];
}

// Bytes of a ring's stage, which holds a unit. Bulk copies to addresses that are not multiples of
// 128 are slower: bf16 layers took 13% longer.
constexpr int stage_bytes(LinearFormat format) { return (unit_bytes(format) + 127) / 128 * 128; }

struct LinearPlan {
  LinearFormat format = LinearFormat::kBf16;
  int64_t in_features = 0;
  int64_t out_features = 0;
  int tiles = 0;  // ceil(out / 32)
  int units = 0;  // in / unit_inputs
  int cluster_size = 1;
  int clusters = 1;
  int input_warps = 1;
  // Bytes that one pass over the weight reads.
  size_t weight_bytes() const {
    return static_cast<size_t>(tiles) * static_cast<size_t>(units) *
           static_cast<size_t>(unit_bytes(format));
  }
};

// The split used for a shape. `may_idle_sms`: some multiprocessors may stay without a block, if
// that is faster: what is launched next does not come to lie there twice because of it (attention,
// whose blocks are few, but no linear layer). Fails if the inputs are not a multiple of 128 (int4),
// 64 (int8) or 32 (bf16).
Result<LinearPlan> plan_linear(LinearFormat format, int64_t in_features, int64_t out_features,
                               bool may_idle_sms = false);

// The same with a given split, for measuring; fails if it does not fit the shape.
Result<LinearPlan> plan_linear(LinearFormat format, int64_t in_features, int64_t out_features,
                               int cluster_size, int input_warps);

// "a linear layer of ... inputs and ... outputs", for messages.
std::string linear_shape_text(int64_t in_features, int64_t out_features);

// The most segments of activations in shared memory.
inline constexpr int kInputSegments = 4;
// The most units that a warp keeps on their way.
inline constexpr int kMaxStages = 6;
// The start of a block's shared memory: barriers, two per segment of activations, two for sums from
// peers, one for the scales of rows; those scales; then a barrier for each of the units that all
// warps may have on their way, of which there are as many as fit.
inline constexpr int kBarrierBytes = 512;
constexpr int ring_barrier_offset(int row_blocks) {
  return (2 * kInputSegments + 3) * 8 + row_blocks * 8 * 4;
}
constexpr int ring_barriers(int row_blocks) {
  return (kBarrierBytes - ring_barrier_offset(row_blocks)) / 8;
}
static_assert(ring_barriers(1) >= kLinearWarps * kMaxStages);

// How a block goes through its tiles.
enum class TileSchedule : uint8_t {
  kMultiPass,   // 8 warps; as many tiles at a time as they allow, activations in segments
  kSinglePass,  // at most 8 warps; all tiles, all activations
  kManyWarps,   // the same, more than 8 warps, of fewer registers
};

// What a block takes of a multiprocessor's shared memory, for others to find room beside it.
enum class LinearFootprint : uint8_t {
  kHalf,  // half where that can be kept to
  // Just over half, or a little more where up to 8 rows of activations then fit at once (int4). In
  // a chain of dependent launches every other layer should: each is placed while the one before
  // still runs, beside its blocks, and once one has two blocks on a multiprocessor and none on
  // another, the layers after it fall into the same places and take up to twice as long. Over half
  // cannot share with its like, nor two of half with it, so that a chain of both kinds evens itself
  // out.
  kOverHalf,
  // As kHalf, but over half where the layer has 9 to 16 rows, many warps, plain outputs on one GPU
  // and a block on every multiprocessor: with fewer registers too, so that beside each block there
  // is room for one of attention's clusters (attention/cuda/cluster.cu), which begins while the
  // layer is at work, and for none of its own kind.
  kBesideAttention,
};

// Whether a warp of its own brings activations of `row_blocks` times 8 rows that come in more
// segments than there are buffers. A warp that multiplies too would lose a microsecond by every
// segment's copies (8B int4 at 24 rows 3%); but of up to 8 rows copies are few, and a ninth warp
// leaves less room for blocks of the next layer (8B at 8 rows 2% slower).
constexpr bool feeds_apart(int row_blocks) { return row_blocks > 1; }

// What a launch for `rows` rows needs: rows are cut into tiles of 8 * row_blocks.
struct LinearLaunch {
  int row_blocks = 1;  // 1, 2 or 4 groups of 8 rows that share a weight's registers
  int row_tiles = 1;   // passes over the weight
  TileSchedule schedule = TileSchedule::kMultiPass;
  int tile_warps = 1;          // tiles at a time: a block has tile_warps * input_warps warps
  int segment_units = 1;       // units of a warp's activations that travel together
  int segments = 1;            // that the inputs of one tile are cut into
  int input_buffers = 1;       // segments in shared memory at once
  int feeding_warps = 0;       // feeds_apart(): beside those that multiply
  int stages = 2;              // units a warp keeps on their way
  int input_stride_bytes = 0;  // a row of activations in shared memory
  int input_rows = 8;          // of a segment in shared memory: 8 * row_blocks or, below 8, all
  // Bytes in shared memory.
  int slice_k_offset = 0, receive_offset = 0, ring_offset = 0;
  int receive_buffer_bytes = 0;  // one of the two
  int receive_places = 0;        // halves of fragments (16 outputs, 8 rows) that a block owns in it
  int shared_bytes = 0;
  bool few_registers = false;  // kBesideAttention has an effect
};
// `shared_limit`: what a block may ask for on the device. Fewer rows than 8 ask for what 8 do,
// except with kOverHalf. The number of row blocks comes from `rows` alone: ranks of a group whose
// parts of the inputs differ have the same tiles of rows, which sums in two shots rest on
// (linear/cuda/reduce.h). Fails if they do not fit.
Result<LinearLaunch> plan_launch(const LinearPlan& plan, int rows, int shared_limit,
                                 LinearFootprint footprint = LinearFootprint::kHalf);

}  // namespace forerun::cuda
