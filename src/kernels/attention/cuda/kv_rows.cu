// Rotates queries and keys, and appends to the cache.
//
// Latency, not bandwidth, limits the kernel: it takes microseconds. Each warp takes one head of one
// row.
#include <cuda_bf16.h>

#include <string>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/cuda/attention.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

struct RopeAppendArgs {
  const AttentionStepCuda* step;
  const __nv_bfloat16* qkv;
  __nv_bfloat16* q;
  std::byte* kv;
  const float* q_norm;
  const float* k_norm;
  int64_t qkv_stride, block_stride, tile_bytes;
  int k_offset, v_offset, num_heads, kv_heads, head_dim, padded_dim, rows;
  float eps;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ float2 load_pair(const __nv_bfloat16* from) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(from));
}
__device__ __forceinline__ void store_pair(__nv_bfloat16* to, float low, float high) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(low, high);
}

// Returns 1 / root mean square of a head.
__device__ float head_scale(const __nv_bfloat16* x, int head_dim, float eps, int lane) {
  float sum = 0.0f;
  for (int i = 2 * lane; i < head_dim; i += 64) {
    const float2 v = load_pair(x + i);
    sum = __fmaf_rn(v.x, v.x, sum);
    sum = __fmaf_rn(v.y, v.y, sum);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, lanes));
  }
  return rsqrtf(sum / static_cast<float>(head_dim) + eps);
}

__global__ void rope_append_kernel(const __grid_constant__ RopeAppendArgs args) {
  wait_for_previous_kernel();
  launch_dependents();
  const int lane = threadIdx.x % 32;
  const int heads = args.num_heads + 2 * args.kv_heads;
  const int row_head = blockIdx.x * kWarps + threadIdx.x / 32;
  const int row = row_head / heads;
  if (row >= args.step->num_rows) return;
  const int head = row_head % heads;
  const int kv_head = (head - args.num_heads) % args.kv_heads;
  const bool is_q = head < args.num_heads;
  const bool is_v = head >= args.num_heads + args.kv_heads;
  const __nv_bfloat16* const x =
      args.qkv + row * args.qkv_stride +
      (is_q ? head * args.head_dim
            : (is_v ? args.v_offset : args.k_offset) + kv_head * args.head_dim);

  // Finds the address of dimension i, which is even.
  const auto* const step_bytes = reinterpret_cast<const std::byte*>(args.step);
  const int slot = reinterpret_cast<const int32_t*>(step_bytes + args.step->kv_slots_offset)[row];
  if (!is_q && slot < 0) return;
  __nv_bfloat16* const q_head =
      args.q + (static_cast<int64_t>(row) * args.num_heads + head) * args.padded_dim;
  std::byte* const kv_row = args.kv + slot / kTilePositions * args.block_stride +
                            ((is_v ? args.kv_heads : 0) + kv_head) * args.tile_bytes +
                            slot % kTilePositions * kPanelRowBytes;
  const auto place = [&](int i) {
    if (is_q) return q_head + i;
    return reinterpret_cast<__nv_bfloat16*>(kv_row + kv_piece(i / 8, slot)) + i % 8;
  };
  for (int i = args.head_dim + 2 * lane; i < args.padded_dim; i += 64) {
    store_pair(place(i), 0.0f, 0.0f);
  }
  if (is_v) {
    for (int i = 2 * lane; i < args.head_dim; i += 64) {
      const float2 v = load_pair(x + i);
      store_pair(place(i), v.x, v.y);
    }
    return;
  }
  const float* const norm = is_q ? args.q_norm : args.k_norm;
  const float scale = norm == nullptr ? 1.0f : head_scale(x, args.head_dim, args.eps, lane);
  const int half = args.head_dim / 2;
  const float* const cosines =
      reinterpret_cast<const float*>(step_bytes + args.step->angles_offset) + row * args.head_dim;
  const float* const sines = cosines + half;
  for (int i = 2 * lane; i < half; i += 64) {
    float2 low = load_pair(x + i);
    float2 high = load_pair(x + half + i);
    if (norm != nullptr) {
      low = make_float2(low.x * scale * norm[i], low.y * scale * norm[i + 1]);
      high = make_float2(high.x * scale * norm[half + i], high.y * scale * norm[half + i + 1]);
    }
    const float2 c = make_float2(cosines[i], cosines[i + 1]);
    const float2 s = make_float2(sines[i], sines[i + 1]);
    store_pair(place(i), low.x * c.x - high.x * s.x, low.y * c.y - high.y * s.y);
    store_pair(place(half + i), high.x * c.x + low.x * s.x, high.y * c.y + low.y * s.y);
  }
}

#else

__global__ void rope_append_kernel(const __grid_constant__ RopeAppendArgs) {}

#endif

int64_t blocks_for(int64_t units, int64_t a_block) { return (units + a_block - 1) / a_block; }

}  // namespace

Status prepare_rope_append_cuda() {
  return prefer_shared_memory(rope_append_kernel, "loading the rotation");
}

Status rope_append_cuda(const RopeAppendCall& call, cudaStream_t stream) {
  if (call.kv.head_dim % 4 != 0 || call.kv.head_dim > 256) {
    return {StatusCode::kUnsupported, "rotation on a GPU: found heads of " +
                                          std::to_string(call.kv.head_dim) +
                                          " dimensions; accepted: multiples of 4 up to 256"};
  }
  if (call.k_offset % 2 != 0 || call.v_offset % 2 != 0) {
    return {StatusCode::kUnsupported,
            "rotation on a GPU: found keys at offset " + std::to_string(call.k_offset) +
                ", values at " + std::to_string(call.v_offset) + "; accepted: even offsets"};
  }
  RopeAppendArgs args;
  args.step = call.step;
  args.qkv = call.qkv;
  args.q = call.q;
  args.kv = call.kv.data;
  args.q_norm = call.q_norm;
  args.k_norm = call.k_norm;
  args.qkv_stride = call.qkv_stride;
  args.block_stride = call.kv.block_stride_bytes;
  args.tile_bytes = call.kv.tile_bytes();
  args.k_offset = call.k_offset;
  args.v_offset = call.v_offset;
  args.num_heads = call.num_heads;
  args.kv_heads = call.kv.num_kv_heads;
  args.head_dim = call.kv.head_dim;
  args.padded_dim = padded_head_dim_cuda(call.kv.head_dim);
  args.rows = call.rows;
  args.eps = call.eps;
  const int64_t units = int64_t{call.rows} * (call.num_heads + 2 * call.kv.num_kv_heads);
  return launch_dependent(rope_append_kernel,
                          dim3(static_cast<unsigned>(blocks_for(units, kWarps))), dim3(kThreads), 0,
                          stream, "launching the rotation", args);
}

}  // namespace forerun::cuda
