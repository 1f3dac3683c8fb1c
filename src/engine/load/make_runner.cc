#include "engine/load/make_runner.h"

#include <cstdint>
#include <vector>

#include "exec/decoder_step_runner.h"
#include "exec/stages/stage_pipeline.h"
#include "exec/stages/stage_threads.h"
#include "hosts/hosts.h"
#include "hosts/remote_stages.h"
#include "model/held_tensors.h"

namespace forerun {
namespace {

// Makes the transport to the stages of a launch, each of which is another process.
std::unique_ptr<StageTransport> remote_stages(const PlacedModel& model, int64_t kv_blocks,
                                              Hosts* hosts) {
  PipelineFacts facts{.config = &model.opened->checkpoint.config(),
                      .live_vocab = model.opened->live_vocab(),
                      .kv_blocks = kv_blocks,
                      .num_stages = static_cast<int32_t>(model.stages.size())};
  StepDeadlineOptions deadlines;
  deadlines.floor = hosts->longest_step();
  for (const PlacedStage& stage : model.stages) {
    facts.kv_block_bytes += stage.facts.kv_block_bytes;
    deadlines.weight_bytes.push_back(held_bytes(model.opened->checkpoint, stage.layers));
  }
  return std::make_unique<RemoteStages>(hosts, facts, deadlines);
}

// Makes the transport to the stages of this process, each on its own thread.
std::unique_ptr<StageTransport> stage_threads(const PlacedModel& model) {
  std::vector<PipelineStage> stages;
  for (const PlacedStage& stage : model.stages) {
    stages.push_back({stage.decoder.get(), stage.devices});
  }
  return std::make_unique<StageThreads>(stages, model.opened->live_vocab());
}

}  // namespace

std::unique_ptr<StepRunner> make_runner(LoadedModels& models, Role role) {
  const PlacedModel& model = models.model(role);
  const PlacedStage& first = model.stages.front();
  if (!first.is_here) {
    return std::make_unique<StagePipeline>(
        remote_stages(model, models.memory().kv_blocks(role), models.hosts()));
  }
  if (model.stages.size() > 1) return std::make_unique<StagePipeline>(stage_threads(model));
  return std::make_unique<DecoderStepRunner>(first.decoder.get(), first.devices,
                                             model.opened->live_vocab());
}

}  // namespace forerun
