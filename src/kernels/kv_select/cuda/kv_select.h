// The selection of kv_select.h on a GPU: selects the tokens of a sequence to which the rows of an
// observation window attend most, separately for each KV head, and copies their keys and values
// into other KV blocks (SnapKV). The selection depends only on the queries and the cache.
//
// It takes five launches: (1) per query and tile of 64 keys, the largest score and the sum of
// exponentials; (2) their merge over all tiles; (3) every key's importance; (4) the selection; (5)
// the copies. Scores are computed twice, since storing those of a layer would take as much memory
// as its KV cache.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "forerun/status.h"
#include "kernels/attention/cuda/attention.h"

namespace forerun::cuda {

// All pointers are device memory, 16-byte aligned.
struct KvSelectCallCuda {
  const __nv_bfloat16* q = nullptr;  // [observers][num_heads][padded head_dim], rotated
  int32_t num_heads = 0;
  int32_t observers = 0;      // rows of q
  int32_t first_weighed = 0;  // the first observer attends to slots 0 to first_weighed - 1
  int32_t weighed_step = 0;   // 0 or 1: additional slots of each following observer
  int32_t max_weighed() const { return first_weighed + weighed_step * (observers - 1); }
  const int32_t* block_table = nullptr;  // block table of the sequence
  int32_t tokens = 0;               // candidates are slots 0 to tokens - 1; at most first_weighed
  int32_t chosen = 0;               // number to select: a multiple of 64, at most `tokens`
  int32_t pooling = 1;              // odd: number of neighbours over which importance is summed
  const int32_t* blocks = nullptr;  // [chosen / 64], the destination; none is in the block table
  PagedKvCuda kv;
  std::byte* scratch = nullptr;  // kv_select_scratch_bytes(); overwritten
};

// Returns the bytes of scratch memory for calls with at most `observers` rows, each of which
// attends to at most `weighed` tokens, and at most `num_heads` query heads. Grows with `weighed`.
size_t kv_select_scratch_bytes(int32_t observers, int32_t weighed, int32_t num_heads,
                               int32_t num_kv_heads);

// Submits the launches and returns without waiting. Returns kInvalidArgument if an argument is out
// of range.
Status kv_select_cuda(const KvSelectCallCuda& call, cudaStream_t stream);

// Loads the kernels on the current device. Call it once per device.
Status prepare_kv_select_cuda();

}  // namespace forerun::cuda
