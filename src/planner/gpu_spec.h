// GPUs by name or description, for planning without the GPU: published peaks, the shares of them
// that a forward pass reaches, and the time that the host adds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// Shares of the published peaks. The defaults are those of this project on an H200.
struct GpuEfficiency {
  double weights = 0.95;          // share of the bandwidth when reading weights
  double attention = 0.92;        // share of the bandwidth when reading a large batch's KV cache
  double narrow_attention = 0.6;  // the same for heads with fewer than 128 dimensions
  double matrix = 0.52;           // share of the matrix rate at a few hundred rows
  // The share of attention's arithmetic, at the matrix rate, that adds to the time; the rest
  // overlaps with reading the KV cache.
  double attention_arithmetic = 0.5;
  double link = 0.054;  // share of a link's rate in an all-reduce of a Step's rows
  bool operator==(const GpuEfficiency&) const = default;
};

// The time of a Step besides reading, computing and sending, in seconds. The defaults are those of
// this project's engine on an H200.
struct HostSeconds {
  double step = 0.0;
  double layer = 12e-6;             // a layer's four kernels start and end in about 3 us each
  double sequence = 2.5e-6;         // per sequence beyond the first
  double draft_sequence = 16.8e-6;  // the same for a draft model, whose rows return candidates
  double round = 52e-6;             // per round of speculation, in addition to its Steps
  bool operator==(const HostSeconds&) const = default;
};

struct GpuSpec {
  std::string name;
  double memory_bytes = 0.0;
  double bandwidth_bytes_per_s = 0.0;  // bandwidth of its memory
  double matrix_flops_per_s = 0.0;     // bf16 with f32 accumulation, dense
  double link_bytes_per_s = 0.0;       // rate to its peers, one way; 0: no peers
  double exchange_seconds = 0.0;       // latency of an all-reduce, per peer
  GpuEfficiency efficiency;
  HostSeconds host;
  std::string efficiency_source;  // the source of the shares: a measurement or an assumption
};

// A tensor-parallel group of equal GPUs that share one model's weights.
struct GpuGroup {
  GpuSpec gpu;
  int32_t count = 1;
};

// Returns the known GPUs, newest first. Names are lower case.
const std::vector<GpuSpec>& known_gpus();

// Parses "h200", "h200:2" (two of them), or a description such as
// "bandwidth=3350,tflops=989,memory=80,link=450:4" in GB/s, TFLOP/s, GB and GB/s one way. A name in
// front supplies the values that the description leaves out: "h100,memory=94". "efficiency" is the
// share of the bandwidth that is reached; "layer", "sequence", "step" and "round" are HostSeconds
// in microseconds. Fails with kInvalidArgument; the message says what was found and what is
// accepted.
Result<GpuGroup> parse_gpus(const std::string& text);

}  // namespace forerun
