// A measured or described machine to plan for, and the plan of one batch on it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/gpu_spec.h"
#include "planner/rank_speculation.h"
#include "planner/roofline.h"
#include "step/step_costs.h"

namespace forerun {

struct PlannedMachine {
  // The memory needs of each device. Unknown for a measured machine.
  struct Memory {
    DeviceWork target;
    std::optional<DeviceWork> draft;
    double usable_bytes = 0.0;
  };

  std::string name = {};
  bool measured = false;  // false: the costs come from the roofline model
  StepCosts costs = {};
  double round_seconds = 0.0;  // seconds of a round of speculation besides its Steps
  std::optional<Memory> memory = {};
};

// `draft` may be null. Fails if device_work() fails for either model; the message names the model.
Result<PlannedMachine> describe_machine(const GpuGroup& group, const ModelConfig& target,
                                        const ModelConfig* draft);

// Returns whether the weights, the KV caches and the blocks that views allocate for themselves
// (KvViewEntry::own_blocks) fit into the memory for such a batch; `candidate` null: for plain
// decoding. Returns true if the memory is not known.
bool fits(const PlannedMachine& machine, const BatchLoad& load,
          const SpeculationCandidate* candidate);

struct BatchPlan {
  BatchLoad load;
  bool fits = true;  // false: not even plain decoding fits, and `ranked` is empty
  // Best first, plain decoding included. Excludes settings that do not fit.
  std::vector<SpeculationForecast> ranked;

  // Returns the best setting that speculates; null if none fits.
  const SpeculationForecast* best_guessing() const;
};

BatchPlan plan_batch(const PlannedMachine& machine, const BatchLoad& load,
                     const std::vector<SpeculationCandidate>& candidates,
                     const RankOptions& options);

// Returns the longest context, up to `max_context`, at which this number of sequences fits with at
// least one of the candidates; 0: none.
int64_t longest_context(const PlannedMachine& machine, int32_t sequences,
                        const std::vector<SpeculationCandidate>& candidates, int64_t max_context);

// Returns the critical sequence length of a batch: from it up to longest_context(), at every length
// tried, some candidate that fits beats plain decoding. 1 if that holds at every length; nothing if
// speculation does not pay at the longest one.
std::optional<int64_t> critical_context(const PlannedMachine& machine, int32_t sequences,
                                        const std::vector<SpeculationCandidate>& candidates,
                                        int64_t max_context, const RankOptions& options = {});

// Returns the inflection point between two batches: from this context up to longest_context() of
// the larger batch, speculation speeds up the larger batch at least as much as the smaller one.
// Returns 1 or nothing as critical_context() does.
std::optional<int64_t> inflection_context(const PlannedMachine& machine, int32_t few_sequences,
                                          int32_t many_sequences,
                                          const std::vector<SpeculationCandidate>& candidates,
                                          int64_t max_context, const RankOptions& options = {});

}  // namespace forerun
