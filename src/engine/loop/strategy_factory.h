// Makes the strategies of running requests, and keeps them informed of what all of them share: how
// often guesses are right, and what Steps of the present batch cost.
//
// One thread.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/loop/decoding_batch.h"
#include "engine/loop/running_requests.h"
#include "engine/loop/scheduled_request.h"
#include "strategies/acceptance.h"
#include "strategies/strategy.h"

namespace forerun {

class StrategyFactory {
 public:
  // `records_rounds`: all strategies fill StrategyOutput::rounds, not only those of requests that
  // want it. `batch` must outlive the object.
  StrategyFactory(DecodingBatch* batch, bool records_rounds)
      : batch_(batch),
        records_rounds_(records_rounds),
        acceptance_(std::make_shared<SharedAcceptance>()) {}

  // A strategy by the request's plan, which has the present costs of rows. Sets
  // ScheduledRequest::costs_version.
  std::unique_ptr<Strategy> make(ScheduledRequest& running) const;
  // Brings the batch's costs up to date, and where they have changed tells them to all strategies.
  // `sources`: those from which requests may guess if the engine chooses their plan.
  void tell_costs(const RunningRequests& running, GuessSources sources);

  const SharedAcceptance& acceptance() const { return *acceptance_; }

 private:
  CostTable costs_for(const ActiveRequest& request, CostTable costs) const;

  DecodingBatch* const batch_;
  const bool records_rounds_;
  const std::shared_ptr<SharedAcceptance> acceptance_;
  uint64_t told_version_ = 0;  // the version of the costs that all strategies have been told
  GuessSources sources_;       // the sources that all strategies have been told
};

}  // namespace forerun
