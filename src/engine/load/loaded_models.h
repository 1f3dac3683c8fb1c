// Both models on their devices, loaded and ready to run Steps. Where the target's stages are
// processes of a launch (EngineOptions::hosts), each stage's process holds its stage, and the
// coordinator holds the draft. load_models.h makes it, make_executor.h runs Steps on it.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/model_config.h"
#include "engine/load/device_spec.h"
#include "engine/load/memory_plan.h"
#include "engine/load/placed_models.h"
#include "exec/stages/stage_worker.h"
#include "forerun/status.h"
#include "hosts/hosts.h"
#include "model/layer_range.h"
#include "step/types.h"

namespace forerun {

// Does not change once it is made, but its decoders' KV does: one executor at a time may run Steps.
// Questions may be asked from any thread.
class LoadedModels {
 public:
  // `models`: those of `placement`; this process' stages are loaded, with the KV blocks of
  // `memory`. `hosts`: the launch, which must outlive the object; null: there is none.
  LoadedModels(const Placement& placement, MemoryPlan memory, PlacedModels models, Hosts* hosts);

  const Placement& placement() const { return placement_; }
  const MemoryPlan& memory() const { return memory_; }
  const PlacedModel& model(Role role) const { return models_.of(role); }
  Hosts* hosts() const { return hosts_; }
  // Whether each model has devices of its own.
  bool concurrent() const { return !placement_.sequential(); }
  bool has_draft() const { return model(Role::kDraft).opened != nullptr; }
  // Whether all stages of the model can.
  bool quantizes_keys(Role role) const;
  bool selects_kv(Role role) const;
  double kv_reads_per_selection(Role role) const;
  // The first failure of Decoder::check_weights() over the model's stages in this process.
  Status check_weights(Role role) const;
  // The layers of each stage of the target; a single range where it is not cut.
  std::vector<LayerRange> target_layers() const { return model(Role::kTarget).layers(); }
  // Only in a stage's process: its stage.
  PipelineStage stage_here() const;

 private:
  const Placement placement_;
  const MemoryPlan memory_;
  const PlacedModels models_;
  Hosts* const hosts_;
};

// A line for each stage of a target that is cut, with the stage's layers; otherwise empty.
std::string describe_stages(const LoadedModels& models, const ModelConfig& config);

}  // namespace forerun
