// Moves cache rows: the accepted nodes of a verified tree go to the slots of their positions.
#include <algorithm>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/cuda/attention.h"
#include "kernels/attention/cuda/kv_layout.h"

namespace forerun::cuda {
namespace {

constexpr int kThreads = 128;

struct MoveArgs {
  std::byte* kv;
  int64_t block_stride, layer_stride, tile_bytes;
  int layers, tiles, padded_dim, count;  // `tiles` are K and V tiles in a layer's part of a block
  KvMoveCuda moves[kMaxKvMoves];
};

// Copies one 16-byte piece of the rows of one head per thread: all moves pass through the thread in
// order, a batch read before any of it is written (targets lie at or below their sources).
__global__ void move_kv_kernel(const __grid_constant__ MoveArgs args) {
  constexpr int kBatch = 8;
  const int pieces = args.padded_dim / 8;
  const int index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= args.layers * args.tiles * pieces) return;
  const int piece = index % pieces;
  std::byte* const base = args.kv + index / pieces / args.tiles * args.layer_stride +
                          index / pieces % args.tiles * args.tile_bytes;
  const auto place = [&](int slot) {
    return reinterpret_cast<uint4*>(base + slot / kTilePositions * args.block_stride +
                                    slot % kTilePositions * kPanelRowBytes + kv_piece(piece, slot));
  };
  for (int first = 0; first < args.count; first += kBatch) {
    uint4 v[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i < args.count) v[i] = *place(args.moves[first + i].from);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i < args.count) *place(args.moves[first + i].to) = v[i];
    }
  }
}

}  // namespace

Status move_kv_cuda(const PagedKvCuda& first_layer, int32_t num_layers, int64_t layer_stride_bytes,
                    std::span<const KvMoveCuda> moves, cudaStream_t stream) {
  MoveArgs args;
  args.kv = first_layer.data;
  args.block_stride = first_layer.block_stride_bytes;
  args.layer_stride = layer_stride_bytes;
  args.tile_bytes = first_layer.tile_bytes();
  args.layers = num_layers;
  args.tiles = 2 * first_layer.num_kv_heads;
  args.padded_dim = padded_head_dim_cuda(first_layer.head_dim);
  const int64_t threads = int64_t{num_layers} * args.tiles * (args.padded_dim / 8);
  const int64_t blocks = (threads + kThreads - 1) / kThreads;
  // Splits lists that are too long for one launch, since launches run in order.
  for (size_t first = 0; first < moves.size(); first += kMaxKvMoves) {
    const auto part = moves.subspan(first, std::min<size_t>(kMaxKvMoves, moves.size() - first));
    args.count = static_cast<int>(part.size());
    std::copy(part.begin(), part.end(), args.moves);
    move_kv_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(args);
    FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "moving cache rows");
  }
  return {};
}

}  // namespace forerun::cuda
