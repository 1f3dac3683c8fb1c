// Loads a decoder onto GPUs. Includes no CUDA header, for callers that only use the decoder.
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
  // By rank; each device holds a part of the model. A device that is named twice holds two parts,
  // which is slow and takes few rows at a time: for tests of more parts than there are GPUs.
  std::vector<int32_t> devices = {0};
  std::optional<LayerRange> layers;  // the stage's layers; unset: all
  int64_t kv_blocks = 0;             // capacity, in blocks of kKvBlockTokens
  // Tokens that can ever be sampled (the tokenizer's size); logits beyond are -infinity and not
  // computed. The config's live_vocab_size counts too; unset: all of vocab_size.
  std::optional<int32_t> live_vocab;
  // kAsStored, or the rounding of an LM head that is stored as floats: kInt8Head (groups of 64
  // inputs) or kInt4Head (128), for drafts, where it is a large part of the bytes and nobody
  // compares bits. Only where hidden_size is a multiple of the group. kInt4 also rounds the layers
  // that are stored otherwise, as far as their inputs are whole groups.
  WeightOverride weights = WeightOverride::kAsStored;
  TapOptions taps;  // what Steps may keep of their rows; none by default
  // Only for an EAGLE-3 head: the model that it guesses for, whose embedding and LM head it uses
  // where it has none of its own, and that model's decoder with its taps, on GPUs of which the
  // first is the head's. The decoder must outlive the head's.
  const Checkpoint* target = nullptr;
  const Decoder* target_decoder = nullptr;
  // Gets the fraction of the weights that is loaded, in [0, 1], on the calling thread.
  std::function<void(double)> progress;
};

// Loads a decoder with 16-bit activations: layers as they are stored where kernels take that
// (plan_fused() of model/cuda/fused_linear.h), others as bf16. Weights and cache lie on the GPU,
// logits() in host memory. `checkpoint` is not needed afterwards. Use the decoder from one thread
// at a time. Fails with the figures if memory does not suffice (kResourceExhausted), and on layers
// that the kernels do not take (kUnsupported).
Result<std::unique_ptr<Decoder>> load_decoder_cuda(const Checkpoint& checkpoint,
                                                   DecoderCudaOptions options);

// The memory that each GPU's part of these layers takes, without a store of taps, by rank, named
// "device 0" and so on. Fails as loading does on a shape that the kernels do not take.
Result<std::vector<MemoryNeed>> estimate_decoder_cuda_memory(const Checkpoint& checkpoint,
                                                             const ShardPlan& plan,
                                                             const LayerRange& layers,
                                                             WeightOverride weights,
                                                             const TargetOfHead& target = {});
// kResourceExhausted if a GPU has no room for its part and its cache; the message says what each
// needs.
Status check_decoder_cuda_memory(const Checkpoint& checkpoint, const ShardPlan& plan,
                                 const DecoderCudaOptions& options);

}  // namespace forerun::cuda
