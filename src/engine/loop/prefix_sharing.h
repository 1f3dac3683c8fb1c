// What a request asks of the KV caches: the blocks that it claims and the sequence that is opened
// for it. Either depends on whether it shares the KV of its prefix with other requests.
//
// One thread.
#pragma once

#include "engine/loop/active_request.h"
#include "engine/loop/admission.h"
#include "engine/loop/prefix_salts.h"
#include "engine/loop/scheduled_request.h"
#include "step/work.h"

namespace forerun {

class PrefixSharing {
 public:
  // `is_allowed` false: no request shares its prefix.
  explicit PrefixSharing(bool is_allowed) : is_allowed_(is_allowed) {}

  // The blocks for the request's tokens so far and for its view.
  Admission::Claim claim(const ActiveRequest& request);
  // The sequence of a request that runs.
  SequenceSpec sequence(const ScheduledRequest& running);

 private:
  // A prompt that is to be scored must be read, not found in a cache.
  bool shares(const ActiveRequest& request) const {
    return is_allowed_ && request.request().share_prefix && !request.wants_scores();
  }

  const bool is_allowed_;
  PrefixSalts salts_;
};

}  // namespace forerun
