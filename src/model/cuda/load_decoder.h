// Loading of a decoder onto GPUs. This header includes no CUDA header, for callers that only use
// the decoder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"
#include "model/decoder.h"
#include "model/decoder_weights.h"
#include "model/device_memory.h"
#include "model/head_ports.h"
#include "model/layer_range.h"
#include "model/shard_plan.h"
#include "model/tap_store.h"

namespace forerun::cuda {

struct DecoderCudaOptions {
  // The GPUs by rank; each holds a part of the model. A GPU that is named twice holds two parts,
  // which is slow and allows only a few rows per pass; it serves tests of more parts than there are
  // GPUs.
  std::vector<int32_t> devices = {0};
  std::optional<LayerRange> layers;  // layers of the stage; all if unset
  int64_t kv_blocks = 0;             // capacity, in blocks of kKvBlockTokens
  // Number of tokens that can be sampled (the tokenizer's size); logits of other tokens are
  // -infinity and not computed. The config's live_vocab_size is another limit. If unset, all of
  // vocab_size.
  std::optional<int32_t> live_vocab;
  // kAsStored, or the rounding of an LM head that is stored as floats: kInt8Head (groups of 64
  // inputs) or kInt4Head (128). Drafts use it, because the head is a large part of their bytes and
  // their logits need not be exact. hidden_size must be a multiple of the group. kInt4 also rounds
  // the layers that are stored otherwise, if their inputs are whole groups.
  WeightOverride weights = WeightOverride::kAsStored;
  TapOptions taps;  // taps that Steps may keep; none by default
  // Only for an EAGLE-3 head: its target, which lends it an embedding and an LM head if it has none
  // of its own, and the target's decoder with its taps. The first GPU of that decoder must be the
  // head's. The decoder must outlive the head's.
  const Checkpoint* target = nullptr;
  const Decoder* target_decoder = nullptr;
  // Receives the fraction of the weights that is loaded, in [0, 1], on the calling thread.
  std::function<void(double)> progress;
};

// Loads a decoder with 16-bit activations. Layers stay as they are stored if kernels can read them
// (plan_fused() of model/cuda/fused_linear.h), otherwise they become bf16. Weights and cache lie on
// the GPU, logits() in host memory. The decoder does not need `checkpoint` afterwards; only one
// thread at a time may use it. Returns kResourceExhausted, with the figures, if memory does not
// suffice, and kUnsupported for layers that the kernels cannot read.
Result<std::unique_ptr<Decoder>> load_decoder_cuda(const Checkpoint& checkpoint,
                                                   DecoderCudaOptions options);

// Returns the memory that each GPU's part of these layers takes, without a store of taps, by rank,
// named "device 0" and so on. Fails as loading does if the kernels do not support a shape.
Result<std::vector<MemoryNeed>> estimate_decoder_cuda_memory(const Checkpoint& checkpoint,
                                                             const ShardPlan& plan,
                                                             const LayerRange& layers,
                                                             WeightOverride weights,
                                                             const TargetOfHead& target = {});
// Returns kResourceExhausted if a GPU has no room for its part and its cache; the message says how
// much each needs.
Status check_decoder_cuda_memory(const Checkpoint& checkpoint, const ShardPlan& plan,
                                 const DecoderCudaOptions& options);

}  // namespace forerun::cuda
