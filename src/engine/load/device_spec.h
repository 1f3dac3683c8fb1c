// Device names as users write them.
//
// A device is a set of processors that work as one team: cpu:0, cpu:0-3 (a range), cpu:0+2+5, cpu
// (all that this process may use). Devices with commas between them form a tensor-parallel group:
// cpu:0,cpu:1 are two devices that hold half of a model each, cpu:0-1 is one device of two threads.
// cuda:0 (or cuda) is a GPU, cuda:0,cuda:1 a group of two.
//
// Groups with slashes between them are the stages of a pipeline: cpu:0,cpu:1/cpu:2 holds the first
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

// The devices of a spec by rank, each with its processors ascending; an empty spec is one device of
// all that this process may use. Fails on anything else, naming the part, and where a device names
// a processor twice; several devices may share one (correct, and slow).
Result<std::vector<CpuCores>> parse_cpu_devices(std::string_view spec);

// What one model runs on; for a model that is cut into stages, what the last stage runs on.
struct ModelPlacement {
  std::vector<int32_t> gpus;  // GPUs that run its forwards, by rank; none: the devices below do
  // The CPU devices, which run forwards and sampling; where there are GPUs, one device that samples
  // (none in an earlier stage).
  std::vector<CpuCores> devices;
  std::vector<ModelPlacement> earlier =
      {};  // the stages before this one, in order; none: the model is not cut

  int32_t num_stages() const { return static_cast<int32_t>(earlier.size()) + 1; }
  const ModelPlacement& stage(int32_t idx) const {
    return idx + 1 == num_stages() ? *this : earlier[static_cast<size_t>(idx)];
  }

  bool on_gpus() const { return !gpus.empty(); }
  // The number of devices that each hold a part of the stage.
  int32_t degree() const { return static_cast<int32_t>(on_gpus() ? gpus.size() : devices.size()); }
};

struct Placement {
  ModelPlacement target;
  std::optional<ModelPlacement> draft;  // none: the draft has the target's devices, sequentially
  bool on_hosts = false;                // the target's stages are on machines of their own

  const ModelPlacement& of(Role role) const {
    return role == Role::kDraft && draft ? *draft : target;
  }
  // Whether only one of the models runs a Step at a time: the draft has no devices of its own, or
  // its GPUs are also the target's. Where the target is cut or on other hosts, a draft with devices
  // of its own is never sequential.
  bool sequential() const;
};

// "cpu:0-1, both models sequentially", "target cpu:0,cpu:1, draft cpu:2" or, where they share GPUs,
// "target cuda:0,cuda:1, draft cuda:0, sequentially".
std::string describe(const Placement& placement);

// Places both models on devices:
//  - `draft_spec` empty: both models use the target's devices, sequentially;
//  - `target_spec` empty beside a draft_spec: the target gets all processors but the draft's;
//  - a model on GPUs: its processors only sample; two such models share the processors out;
//  - a draft on GPUs of its target: both run sequentially; a small draft is best there, where its
//    sums need not travel.
// Fails if
//  - a GPU is named twice in a group, or in one group with processors;
//  - a processor would serve both models, or none is left for the target;
//  - some of the draft's GPUs are the target's and others are not.
//
// `stages`: how many the target is cut into; 0: as many as target_spec has groups. Several stages
// may share a single group of processors. A stage of a target may have GPUs of another one or of
// the draft (correct; they then take turns).
Result<Placement> place_models(std::string_view target_spec, std::string_view draft_spec,
                               int32_t stages = 0);
inline constexpr int32_t kMaxStages = 64;

}  // namespace forerun
