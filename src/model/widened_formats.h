// Which stored formats a backend has no kernel for, and what it reads in their place.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/layer_range.h"

namespace forerun {

struct WidenedFormat {
  std::string stored;   // "Q3_K"
  std::string read_as;  // "f32", which holds the same values, or "bf16", which rounds them
  int64_t stored_bytes = 0;
  int64_t read_bytes = 0;
};

// Looks at the linear layers and the head of a stage. Empty where kernels read everything as it is
// stored.
std::vector<WidenedFormat> widened_formats(const Checkpoint& checkpoint, const LayerRange& stage,
                                           bool on_gpus);

// "Q3_K (1200 MB) is widened to f32 (9800 MB)"; one part for each format, joined by "; ".
std::string describe(const std::vector<WidenedFormat>& formats);

}  // namespace forerun
