// Makes the strategies of running requests, and passes them the data that all of them share: how
// often guesses are accepted, and the costs of Steps of the present batch.
//
// Thread rules: one thread.
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
  // ask for it. `batch` must outlive the object.
  StrategyFactory(DecodingBatch* batch, bool records_rounds)
      : batch_(batch),
        records_rounds_(records_rounds),
        acceptance_(std::make_shared<SharedAcceptance>()) {}

  // Makes a strategy by the request's plan, with the present costs of rows. Sets
  // ScheduledRequest::costs_version.
  std::unique_ptr<Strategy> make(ScheduledRequest& running) const;
  // Updates the batch's costs and, if they have changed, passes them to all strategies. `sources`
  // are the draft sources of requests that leave their plan to the engine.
  void tell_costs(const RunningRequests& running, GuessSources sources);

  const SharedAcceptance& acceptance() const { return *acceptance_; }

 private:
  CostTable costs_for(const ActiveRequest& request, CostTable costs) const;

  DecodingBatch* const batch_;
  const bool records_rounds_;
  const std::shared_ptr<SharedAcceptance> acceptance_;
  uint64_t told_version_ = 0;  // version of the costs that all strategies have received
  GuessSources sources_;       // sources that all strategies have received
};

}  // namespace forerun
