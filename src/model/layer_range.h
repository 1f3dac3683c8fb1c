// Which of a decoder's layers a stage of a pipeline holds. A model that is not cut is one stage of
// all layers.
//
// Rows of the residual stream (HiddenRows, step/step.h) go from a stage to the next, in the type
// that the stream is rounded to after every addition, so that a cut changes no bit.
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
  int32_t begin = 0;    // layers begin to end - 1 of the model's
  int32_t end = 0;      //
  bool embeds = false;  // looks up its rows' tokens; otherwise rows come as hidden rows
  bool heads = false;   // ends with final norm, head and logits; otherwise with hidden rows

  static LayerRange all(const ModelConfig& config) { return {0, config.num_layers, true, true}; }
  int32_t size() const { return end - begin; }
  // Whether it needs this module of the model.
  bool holds(ModuleId module, const ModelConfig& config) const;
  bool operator==(const LayerRange&) const = default;
};

// "layers 0 to 3 of 8 with the embedding"
std::string describe(const LayerRange& range, const ModelConfig& config);

// kInvalidArgument unless the range has at least one layer of the model, embeds only in front of
// the first one and has the head only behind the last one.
Status check_layer_range(const LayerRange& range, const ModelConfig& config);

// Cuts a model into stages of `sizes` layers, in order: the first embeds, the last has the head.
// kInvalidArgument where a size is below 1 or they do not add up to the model's layers.
Result<std::vector<LayerRange>> cut_layers(std::span<const int32_t> sizes,
                                           const ModelConfig& config);

// Cuts a model into `stages` of consecutive layers so that the largest stage has as little weight
// as possible: the bytes that the checkpoint stores of a stage's layers, and of the embedding and
// the head where they are. Of equal cuts it takes the one with larger stages in front, because the
// prompt rows that want no logits leave the last stage early. kInvalidArgument for less than one
// stage or more than layers.
//
// `layer_bytes` [layers], `embedding_bytes`, `head_bytes`: weights that a row's pass reads. An
// embedding is only looked up: it may count 0 for time and its size for memory.
Result<std::vector<LayerRange>> balance_layers(int32_t stages, std::span<const int64_t> layer_bytes,
                                               int64_t embedding_bytes, int64_t head_bytes,
                                               const ModelConfig& config);

}  // namespace forerun
