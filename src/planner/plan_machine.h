// A machine that plans are made for, measured or described, and the plan of one batch on it. Pure.
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
  // What each device has to hold. Unknown of a machine that was measured.
  struct Memory {
    DeviceWork target;
    std::optional<DeviceWork> draft;
    double usable_bytes = 0.0;
  };

  std::string name = {};
  bool measured = false;  // else the costs are a roofline's
  StepCosts costs = {};
  std::optional<Memory> memory = {};
};

// `draft` may be null. Fails as device_work(), for either model; the message says which.
Result<PlannedMachine> describe_machine(const GpuGroup& group, const ModelConfig& target,
                                        const ModelConfig* draft);

// Whether weights, caches and views of such a batch lie in the memory; plain decoding where
// `candidate` is null. True where the memory is unknown.
bool fits(const PlannedMachine& machine, const BatchLoad& load,
          const SpeculationCandidate* candidate);

struct BatchPlan {
  BatchLoad load;
  bool fits = true;  // plain decoding does; else nothing is ranked
  // Best first, plain decoding among them; what does not fit is left out.
  std::vector<SpeculationForecast> ranked;

  // The best that speculates; null where nothing can.
  const SpeculationForecast* best_guessing() const;
};

BatchPlan plan_batch(const PlannedMachine& machine, const BatchLoad& load,
                     const std::vector<SpeculationCandidate>& candidates,
                     const RankOptions& options);

// The longest context, up to `max_context`, of which so many sequences fit with one of the
// candidates at least; 0: none.
int64_t longest_context(const PlannedMachine& machine, int32_t sequences,
                        const std::vector<SpeculationCandidate>& candidates, int64_t max_context);

// The critical sequence length of a batch: from it to longest_context() some candidate for which
// there is room beats plain decoding at every length looked at. 1 where that is so at all of them;
// none where speculation does not pay at the longest.
std::optional<int64_t> critical_context(const PlannedMachine& machine, int32_t sequences,
                                        const std::vector<SpeculationCandidate>& candidates,
                                        int64_t max_context, const RankOptions& options = {});

// The inflection point between two batches: from it to the larger one's longest_context()
// speculation gains that one at least as much as the smaller one. As above.
std::optional<int64_t> inflection_context(const PlannedMachine& machine, int32_t few_sequences,
                                          int32_t many_sequences,
                                          const std::vector<SpeculationCandidate>& candidates,
                                          int64_t max_context, const RankOptions& options = {});

}  // namespace forerun
