// Device names as users write them.
//
// A device is a set of processors that work as one team: cpu:0, cpu:0-3 (a range), cpu:0+2+5, cpu
// (all that this process may use). Devices separated by commas form a tensor-parallel group:
// cpu:0,cpu:1 are two devices that hold half of a model each, cpu:0-1 is one device of two threads.
// cuda:0 (or cuda) is a GPU, cuda:0,cuda:1 a group of two.
//
// Groups separated by slashes are the stages of a pipeline: cpu:0,cpu:1/cpu:2 holds the first
// layers on a group of two devices and the rest on one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/cpu/device_group.h"
#include "forerun/status.h"
#include "step/types.h"

namespace forerun {

// Parses the devices of a spec, by rank, each with its processors in ascending order; an empty spec
// is one device of all processors that this process may use. Fails on anything else with a message
// that names the part, and if a device names a processor twice. Several devices may share a
// processor (correct, but slow).
Result<std::vector<CpuCores>> parse_cpu_devices(std::string_view spec);

// The devices of one model; for a pipelined model, those of its last stage.
struct ModelPlacement {
  std::vector<int32_t> gpus;  // GPUs of the forward passes, by rank; none: `devices` run them
  // The CPU devices, which run forward passes and sampling. With GPUs, a single device that samples
  // (none in an earlier stage).
  std::vector<CpuCores> devices;
  std::vector<ModelPlacement> earlier =
      {};  // the stages before this one, in order; none: the model has a single stage

  int32_t num_stages() const { return static_cast<int32_t>(earlier.size()) + 1; }
  const ModelPlacement& stage(int32_t idx) const {
    return idx + 1 == num_stages() ? *this : earlier[static_cast<size_t>(idx)];
  }

  bool on_gpus() const { return !gpus.empty(); }
  // Returns the number of devices that each hold a part of the stage.
  int32_t degree() const { return static_cast<int32_t>(on_gpus() ? gpus.size() : devices.size()); }
};

struct Placement {
  ModelPlacement target;
  // None: the draft runs on the target's devices, sequentially.
  std::optional<ModelPlacement> draft;
  bool on_hosts = false;  // the target's stages are on different machines

  const ModelPlacement& of(Role role) const {
    return role == Role::kDraft && draft ? *draft : target;
  }
  // Returns whether only one of the models runs a Step at a time: the draft has no devices of its
  // own, or its GPUs are also the target's. If the target is pipelined or on other hosts, a draft
  // with devices of its own is never sequential.
  bool sequential() const;
};

// Returns a text such as "cpu:0-1, both models sequentially", "target cpu:0,cpu:1, draft cpu:2" or,
// if they share GPUs, "target cuda:0,cuda:1, draft cuda:0, sequentially".
std::string describe(const Placement& placement);

// Places both models on devices:
//  - `draft_spec` empty: both models use the target's devices, sequentially;
//  - `target_spec` empty beside a draft_spec: the target gets all processors but the draft's;
//  - a model on GPUs: its processors only sample; two such models share the processors;
//  - a draft on GPUs of its target: both run sequentially; a small draft is fastest there, since it
//    needs no all-reduce.
// Fails if
//  - a GPU is named twice in a group, or in one group with processors;
//  - a processor would serve both models, or none is left for the target;
//  - some of the draft's GPUs are the target's and others are not.
//
// `stages` is the number of pipeline stages of the target; 0: one for each group in target_spec.
// Several stages may share a single group of processors. A stage of a target may use GPUs of
// another stage or of the draft (correct; they then take turns).
Result<Placement> place_models(std::string_view target_spec, std::string_view draft_spec,
                               int32_t stages = 0);
inline constexpr int32_t kMaxStages = 64;

}  // namespace forerun
