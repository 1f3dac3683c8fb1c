// Loads a decoder onto a GPU. Free of CUDA's own headers, for those who only use it.
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
#include "model/layer_range.h"
#include "model/shard_plan.h"

namespace forerun::cuda {

struct DecoderCudaOptions {
  // By rank; several hold a part of the model each. One that is named twice holds two parts: slow,
  // a few rows at a time; for tests of more parts than there are GPUs.
  std::vector<int32_t> devices = {0};
  std::optional<LayerRange> layers;  // of a stage; unset: all
  int64_t kv_blocks = 0;             // capacity, in blocks of kKvBlockTokens
  // Tokens that can ever be sampled (the tokenizer's size); logits beyond are -infinity and not
  // computed. The config's live_vocab_size counts too; unset: all of vocab_size.
  std::optional<int32_t> live_vocab;
  // kAsStored; or a head stored as floats is rounded to nearest: kInt8Head (groups of 64 inputs)
  // or, for drafts, of whose bytes it is a large part and whose bits nobody compares, kInt4Head
  // (128); where hidden_size is a multiple of the group.
  WeightOverride weights = WeightOverride::kAsStored;
  // Told the fraction of the weights that is loaded, in [0, 1], on the calling thread.
  std::function<void(double)> progress;
};

// A decoder with 16-bit activations: AWQ int4 layers of group 128 as they are, every other format
// as bf16. Weights and cache are the GPU's; logits() is host memory. `checkpoint` is not needed
// afterwards. Use from one thread at a time. Fails with the figures where the memory does not
// suffice (kResourceExhausted), and on layers that the kernels do not take (kUnsupported).
Result<std::unique_ptr<Decoder>> load_decoder_cuda(const Checkpoint& checkpoint,
                                                   DecoderCudaOptions options);

// What each GPU's part of these layers takes of it, by rank, "device 0" and so on. Fails as the
// load does, on a shape that the kernels do not take.
Result<std::vector<MemoryNeed>> estimate_decoder_cuda_memory(const Checkpoint& checkpoint,
                                                             const ShardPlan& plan,
                                                             const LayerRange& layers,
                                                             WeightOverride weights);
// kResourceExhausted where a GPU has no room for its part and its cache, with what each needs.
Status check_decoder_cuda_memory(const Checkpoint& checkpoint, const ShardPlan& plan,
                                 const DecoderCudaOptions& options);

}  // namespace forerun::cuda
