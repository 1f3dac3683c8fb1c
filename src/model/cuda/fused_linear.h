// The modules of a checkpoint that make up each linear layer of a GPU's part, and the layer's
// format. Host arithmetic only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"
#include "kernels/linear/cuda/linear.h"
#include "kernels/linear/cuda/plan.h"
#include "model/cuda/linear_source.h"
#include "model/cuda/shard_layout.h"
#include "model/decoder_weights.h"

namespace forerun::cuda {

// A module whose outputs begin at output `first_output` of a weight.
struct FusedPart {
  ModuleId module;
  Slice out;
  OutputPlacement placement = OutputPlacement::kPlain;
  int64_t first_output = 0;
};

struct FusedLinear {
  std::vector<FusedPart> parts;
  Slice in;
  int64_t outputs = 0;  // 0 if the part has no share of the layer
  std::optional<LinearFormat> rounded_to =
      std::nullopt;  // format to round to if the module is not stored as int4
  bool before_attention = false;

  // Returns whether the weight is all zeros, because it has no inputs.
  bool all_zero() const { return in.from.size() == 0; }
};

struct LayerLinears {
  FusedLinear qkv, o, gate_up, down;
};
// Adjacent parts of a layer that make one weight.
struct FusedRun {
  FusedLinear linear;        // its `first_output`s count from the run's first output
  size_t first_part = 0;     // index among the layer's parts
  int64_t first_output = 0;  // index among the layer's outputs, a multiple of 32

  // Returns the sources of its parts.
  std::span<const LinearSource> sources(std::span<const LinearSource> of_layer) const {
    return of_layer.subspan(first_part, linear.parts.size());
  }
};
// Returns the linear layers of a decoder layer. kInt4 rounds them if their inputs are whole groups.
LayerLinears layer_linears(const ModelConfig& config, const ShardLayoutCuda& layout, int32_t layer,
                           WeightOverride weights = WeightOverride::kAsStored);
// Returns the LM head, made of its own rows or, with tied embeddings, of the embedding's. kInt4,
// kInt4Head and kInt8Head round it if hidden_size is a multiple of the group. `stored_as` is
// kEmbedding if the head is made of an embedding.
FusedLinear head_linear(const ModelConfig& config, const ShardLayoutCuda& layout,
                        WeightOverride weights, ModuleKind stored_as = ModuleKind::kHead);
// Returns the projection from taps to features of an EAGLE-3 head; kInt4 rounds it like a layer.
FusedLinear tap_projection_linear(const ModelConfig& config, WeightOverride weights);

// Returns whether a decoder has its own embedding; a trained head may use its target's.
inline bool has_own_embedding(const ModelConfig& config) {
  return !config.eagle3 || config.eagle3->own_embedding;
}
// Returns whether a tied head is copied from the bf16 embedding on the GPU, rather than packed from
// the file.
Result<bool> tied_head_is_copied(const Checkpoint& checkpoint);
// The place where a decoder's LM head is stored: a checkpoint and a module.
struct LmHeadSource {
  const Checkpoint* checkpoint = nullptr;
  ModuleKind module = ModuleKind::kHead;
};
// `target` is the model that lends its LM head to an EAGLE-3 head without one.
LmHeadSource find_lm_head(const Checkpoint& checkpoint, const Checkpoint* target);
// Returns whether an EAGLE-3 head without an LM head may read its target's in place: it may if the
// LM head is neither rounded nor reduced.
bool may_share_lm_head(const ModelConfig& config, const FusedLinear& lm_head,
                       const ShardLayoutCuda& layout);

// Finds the layer's modules in the checkpoint.
Result<std::vector<LinearSource>> find_sources(const Checkpoint& checkpoint,
                                               const FusedLinear& linear);
// Whether the int4 kernels unpack AutoAWQ's words of the part themselves.
bool takes_words(const FusedPart& part, const Slice& in, const LinearSource& source);
// The format in which kernels take the part of a module as it is stored; nothing where they do not.
std::optional<LinearFormat> format_as_stored(const FusedPart& part, const Slice& in,
                                             const LinearSource& source);
// Returns the runs of equal formats, in order, if kernels read every part as it is stored and
// outputs are plain; otherwise one run, the whole layer. Only the last run comes right before
// attention.
std::vector<FusedRun> runs_of_one_format(const FusedLinear& linear,
                                         std::span<const LinearSource> sources);
// Returns the format in which kernels read all modules of a run as they are stored, if there is
// one; otherwise the format to which the layer is rounded, or bf16. Modules with `rounded_to` are
// rounded from any format but int4.
Result<LinearPlan> plan_fused(const FusedLinear& linear, std::span<const LinearSource> sources);

}  // namespace forerun::cuda
