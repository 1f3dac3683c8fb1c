// Checks that an EAGLE-3 head fits its target. Every backend makes them when it opens a decoder of
// the head.
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
  std::span<const int32_t> taps;  // TapOptions::after_layers of its store
  int64_t tap_width = 0;          // elements of one tap
};

// The properties of the target for a memory plan on GPUs. An EAGLE-3 head on one of its last
// stage's GPUs may read the target's embedding in place, and its LM head if that GPU has the whole
// of it.
struct TargetOfHead {
  const Checkpoint* checkpoint = nullptr;  // null if the model is no EAGLE-3 head
  int32_t gpus = 1;
  bool embeds = true;  // whether the embedding is there; false for the last of several stages
};

// Returns kInvalidArgument "EAGLE-3 head: found ...; accepted: ...".
Status refuse_head(const std::string& found, const std::string& accepted);

// Refuses layers other than all, taps of the target other than those that fit_eagle3() names, and
// taps of the head itself that are not behind all of its layers. Fails as fit_eagle3() does.
Status check_head_ports(const ModelConfig& head, const LayerRange& layers, const TapOptions& own,
                        const HeadTarget& target);

}  // namespace forerun
