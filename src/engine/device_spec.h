// Device names as users write them.
//
// A device is a set of processors that work as one team: cpu:0, cpu:0-3 (a range), cpu:0+2+5, cpu
// (all that this process may use). Devices with commas between them form a tensor-parallel group:
// cpu:0,cpu:1 are two devices that hold half of a model each, cpu:0-1 is one device of two threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/cpu/device_group.h"
#include "forerun/status.h"

namespace forerun {

// The devices of a spec by rank, each with its processors ascending; an empty spec is one device of
// all that this process may use. Fails on anything else, naming the part, and where a device names
// a processor twice; several devices may share one (correct, and slow).
Result<std::vector<CpuCores>> parse_cpu_devices(std::string_view spec);

// What one model runs on.
struct ModelPlacement {
  std::optional<int32_t> gpu;  // its passes; none: the devices below
  // Everything else; with a GPU one device, which samples.
  std::vector<CpuCores> devices;
};

struct Placement {
  ModelPlacement target;
  std::optional<ModelPlacement> draft;  // none: the target's, in turn
};

// "cpu:0-1, both models in turn" or "target cpu:0,cpu:1, draft cpu:2".
std::string describe(const Placement& placement);

// `draft_spec` empty: nothing is split. An empty `target_spec` beside a draft_spec means one device
// of all but the draft's processors. "cuda:1" names a GPU: processors then only sample, and two
// models on GPUs of their own share them out. Fails where a device would serve both models, or none
// is left for the target.
Result<Placement> place_models(std::string_view target_spec, std::string_view draft_spec);

}  // namespace forerun
