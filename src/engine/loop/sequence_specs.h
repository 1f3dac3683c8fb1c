// Derives from a request what the KV caches and the executor must know of it: the blocks that it
// claims, and the spec of the sequence that is opened for it. Both depend on whether the request
// shares the KV of its prefix with other requests.
//
// One thread.
#pragma once

#include "engine/loop/active_request.h"
#include "engine/loop/kv_reservations.h"
#include "engine/loop/prefix_salts.h"
#include "engine/loop/scheduled_request.h"
#include "step/work.h"

namespace forerun {

class SequenceSpecs {
 public:
  // `may_share`: whether requests may share its prefix.
  explicit SequenceSpecs(bool may_share) : may_share_(may_share) {}

  // The blocks for the request's tokens so far and for its view.
  KvReservations::Claim claim(const ActiveRequest& request);
  // The spec for opening the sequence of a request that has been admitted (Executor::open).
  SequenceSpec spec(const ScheduledRequest& running);

 private:
  // A prompt that is to be scored must be read, not found in a cache.
  bool shares(const ActiveRequest& request) const {
    return may_share_ && request.request().share_prefix && !request.wants_scores();
  }

  const bool may_share_;
  PrefixSalts salts_;
};

}  // namespace forerun
