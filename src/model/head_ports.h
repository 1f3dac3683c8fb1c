// Whether an EAGLE-3 head fits its target: the checks that every backend makes when a decoder of
// the head is opened.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/model_config.h"
#include "forerun/status.h"
#include "model/layer_range.h"
#include "model/tap_store.h"

namespace forerun {

// The target, as its decoder was loaded.
struct HeadTarget {
  const ModelConfig& config;
  std::span<const int32_t> taps;  // its store's TapOptions::after_layers
  int64_t tap_width = 0;          // elements of one tap
};

// What a plan of memory on GPUs must know of the target: an EAGLE-3 head on one of its GPUs, those
// of its last stage, may read its LM head where it lies, if it is whole there, and its embedding.
struct TargetOfHead {
  const Checkpoint* checkpoint = nullptr;  // null: the model is no head
  int32_t gpus = 1;
  bool embeds = true;  // whether the embedding is there: not in the last of several stages
};

// kInvalidArgument "EAGLE-3 head: found ...; accepted: ...".
Status refuse_head(const std::string& found, const std::string& accepted);

// Refuses layers other than all, taps of the target other than those that fit_eagle3() names, and
// taps of the head's own that are not behind all of its layers. Fails as fit_eagle3().
Status check_head_ports(const ModelConfig& head, const LayerRange& layers, const TapOptions& own,
                        const HeadTarget& target);

}  // namespace forerun
