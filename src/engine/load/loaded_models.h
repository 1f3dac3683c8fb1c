// Both models on their devices, loaded and ready to run Steps. Where the target's stages are
// processes of a launch (EngineOptions::hosts), each stage's process holds its stage, and the
// coordinator holds the draft. load_models.h makes the object, make_executor.h makes executors for
// it.
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

// Immutable once made, except for the KV of its decoders: only one executor at a time may run
// Steps. The getters may be called from any thread.
class LoadedModels {
 public:
  // `models` are those of `placement`; this process's stages are loaded, with the KV blocks of
  // `memory`. `hosts` is the launch, which must outlive the object; null if there is none.
  LoadedModels(const Placement& placement, MemoryPlan memory, PlacedModels models, Hosts* hosts);

  const Placement& placement() const { return placement_; }
  const MemoryPlan& memory() const { return memory_; }
  const PlacedModel& model(Role role) const { return models_.of(role); }
  Hosts* hosts() const { return hosts_; }
  // Returns whether each model has devices of its own.
  bool concurrent() const { return !placement_.sequential(); }
  bool has_draft() const { return model(Role::kDraft).opened != nullptr; }
  // Return whether all stages of the model can do this.
  bool quantizes_keys(Role role) const;
  bool selects_kv(Role role) const;
  double kv_reads_per_selection(Role role) const;
  // Returns the first failure of Decoder::check_weights() over the model's stages in this process.
  Status check_weights(Role role) const;
  // Returns the layers of each stage of the target; a single range if it has one stage.
  std::vector<LayerRange> target_layers() const { return model(Role::kTarget).layers(); }
  // Returns this process's stage. May be called only in a stage's process.
  PipelineStage stage_here() const;

 private:
  const Placement placement_;
  const MemoryPlan memory_;
  const PlacedModels models_;
  Hosts* const hosts_;
};

// Returns a line for each stage of a pipelined target, with the stage's layers; otherwise empty.
std::string describe_stages(const LoadedModels& models, const ModelConfig& config);

}  // namespace forerun
