// Both models divided into stages and placed on devices. Each stage has its layers, its CPU devices
// or GPUs and, once it is loaded (load_stages.h), its decoder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/cpu/device_group.h"
#include "engine/load/device_spec.h"
#include "engine/load/models_to_load.h"
#include "engine/load/opened_model.h"
#include "engine/load/stage_facts.h"
#include "forerun/status.h"
#include "model/decoder.h"
#include "model/layer_range.h"
#include "step/types.h"

namespace forerun {

struct PlacedStage {
  bool is_here = true;  // false: another process holds the stage
  // The CPU devices that sample and, without GPUs, run forward passes. Null for an earlier stage on
  // GPUs and for a stage in another process.
  CpuDeviceGroup* devices = nullptr;
  std::vector<int32_t> gpus;
  int32_t degree = 1;
  LayerRange layers;
  std::unique_ptr<Decoder> decoder;  // null: not loaded, or in another process
  StageFacts facts;                  // facts of the decoder
};

struct PlacedModel {
  const OpenedModel* opened = nullptr;  // null: the role has no model
  std::vector<PlacedStage> stages;      // in order; a single one if the model is not pipelined

  // Returns the stage that this process holds. Only for the target of a launch, in a stage's
  // process.
  const PlacedStage& stage_here() const;
  // Returns the layers of each stage.
  std::vector<LayerRange> layers() const;
};

struct PlacedModels {
  std::vector<std::unique_ptr<CpuDeviceGroup>> devices;  // devices of this process's stages
  std::array<PlacedModel, kNumRoles> models;             // last: decoders use the devices

  PlacedModel& of(Role role) { return models[static_cast<size_t>(role)]; }
  const PlacedModel& of(Role role) const { return models[static_cast<size_t>(role)]; }
  // Returns the indices of the GPUs of this process's stages, the target's first. A GPU that both
  // models or several stages use is repeated.
  std::vector<int32_t> gpus_here() const;
};

// Divides the models into the stages of `placement` and makes the CPU devices of the stages that
// this process holds; loads nothing. In a launch, a stage's process holds the target's stage of its
// rank, and the coordinator holds only the draft. Fails as plan_stages() and
// CpuDeviceGroup::create() do.
Result<PlacedModels> place_stages(const ModelsToLoad& models, const Placement& placement);

}  // namespace forerun
