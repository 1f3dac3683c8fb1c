// Sends the target from the coordinator to hosts that lack it (EngineOptions::send_model).
//
// In a launch every process takes part in these rounds of messages: a stage reports whether it
// lacks the model, and the coordinator answers with what the model's files are, if any does. Then,
// only if any does, stages that lack it get what opening it reads, and, once they know their layers
// (load_models.h), the tensors of these.
//
// Thread rules: one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "engine/load/models_to_load.h"
#include "forerun/engine.h"
#include "forerun/status.h"
#include "hosts/hosts.h"
#include "hosts/received_files.h"
#include "hosts/send_files.h"
#include "model/layer_range.h"

namespace forerun {

// Returns the values that EngineOptions::send_model accepts.
const std::vector<std::string>& send_model_names();

class ModelTransfer {
 public:
  // On the coordinator, once the target is open: compares the processes' builds, and sends what
  // opening reads where it is lacking. Null if no stage lacks the model. Fails on every process if
  // any fails: where builds differ, a file cannot be read, or a host cannot keep its copy. The
  // options of `models` must outlive the result.
  static Result<std::unique_ptr<ModelTransfer>> offer(const ModelsToLoad& models,
                                                      const Placement& placement);

  // On a stage: reports this process' build and whether it lacks the model. Then accept() must be
  // called, by a stage that has the model when it has opened it.
  static bool report(const EngineOptions& options);
  // On a stage. Null if no stage lacks the model. Where this one does, `options.model` is the copy
  // from then on.
  static Result<std::unique_ptr<ModelTransfer>> accept(bool lacks_model, EngineOptions& options);

  // The last round: the stages get the tensors of their layers. `own`: this stage's; ignored on the
  // coordinator.
  Status complete(const Checkpoint& target, const LayerRange& own);

  // How many layers each stage has: by the coordinator, since a stage that lacks other stages'
  // layers cannot tell how many bytes they take.
  const std::vector<int32_t>& stage_layers() const { return stage_layers_; }
  // The weights differ: the next start compares the copy with the coordinator's files.
  void doubt();

 private:
  explicit ModelTransfer(Hosts* hosts) : hosts_(hosts) {}
  Status make_offer(const ModelsToLoad& models, const Placement& placement, Bytes& notice);
  Status settle(const Status& own);

  Hosts* const hosts_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::vector<int32_t> stage_layers_;
  std::unique_ptr<FileSender> sender_;     // on the coordinator
  std::optional<ReceivedFiles> received_;  // on a stage that lacks the model
};

}  // namespace forerun
