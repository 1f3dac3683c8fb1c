// A summary of a checkpoint for people: `forerun inspect` and start-up lines.
//
// All functions are pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace forerun {

struct PrecisionShare {
  std::string precision;   // format_name(): "bf16", "gptq-int4", "fp8", "Q4_K"
  int64_t parameters = 0;  // a quantized layer counts in_features x out_features
  int64_t bytes = 0;       // in the file, with zero points and scales
};

struct CheckpointSummary {
  int64_t parameters = 0;    // parameters of the decoder; a tied head counts once
  int64_t weight_bytes = 0;  // bytes of the decoder's tensors
  // Bytes of other tensors, e.g. rotary tables or the copy of a tied head.
  int64_t ignored_bytes = 0;
  std::vector<PrecisionShare> by_precision;  // most bytes first
  // One line per property that determines how the model runs, e.g. "8 heads, 4 KV heads of 64
  // (grouped-query attention)", "YaRN, factor 4 over 32768".
  std::vector<std::string> features;
};

CheckpointSummary summarize(const Checkpoint& checkpoint);

}  // namespace forerun
