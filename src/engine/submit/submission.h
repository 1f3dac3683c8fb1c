// Turns a Request into the objects that the loop runs: checks it, fills in unset fields, and makes
// an ActiveRequest for each sample.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/load/opened_model.h"
#include "engine/loop/active_request.h"
#include "engine/submit/output_formats.h"
#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// Seeds for requests without one; they differ even between engines started at the same time. next()
// may be called from any thread.
class SeedSource {
 public:
  SeedSource();
  uint64_t next();  // below 2^53

 private:
  std::atomic<uint64_t> state_;
};

// Returns `wanted` with unset fields taken from the checkpoint's `defaults`.
SamplingParams resolve_sampling(const SamplingOptions& wanted, const SamplingParams& defaults,
                                uint64_t seed_if_unset);

// Checks the request, except for its speculation, which `plan` has resolved, and makes its samples,
// which are not connected yet. `formats` null: output formats are refused. Fails with a message
// that names the field that is out of range.
Result<std::vector<std::unique_ptr<ActiveRequest>>> make_samples(
    const OpenedModel& target, const EngineInfo& info, int32_t max_logprobs, SeedSource& seeds,
    OutputFormats* formats, std::shared_ptr<const SpeculationPlan> plan, Request request);

}  // namespace forerun
