// Device names as users write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// "cpu:0,cpu:2" or "cpu:0-3" or "cpu" (all) to processor numbers, ascending and distinct; an empty
// spec means all that this process may use. Fails on anything else, naming the part.
Result<std::vector<int32_t>> parse_cpu_devices(std::string_view spec);

// What one model runs on.
struct ModelPlacement {
  std::optional<int32_t> gpu;  // its passes; none: the cores' below
  std::vector<int32_t> cores;  // everything else
};

struct Placement {
  ModelPlacement target;
  std::optional<ModelPlacement> draft;  // none: the target's, in turn
};

// `draft_spec` empty: nothing is split. An empty `target_spec` beside a draft_spec means all
// processors but the draft's. "cuda:1" names a GPU: processors then only sample, and two models on
// GPUs of their own share them out. Fails where a device would serve both models, or none is left
// for the target.
Result<Placement> place_models(std::string_view target_spec, std::string_view draft_spec);

}  // namespace forerun
