// Device code that applies the edits of a row (row_edits.h). Each block of
// logits_summary/cuda/logits_summary.cu edits the logits in its shared memory. Only the kernel
// includes it.
#pragma once

#include <cstdint>

#include "kernels/logits_summary/cuda/share.h"

namespace forerun::cuda::logits_summary {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The edits of a row. All threads of a block must make the same calls.
class RowEditing {
 public:
  // `logits` is the block's shared memory, in the layout of Quads. `live` is the number of valid
  // columns.
  __device__ RowEditing(const Arguments& arguments, const RowEditsCuda& edits, float* logits,
                        int32_t live, int rank, MaskShare& mask)
      : edits_(edits),
        step_(arguments.call.step),
        first_token_(arguments.call.first_token),
        logits_(logits),
        live_(live),
        rank_(rank),
        num_quads_(arguments.num_quads),
        mask_(mask) {}

  // Starts the copies of the block's part of the mask, which complete with the thread's other
  // copies.
  __device__ void request_mask() const {
    if (edits_.mask == nullptr) return;
    const int last_token = first_token_ + live_;
    for (int i = static_cast<int>(threadIdx.x); i < num_quads_ * kMaskChunks; i += kThreads) {
      const int quad = i / kMaskChunks;
      const int chunk = first_bit(quad) / 128 + i % kMaskChunks;
      const bool there = 128 * chunk < last_token;
      copy_16_async(shared_address(&mask_.words[quad][4 * (i % kMaskChunks)]),
                    edits_.mask + (there ? 4 * chunk : 0), there);
    }
    copies_commit();
  }

  // Applies the edits, after each thread has waited for its copies.
  __device__ void apply() const {
    __syncthreads();
    const auto thread = static_cast<int>(threadIdx.x);
    const auto* const biases = list<TokenBias>(edits_.biases_offset);
    for (int i = thread; i < edits_.num_biases; i += kThreads) {
      float* const logit = place(biases[i].token);
      if (logit != nullptr) *logit = biased(*logit, biases[i].bias);
    }
    if (edits_.num_history > 0 || edits_.num_path > 0) penalize(thread);
    if (edits_.mask == nullptr) return __syncthreads();
    __syncthreads();
    for (int quad = 0; quad < num_quads_; ++quad) {
      const int bit = first_bit(quad) % 128 + 4 * thread;
      const uint32_t allowed = mask_.words[quad][bit / 32] >> (bit % 32);
      float* const values = logits_ + 4 * (quad * kThreads + thread);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if ((allowed >> i & 1) == 0) values[i] = -kInfinity;
      }
    }
    __syncthreads();
  }

 private:
  template <class T>
  __device__ const T* list(int32_t offset) const {
    return reinterpret_cast<const T*>(step_ + offset);
  }
  __device__ float* place(int32_t token) const {
    return place_of(logits_, int64_t{token} - first_token_, live_, rank_);
  }
  // Returns the block's first token with this quad index, which is also its bit in the mask.
  __device__ int first_bit(int quad) const {
    return first_token_ + 4 * rank_ * kThreads + quad * Quads::kStep;
  }

  // Penalizes tokens. Each thread saves the logit of one token of the path before the history is
  // penalized, since a token in both lists is penalized only once.
  __device__ void penalize(int thread) const {
    static_assert(RowEdits::kMaxPath <= kThreads);
    __syncthreads();
    const bool has_own = thread < edits_.num_path;
    const TokenCount own =
        has_own ? list<TokenCount>(edits_.path_offset)[thread] : TokenCount{-1, 0};
    float* const own_logit = has_own ? place(own.token) : nullptr;
    const float aside = own_logit == nullptr ? 0.0f : *own_logit;
    __syncthreads();
    const auto* const history = list<TokenCount>(edits_.history_offset);
    for (int i = thread; i < edits_.num_history; i += kThreads) {
      const TokenCount counted = history[i];
      float* const logit = place(counted.token);
      if (logit != nullptr) *logit = penalized(*logit, counted.output_count, edits_.penalties);
    }
    __syncthreads();
    if (own_logit != nullptr) *own_logit = penalized(aside, own.output_count, edits_.penalties);
  }

  const RowEditsCuda& edits_;
  const std::byte* step_;
  int32_t first_token_;
  float* logits_;
  int32_t live_;
  int rank_;
  int num_quads_;
  MaskShare& mask_;
};

#endif

}  // namespace forerun::cuda::logits_summary
