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
  int64_t outputs = 0;  // 0: the part has nothing of the layer
  std::optional<LinearFormat> rounded_to =
      std::nullopt;  // the format to round to if it is not stored as int4
  bool before_attention = false;

  // Without inputs of its own a weight is all zeros.
  bool all_zero() const { return in.from.size() == 0; }
};

struct LayerLinears {
  FusedLinear qkv, o, gate_up, down;
};
// Neighbouring parts of a layer that are one weight.
struct FusedRun {
  FusedLinear linear;        // its `first_output`s count from the run's first output
  size_t first_part = 0;     // index among the layer's parts
  int64_t first_output = 0;  // index among the layer's outputs, a multiple of 32

  // The sources of its parts.
  std::span<const LinearSource> sources(std::span<const LinearSource> of_layer) const {
    return of_layer.subspan(first_part, linear.parts.size());
  }
};
// kInt4 rounds them where their inputs are whole groups.
LayerLinears layer_linears(const ModelConfig& config, const ShardLayoutCuda& layout, int32_t layer,
                           WeightOverride weights = WeightOverride::kAsStored);
// The LM head, made of its own rows or, with tied embeddings, of theirs. kInt4, kInt4Head and
// kInt8Head round it if hidden_size is a multiple of the group. `stored_as`: kEmbedding where it is
// made of an embedding.
FusedLinear head_linear(const ModelConfig& config, const ShardLayoutCuda& layout,
                        WeightOverride weights, ModuleKind stored_as = ModuleKind::kHead);
// What makes features of an EAGLE-3 head's taps; kInt4 rounds it as a layer.
FusedLinear tap_projection_linear(const ModelConfig& config, WeightOverride weights);

// Whether a decoder looks tokens up in an embedding of its own; a trained head may use its
// target's.
inline bool has_own_embedding(const ModelConfig& config) {
  return !config.eagle3 || config.eagle3->own_embedding;
}
// Whether a tied head is made of the embedding on the GPU, where that is bf16, and not of its file.
Result<bool> tied_head_is_copied(const Checkpoint& checkpoint);
// Where the LM head of a decoder is stored: its checkpoint and module there.
struct LmHeadSource {
  const Checkpoint* checkpoint = nullptr;
  ModuleKind module = ModuleKind::kHead;
};
// `target`: the model whose LM head an EAGLE-3 head without one of its own takes.
LmHeadSource find_lm_head(const Checkpoint& checkpoint, const Checkpoint* target);
// Whether an EAGLE-3 head without an LM head of its own may read its target's where that lies:
// where it is neither rounded nor reduced.
bool may_share_lm_head(const ModelConfig& config, const FusedLinear& lm_head,
                       const ShardLayoutCuda& layout);

// Finds the layer's modules in the checkpoint.
Result<std::vector<LinearSource>> find_sources(const Checkpoint& checkpoint,
                                               const FusedLinear& linear);
// The format in which kernels take the part of a module as it is stored; nothing where they do not.
std::optional<LinearFormat> format_as_stored(const FusedPart& part, const Slice& in,
                                             const LinearSource& source);
// The runs of equal formats, in order, where kernels take every part as it is stored and outputs
// are plain; otherwise one run, the whole layer. Only the last run is before attention.
std::vector<FusedRun> runs_of_one_format(const FusedLinear& linear,
                                         std::span<const LinearSource> sources);
// The format in which all modules of a run are taken as they are stored, if there is one; otherwise
// the format that the layer is rounded to, or bf16. What `rounded_to` names is rounded from any
// format but int4.
Result<LinearPlan> plan_fused(const FusedLinear& linear, std::span<const LinearSource> sources);

}  // namespace forerun::cuda
