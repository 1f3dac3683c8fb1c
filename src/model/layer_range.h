// The range of a decoder's layers that a pipeline stage holds. A model without stages is one stage
// of all layers.
//
// Rows of the residual stream (HiddenRows, step/step.h) go from one stage to the next, in the type
// to which the stream is rounded after every addition, so a cut changes no bit.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/model_config.h"
#include "checkpoint/modules.h"
#include "forerun/status.h"

namespace forerun {

struct LayerRange {
  int32_t begin = 0;    // layers [begin, end) of the model
  int32_t end = 0;      //
  bool embeds = false;  // looks up the rows' tokens; otherwise takes hidden rows
  bool heads = false;   // ends with final norm, head and logits; otherwise with hidden rows

  static LayerRange all(const ModelConfig& config) { return {0, config.num_layers, true, true}; }
  int32_t size() const { return end - begin; }
  // Returns whether the stage needs this module of the model.
  bool holds(ModuleId module, const ModelConfig& config) const;
  bool operator==(const LayerRange&) const = default;
};

// Returns a text such as "layers 0 to 3 of 8 with the embedding".
std::string describe(const LayerRange& range, const ModelConfig& config);

// Returns kInvalidArgument unless the range has at least one layer of the model, embeds only in
// front of the first layer and has the head only behind the last one.
Status check_layer_range(const LayerRange& range, const ModelConfig& config);

// Cuts a model into stages of `sizes` layers, in order: the first embeds, the last has the head.
// Returns kInvalidArgument if a size is below 1 or if the sizes do not add up to the model's
// layers.
Result<std::vector<LayerRange>> cut_layers(std::span<const int32_t> sizes,
                                           const ModelConfig& config);

// Cuts a model into `stages` of consecutive layers so that the largest stage has as few bytes of
// weights as possible: those of its layers, and of the embedding and the head if it has them. Among
// equal cuts it takes the one with larger stages in front, because prompt rows without logits leave
// the last stage early. Returns kInvalidArgument for fewer than one stage or more stages than
// layers.
//
// `layer_bytes` [layers], `embedding_bytes` and `head_bytes` are the weights that a row's pass
// reads. The embedding is only looked up: it may count 0 for time, or its size for memory.
Result<std::vector<LayerRange>> balance_layers(int32_t stages, std::span<const int64_t> layer_bytes,
                                               int64_t embedding_bytes, int64_t head_bytes,
                                               const ModelConfig& config);

}  // namespace forerun
