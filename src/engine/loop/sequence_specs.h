// Derives the data for the KV caches and the executor from a request: the blocks that it claims,
// and the spec of its sequence. Both depend on whether the request shares the KV of its prefix with
// other requests.
//
// Thread rules: one thread.
#pragma once

#include "engine/loop/active_request.h"
#include "engine/loop/kv_reservations.h"
#include "engine/loop/prefix_salts.h"
#include "engine/loop/scheduled_request.h"
#include "step/work.h"

namespace forerun {

class SequenceSpecs {
 public:
  // `may_share`: whether requests may share their prefixes.
  explicit SequenceSpecs(bool may_share) : may_share_(may_share) {}

  // Returns the claim for the request's tokens so far and for its view.
  KvReservations::Claim claim(const ActiveRequest& request);
  // Returns the spec with which an admitted request's sequence is opened (Executor::open).
  SequenceSpec spec(const ScheduledRequest& running);

 private:
  // Returns whether the request shares KV. A prompt that is to be scored must be computed, not
  // found in a cache.
  bool shares(const ActiveRequest& request) const {
    return may_share_ && request.request().share_prefix && !request.wants_scores();
  }

  const bool may_share_;
  PrefixSalts salts_;
};

}  // namespace forerun
