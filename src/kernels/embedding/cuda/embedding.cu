// The lower bound of its time is one trip over the bus for the token and most of the Step's data,
// and one trip to memory for the token's row, whatever its format. The loads are plain, although
// the host writes the data: it has done so before the launch, and uncached loads would take a trip
// each.
#include <cuda_bf16.h>

#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"
#include "kernels/embedding/cuda/embedding.h"
#include "kernels/linear/cuda/stored_blocks.h"

namespace forerun::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kFewestBlocks = 16;  // blocks that copy the Step's data
// The number of 16-byte words of the Step's data that are loaded before their number is known.
constexpr int kAheadVectors = 512;
static_assert(kAheadVectors <= kFewestBlocks * kThreads);

// Writes the inputs of the next norm. `x` has values 8 * vector to 8 * vector + 7 of a row, four
// pairs of bf16. Writes their products with the norm's weight and, from every other lane, the sum
// of the squares of 16 values, added in the same order as a linear layer adds them
// (write_squares()), since in a later stage of a pipeline this kernel replaces the linear layer
// before it. For whole warps; lanes that are not `valid` are past the row's end.
__device__ __forceinline__ void write_norm(const EmbeddingCallCuda& call, int64_t row, int vector,
                                           bool valid, uint4 x) {
  const NormOutputCuda& norm = call.next_norm;
  static_assert(kNormGroup == 16);
  const uint32_t pairs[4] = {x.x, x.y, x.z, x.w};
  const auto* const weights = reinterpret_cast<const float2*>(norm.weight) + vector * 4;
  uint32_t scaled[4];
  float fours[2] = {};  // sums of four squares each
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float low = __uint_as_float(pairs[i] << 16);
    const float high = __uint_as_float(pairs[i] & 0xffff0000u);
    const float2 weight = valid ? weights[i] : make_float2(0, 0);
    scaled[i] = pack_activations(norm.format, low * weight.x, high * weight.y);
    fours[i / 2] = __fmaf_rn(high, high, __fmaf_rn(low, low, fours[i / 2]));
  }
  float sum = fours[0] + fours[1];
  sum += __shfl_xor_sync(~0u, sum, 1);
  if (!valid) return;
  reinterpret_cast<uint4*>(norm.scaled + row * call.output_stride)[vector] =
      make_uint4(scaled[0], scaled[1], scaled[2], scaled[3]);
  if (vector % 2 == 0) norm.squares[row * (call.dim / kNormGroup) + vector / 2] = sum;
}

// Returns values 8 * vector to 8 * vector + 7 of a row, four pairs of bf16.
template <LinearFormat kFormat>
__device__ __forceinline__ uint4 eight_values(const std::byte* row, int vector) {
  if constexpr (kFormat == LinearFormat::kBf16) {
    return reinterpret_cast<const uint4*>(row)[vector];
  } else {
    using Block = StoredBlock<kFormat>;
    const auto* const block =
        reinterpret_cast<const uint8_t*>(row) + vector * 8 / Block::kInputs * Block::kBytes;
    const int first = vector * 8 % Block::kInputs;
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] =
          pack_activations(ActivationFormat::kBf16, stored_weight<kFormat>(block, first + 2 * i),
                           stored_weight<kFormat>(block, first + 2 * i + 1));
    }
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
}

template <LinearFormat kFormat>
__global__ void __launch_bounds__(kThreads) embedding_kernel(EmbeddingCallCuda call) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  launch_dependents();
#endif
  const int first = blockIdx.x * kThreads + threadIdx.x;
  const int threads = gridDim.x * kThreads;
  const auto* const source = reinterpret_cast<const uint4*>(call.source);
  uint4 ahead = {};
  if (first < kAheadVectors) ahead = source[first];
  for (int i = first; i < call.clear_count; i += threads) call.to_clear[i] = 0;
  __shared__ int32_t asked[2];
  if (threadIdx.x < 2) {
    const int offset = threadIdx.x == 0 ? call.bytes_offset : call.tokens_offset + 4 * blockIdx.x;
    asked[threadIdx.x] = *reinterpret_cast<const int32_t*>(call.source + offset);
  }
  __syncthreads();
  if (static_cast<int>(blockIdx.x) < call.rows) {
    const int32_t token = asked[1];
    const bool is_in_table = token >= 0 && token < call.table.tokens;
    const std::byte* const from = call.table.rows + token * call.table.row_bytes;
    auto* const to = reinterpret_cast<uint4*>(call.output + blockIdx.x * call.output_stride);
    const int vectors = static_cast<int>(call.dim / 8);
    for (int i = threadIdx.x; i / 32 * 32 < vectors; i += kThreads) {
      const bool valid = i < vectors;
      const uint4 x =
          is_in_table && valid ? eight_values<kFormat>(from, i) : make_uint4(0, 0, 0, 0);
      if (valid) to[i] = x;
      write_norm(call, blockIdx.x, i, valid, x);
    }
  }
  const int vectors = asked[0] / 16;
  for (int i = first; i < vectors; i += threads) {
    reinterpret_cast<uint4*>(call.target)[i] = i < kAheadVectors ? ahead : source[i];
  }
}

using EmbeddingKernel = void (*)(EmbeddingCallCuda);

EmbeddingKernel kernel_for(LinearFormat format) {
  EmbeddingKernel found = nullptr;
  if (format == LinearFormat::kBf16) found = embedding_kernel<LinearFormat::kBf16>;
  each_block_format([&]<LinearFormat kFormat>() {
    if (format == kFormat) found = embedding_kernel<kFormat>;
  });
  return found;
}

}  // namespace

Status prepare_embedding_cuda() {
  for (const UnitFormat& each : kUnitFormats) {
    const EmbeddingKernel kernel = kernel_for(each.format);
    if (kernel == nullptr) continue;
    FORERUN_RETURN_IF_ERROR(prefer_shared_memory(kernel, "loading the embedding"));
  }
  return {};
}

Status embedding_cuda(const EmbeddingCallCuda& call, cudaStream_t stream) {
  if (call.rows < 1 || call.dim < 32 || call.dim % 32 != 0 || call.output_stride < call.dim ||
      call.output_stride % 8 != 0) {
    return {StatusCode::kInvalidArgument,
            "embedding on a GPU: " + std::to_string(call.rows) + " rows of " +
                std::to_string(call.dim) + " in " + std::to_string(call.output_stride) +
                "; accepted: at least 1 row, a dim that is a multiple of 32, and a stride that "
                "is a multiple of 8 and holds a row"};
  }
  if (call.next_norm.weight == nullptr || call.next_norm.scaled == nullptr ||
      call.next_norm.squares == nullptr) {
    return {StatusCode::kInvalidArgument,
            "embedding on a GPU: next_norm needs weight, scaled and squares"};
  }
  const EmbeddingKernel kernel = kernel_for(call.table.format);
  if (kernel == nullptr) {
    return {StatusCode::kInvalidArgument, std::string("embedding on a GPU: found a table in ") +
                                              unit_format(call.table.format).name +
                                              "; accepted: bf16 and blocks of GGUF files"};
  }
  return launch(kernel, dim3(static_cast<unsigned>(std::max(call.rows, kFewestBlocks))),
                dim3(kThreads), stream, "launching the embedding", call);
}

}  // namespace forerun::cuda
