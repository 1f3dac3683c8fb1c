// Linear layers on a GPU for any number of rows: y[row][out] = sum over in of x[row][in] *
// w[out][in].
//
// Activations have 16 bits, sums are f32; weights are in one of the formats of
// linear/unit_formats.h, repacked at load. Batch-invariant: the split of the inner dimension and
// the order of summation depend only on the weight's shape, so a row's bits do not depend on the
// other rows.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/cuda/cuda_memory.h"
#include "device/cuda/peer_mailboxes.h"
#include "forerun/status.h"
#include "kernels/cuda/activation_format.h"
#include "kernels/linear/cuda/plan.h"
#include "kernels/linear/cuda/scratch.h"
#include "kernels/rms_norm/cuda/rms_norm.h"

namespace forerun::cuda {

// The position of a source tensor's outputs in a fused weight (Q, K and V; or gate and up).
enum class OutputPlacement : uint8_t {
  kPlain,  // output n of the source is output first_output + n; first_output a multiple of 32
  kGate,   // gate and up alternate in steps of 16 outputs inside a tile, so that one thread
  kUp,     // gets both of a feature; first_output must be 0
};

// Returns the format of activations for weights of this format.
constexpr ActivationFormat linear_input_format(LinearFormat format) {
  return format == LinearFormat::kBf16 ? ActivationFormat::kBf16 : ActivationFormat::kF16;
}

// Rows of a GGUF file's blocks in device memory. Bytes of 0 are weights of 0.
struct StoredBlocks {
  const std::byte* rows = nullptr;  // [outputs][row_bytes]
  int64_t row_bytes = 0;
  // The position of the weight's first input in a row's first block; a multiple of a unit's inputs.
  int64_t first_input = 0;
};
// e4m3 codes with scales in device memory, without NaN.
struct StoredFp8 {
  const uint8_t* codes = nullptr;  // [outputs][in]
  const float* scales = nullptr;   // [outputs][in / 64]
};

// A weight on the device that was current when it was allocated. Pack calls must fill every output
// before the first use; the weight is immutable afterwards. Movable.
class LinearWeightCuda {
 public:
  LinearWeightCuda() = default;
  // Allocates a weight. Outputs past the last packed one (up to a multiple of 32) are zero.
  static Result<LinearWeightCuda> allocate(const LinearPlan& plan);

  // Packs AutoAWQ's tensors, which lie in device memory: `qweight` [in][out / 8], `qzeros` [in /
  // 128][out / 8], `scales` [in / 128][out]. `outputs` of the source must be a multiple of 8 (16
  // for kGate and kUp). Asynchronous on `stream`.
  Status pack_awq(const uint32_t* qweight, const uint32_t* qzeros, const __half* scales,
                  int64_t outputs, OutputPlacement placement, int64_t first_output,
                  cudaStream_t stream);
  // Packs bf16 [out][in] in the same way.
  Status pack_bf16(const __nv_bfloat16* weight, int64_t outputs, OutputPlacement placement,
                   int64_t first_output, cudaStream_t stream);

  // The same for blocks of GGUF files, of the format that the weight was planned for. An int4
  // weight takes those of int4_zeros, four of which in a row have the same scale and zero point, up
  // to 15.
  Status pack_stored(const StoredBlocks& blocks, int64_t outputs, OutputPlacement placement,
                     int64_t first_output, cudaStream_t stream);
  // Packs e4m3 codes with their scales.
  Status pack_stored(const StoredFp8& fp8, int64_t outputs, OutputPlacement placement,
                     int64_t first_output, cudaStream_t stream);

  // Packs bf16 [outputs][in], rounded to nearest, into an int4 weight. For each output and group of
  // inputs, in f32: scale = f16((high - low) / 15), with bounds low <= 0 <= high of the group's
  // weights; zero = min(round(-low / scale), 15); a weight becomes round(w / scale) + zero, clamped
  // to [0, 15]. Ties round to even.
  Status round_bf16_to_int4(const __nv_bfloat16* weight, int64_t outputs, OutputPlacement placement,
                            int64_t first_output, cudaStream_t stream);
  // Packs bf16 in the same way into an int8 weight, which has a single source: scale = f16(max /
  // 127), with `max` the largest magnitude of the group; a weight becomes round(w / scale), clamped
  // to [-127, 127].
  Status round_bf16_to_int8(const __nv_bfloat16* weight, int64_t outputs, cudaStream_t stream);

  const LinearPlan& plan() const { return plan_; }
  const std::byte* data() const { return data_.data(); }
  std::byte* mutable_data() { return data_.data(); }

 private:
  Status check_pack(LinearFormat format, int64_t outputs, OutputPlacement placement,
                    int64_t first_output) const;
  LinearPlan plan_;
  DeviceBuffer data_;
};

// The arguments of one launch. All pointers are device memory, 16-byte aligned.
struct LinearCall {
  // [rows][input_stride], in linear_input_format(); input_stride is a multiple of 8, best
  // linear_input_stride().
  const uint16_t* input = nullptr;
  int64_t input_stride = 0;
  // [rows]: output row i is computed from row `row_index`[i] of the input, which is then
  // [..][input_stride] (rows may repeat). Null for rows in order. Not with `gated`.
  const int32_t* row_index = nullptr;
  // bf16 [rows][output_stride]; output_stride is a multiple of 4; fewer than 2^31 elements in all.
  uint16_t* output = nullptr;
  float* output_f32 = nullptr;  // replaces `output`: unrounded; no residual, not gated
  int64_t output_stride = 0;
  int rows = 0;
  // [out] or null; not with `gated`. The kernel may read it before the previous kernel's end, like
  // the weight.
  const __nv_bfloat16* bias = nullptr;
  // Has the shape of the output and may be the output itself; added before the only rounding.
  const __nv_bfloat16* residual = nullptr;
  NormInputCuda norm = {};  // norm of the input, dim = in; sums are scaled before bias and residual
  // Norm of the output. Not with `gated` or `output_f32`; the number of outputs must be a multiple
  // of 32. `next_norm.scaled` has output_stride. The kernel may read `next_norm.weight` before the
  // previous kernel's end, like the layer's weight.
  NormOutputCuda next_norm = {};
  // True if the weight holds gate and up; the output, [rows][out / 2] in gated_format, is
  // silu(gate) * up. Without bias and residual, not for int8.
  bool gated = false;
  ActivationFormat gated_format = ActivationFormat::kBf16;
  // For tensor parallelism (fused all-reduce): this rank's mailboxes, which are copied; null
  // without a group. Every rank of the group launches the layer with its shard of the inputs and
  // gets the sum over all ranks. Each rank's sums are rounded to bf16 and added in f32 in rank
  // order; then bias and residual are added and the result is rounded once, so all ranks have the
  // same bits. Bias and residual must be the same on all ranks, since any rank may add them. The
  // kernel waits for the other ranks' kernels; PeerGroup::check() tells whether a wait timed out.
  // Outputs times rows must fit the group's mailboxes. Not with output_f32, `norm` or `gated`, and
  // not for int8.
  const PeerMailboxes* reduce = nullptr;
  // 0 or 1, alternating from one exchange of the group to the next, also across graphs and replays,
  // so a graph must have an even number of exchanges.
  int mailbox = 0;
  // For a layer without `reduce` among layers with it: the layer runs the same kernel as they do
  // and so finds its instructions cached. Has no effect on gate and up of int4 at 17 to 32 rows
  // (linear/cuda/warpgroups.cu).
  bool shares_reduce_kernel = false;
  LinearFootprint footprint = LinearFootprint::kHalf;
  // Programmatic dependent launch: the kernel may start and load its weights before the stream's
  // previous kernel has finished; it touches everything else only afterwards. The previous kernel
  // must itself be a dependent launch, or have no dependent successor in flight. (The kernel for
  // many rows is always a dependent launch.)
  bool dependent = true;
  // Required for kFewestTileRows rows and more, which must have no `row_index`, and for more than 8
  // rows of a weight with minima (min_groups()).
  LinearScratchCuda scratch = {};
};

// Submits one launch; returns without waiting. Fails before launching if the arguments do not fit.
Status linear_cuda(const LinearWeightCuda& weight, const LinearCall& call, cudaStream_t stream);

// Loads the kernels and raises their shared-memory limits on the current device. Call it once per
// device, before the first launch and before any graph is captured.
Status prepare_linear_cuda();

// Reference implementations: one thread per output, plain loops in double over the source tensors
// of LinearWeightCuda's pack calls (so that packing is tested too). `output` is f32
// [rows][outputs]; `input` is [rows][in], without gaps, in linear_input_format(). For tests.
Status linear_awq_ref_cuda(const uint32_t* qweight, const uint32_t* qzeros, const __half* scales,
                           int64_t in_features, int64_t outputs, const uint16_t* input, int rows,
                           float* output, cudaStream_t stream);
Status linear_bf16_ref_cuda(const __nv_bfloat16* weight, int64_t in_features, int64_t outputs,
                            const uint16_t* input, int rows, float* output, cudaStream_t stream);
// Multiplies f32 [outputs][in] by f16 inputs.
Status linear_f32_ref_cuda(const float* weight, int64_t in_features, int64_t outputs,
                           const uint16_t* input, int rows, float* output, cudaStream_t stream);
// Multiplies the int8 weight that round_bf16_to_int8() makes of `weight`.
Status linear_int8_ref_cuda(const __nv_bfloat16* weight, int64_t in_features, int64_t outputs,
                            const uint16_t* input, int rows, float* output, cudaStream_t stream);

}  // namespace forerun::cuda
