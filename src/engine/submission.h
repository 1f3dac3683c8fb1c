// From a Request to what the loop runs: checked, everything unset filled in, one ActiveRequest a
// sample.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/active_request.h"
#include "engine/opened_model.h"
#include "engine/output_formats.h"
#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// Seeds for requests that name none: different ones, also of engines started at the same time.
// Any thread.
class SeedSource {
 public:
  SeedSource();
  uint64_t next();  // below 2^53

 private:
  std::atomic<uint64_t> state_;
};

// What `wanted` comes to on a checkpoint with `defaults`.
SamplingParams resolve_sampling(const SamplingOptions& wanted, const SamplingParams& defaults,
                                uint64_t seed_if_unset);

// Checks the request, speculation aside, which `plan` is, and makes its samples, not yet connected.
// `formats` null: no output formats are done.
// Fails, naming the field, on what is out of range.
Result<std::vector<std::unique_ptr<ActiveRequest>>> make_samples(
    const OpenedModel& target, const EngineInfo& info, int32_t max_logprobs, SeedSource& seeds,
    OutputFormats* formats, std::shared_ptr<const SpeculationPlan> plan, Request request);

}  // namespace forerun
