// Floor: two trips over the bus (the number of bytes or the token, then what they name). One thread
// a block asks: loads that may not be cached do not share a trip, and 4,096 of them took 160 us.
#include <cuda_bf16.h>

#include <algorithm>

#include "device/cuda/cuda_error.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/launch_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kFewestBlocks = 16;  // to copy with

__global__ void __launch_bounds__(kThreads) embedding_kernel(EmbeddingCallCuda call) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  launch_dependents();
#endif
  const int first = blockIdx.x * kThreads + threadIdx.x;
  const int threads = gridDim.x * kThreads;
  for (int i = first; i < call.clear_count; i += threads) call.to_clear[i] = 0;
  __shared__ int32_t asked[2];
  if (threadIdx.x < 2) {
    const int offset = threadIdx.x == 0 ? call.bytes_offset : call.tokens_offset + 4 * blockIdx.x;
    asked[threadIdx.x] = __ldcv(reinterpret_cast<const int32_t*>(call.source + offset));
  }
  __syncthreads();
  if (static_cast<int>(blockIdx.x) < call.rows) {
    const int32_t token = asked[1] - call.first_token;
    const bool ours = token >= 0 && token < call.table_tokens;
    const auto* const from = reinterpret_cast<const uint4*>(call.table + token * call.dim);
    auto* const to = reinterpret_cast<uint4*>(call.output + blockIdx.x * call.dim);
    for (int i = threadIdx.x; i < call.dim / 8; i += kThreads) {
      to[i] = ours ? from[i] : make_uint4(0, 0, 0, 0);
    }
  }
  const int vectors = asked[0] / 16;
  const auto* const source = reinterpret_cast<const uint4*>(call.source);
  for (int i = first; i < vectors; i += threads) {
    reinterpret_cast<uint4*>(call.target)[i] = __ldcv(source + i);
  }
}

}  // namespace

Status prepare_embedding_cuda() {
  return prefer_shared_memory(embedding_kernel, "loading the embedding");
}

Status embedding_cuda(const EmbeddingCallCuda& call, cudaStream_t stream) {
  embedding_kernel<<<static_cast<unsigned>(std::max(call.rows, kFewestBlocks)), kThreads, 0,
                     stream>>>(call);
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "launching the embedding");
  return {};
}

}  // namespace forerun::cuda
