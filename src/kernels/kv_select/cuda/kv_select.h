// kv_select.h on a GPU: the tokens of a sequence that the rows of an observation window pay most
// attention to, for each KV head by itself, and their keys and values gathered in blocks of their
// own (SnapKV). What is chosen depends on nothing but the queries and the cache.
//
// Five launches: the largest score of every query and the sum of its weights, by tiles of 64 keys;
// the same of all tiles; every key's importance; the choice; the copies. Scores are computed twice,
// since all of a layer's would be as large as its cache.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "forerun/status.h"
#include "kernels/attention/cuda/attention.h"

namespace forerun::cuda {

// Device memory but for the numbers, 16-byte aligned.
struct KvSelectCallCuda {
  const __nv_bfloat16* q = nullptr;  // [observers][num_heads][padded head_dim], rotated
  int32_t num_heads = 0;
  int32_t observers = 0;      // rows of q
  int32_t first_weighed = 0;  // slots 0 to first_weighed - 1 the first of them weighs
  int32_t weighed_step = 0;   // 0 or 1: each further one so many more
  int32_t most_weighed() const { return first_weighed + weighed_step * (observers - 1); }
  const int32_t* block_table = nullptr;  // of the sequence that is chosen from
  int32_t tokens = 0;   // the choice is among slots 0 to tokens - 1; at most first_weighed
  int32_t chosen = 0;   // so many: a multiple of 64, at most `tokens`
  int32_t pooling = 1;  // odd: neighbours that importance is summed over
  const int32_t* blocks = nullptr;  // [chosen / 64]: where they go; none is in the table
  PagedKvCuda kv;
  std::byte* scratch = nullptr;  // kv_select_scratch_bytes(); its contents are of no use afterwards
};

// Of calls of at most so many observers, tokens that one of them weighs, and query heads. Grows
// with the tokens.
size_t kv_select_scratch_bytes(int32_t observers, int32_t weighed, int32_t num_heads,
                               int32_t num_kv_heads);

// Submits the launches and returns without waiting. kInvalidArgument where the numbers do not fit.
Status kv_select_cuda(const KvSelectCallCuda& call, cudaStream_t stream);

// Loads the kernels on the current device: once a device.
Status prepare_kv_select_cuda();

}  // namespace forerun::cuda
