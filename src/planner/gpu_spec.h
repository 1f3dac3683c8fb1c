// GPUs by name or description, for planning without the GPU: published peaks, the shares of them
// that a forward reaches, and the time that the host adds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// Shares of the published peaks. The defaults are those of this project on an H200.
struct GpuEfficiency {
  double weights = 0.95;          // share of the bandwidth, reading weights
  double attention = 0.92;        // share of the bandwidth, reading a large batch's cache
  double narrow_attention = 0.6;  // the same where heads have fewer than 128 dimensions
  double matrix = 0.52;           // share of the matrix rate, at a few hundred rows
  // The share of attention's arithmetic, at the matrix rate, that adds to the time; the rest hides
  // behind reading the KV cache.
  double attention_arithmetic = 0.5;
  double link = 0.054;  // share of a link's rate, summing a Step's rows over the group
  bool operator==(const GpuEfficiency&) const = default;
};

// What a Step takes beside reading, computing and sending, in seconds. The defaults are those of
// this project's engine on an H200.
struct HostSeconds {
  double step = 0.0;
  double layer = 12e-6;             // four kernels of a layer start and end in some 3 us each
  double sequence = 2.5e-6;         // each sequence beyond the first
  double draft_sequence = 16.8e-6;  // the same for a draft model, whose rows report candidates
  double round = 52e-6;             // a round of speculation, beside its Steps
  bool operator==(const HostSeconds&) const = default;
};

struct GpuSpec {
  std::string name;
  double memory_bytes = 0.0;
  double bandwidth_bytes_per_s = 0.0;  // bandwidth of its memory
  double matrix_flops_per_s = 0.0;     // bf16 with f32 sums, dense
  double link_bytes_per_s = 0.0;       // rate to its peers, one way; 0: it is alone
  double exchange_seconds = 0.0;       // latency of a sum over the group, for each peer
  GpuEfficiency efficiency;
  HostSeconds host;
  std::string efficiency_source;  // who measured it, or on what it is assumed
};

// A tensor-parallel group of equal GPUs, over which one model's weights are sharded.
struct GpuGroup {
  GpuSpec gpu;
  int32_t count = 1;
};

// The known GPUs, newest first. Names are lower case.
const std::vector<GpuSpec>& known_gpus();

// Reads "h200", "h200:2" (two of them), or a description such as
// "bandwidth=3350,tflops=989,memory=80,link=450:4" in GB/s, TFLOP/s, GB and GB/s one way. A name in
// front gives the values that the description leaves out: "h100,memory=94". "efficiency" is the
// share of the bandwidth that is reached; "layer", "sequence", "step" and "round" are HostSeconds
// in microseconds. Fails with kInvalidArgument, naming what was found and what is accepted.
Result<GpuGroup> parse_gpus(const std::string& text);

}  // namespace forerun
