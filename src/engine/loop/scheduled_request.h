// A request in the loop: it waits, it runs with a sequence of the executor, and it waits again if
// it is preempted.
//
// Thread rules: one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "engine/info/load_meter.h"
#include "engine/loop/active_request.h"
#include "engine/loop/decoding_batch.h"
#include "engine/loop/kv_reservations.h"
#include "engine/loop/waiting_requests.h"
#include "step/types.h"
#include "strategies/request_driver.h"

namespace forerun {

// Destroying it before the request is finished tells the reader that memory has run out.
struct ScheduledRequest {
  std::unique_ptr<ActiveRequest> request;
  RequestDriver driver;                        // holds the strategy; empty while the request waits
  SequenceId sequence = 0;                     // a new one after each preemption
  std::optional<KvReservations::Claim> claim;  // set while it waits, once it has reached the front
  KvReservations::Reservation reservation;
  Clock::duration waited{};  // waiting time over all its admissions
  int32_t level = 0;         // its priority plus the levels gained by waiting
  // Preemptions since its last token.
  int32_t futile_preemptions = 0;
  DecodingBatch::Share in_batch;
  uint64_t costs_version = 0;  // version of the costs that its strategy has
  bool draft_is_out = false;   // a row of its draft was faulty, so it runs without the draft model

  // Reports to `load` the tokens since the last call. Does nothing if that is null.
  void report(LoadMeter* load) {
    if (load == nullptr) return;
    request->report(*load, driver.strategy_name(), driver.stats());
  }
};

// Preempted requests return to the front of their class.
using WaitingQueue = WaitingRequests<ScheduledRequest>;

}  // namespace forerun
