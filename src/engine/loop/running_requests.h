// The running requests, each with its resources: an open sequence of the executor, KV blocks
// reserved for it (KvReservations), and its share of the batch (DecodingBatch). Removing a request
// releases them.
//
// Thread rules: one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/id_map.h"
#include "engine/info/load_meter.h"
#include "engine/loop/decoding_batch.h"
#include "engine/loop/kv_reservations.h"
#include "engine/loop/scheduled_request.h"
#include "exec/executor.h"
#include "forerun/status.h"
#include "step/types.h"

namespace forerun {

class RunningRequests {
 public:
  // `load` may be null; the objects must outlive this object. `draft_keeps_all`: see
  // KvReservations.
  RunningRequests(Executor* executor, DecodingBatch* batch, LoadMeter* load, bool draft_keeps_all)
      : executor_(executor), batch_(batch), load_(load), reservations_(executor, draft_keeps_all) {}

  bool empty() const { return running_.empty(); }
  size_t size() const { return running_.size(); }
  bool contains(SequenceId sequence) const { return running_.contains(sequence); }
  // Returns null if there is none. The pointer is valid until the request is removed.
  ScheduledRequest* find(SequenceId sequence) const { return running_.find(sequence); }
  // Iterates over entries {id, value} in no order. The entries must not change meanwhile.
  auto begin() const { return running_.begin(); }
  auto end() const { return running_.end(); }

  // Returns whether the KV memory has room for one more request.
  bool has_room(KvReservations::Claim& claim) const {
    return reservations_.has_room(claim, static_cast<int64_t>(running_.size()));
  }
  // Returns an unused id for add().
  SequenceId next_sequence() { return next_sequence_++; }
  // Adds a request, which has no blocks and no open sequence yet.
  ScheduledRequest& add(SequenceId sequence, ScheduledRequest&& request);
  // Reserves the blocks that the request has claimed, and opens its sequence. If that fails, also
  // for lack of memory (std::bad_alloc), the caller must remove the request.
  Status open(ScheduledRequest& running, const SequenceSpec& spec);
  // Records that the role has read the request's whole text.
  void note_read(ScheduledRequest& running, Role role) {
    reservations_.note_read(running.reservation, role);
  }
  // Counts the request's tokens in the batch. Returns how many it has gained since the last call;
  // if it has gained any, its preemptions so far were not futile.
  int64_t count_tokens(ScheduledRequest& running);
  // Removes a running request, releases its resources, and returns it. If the executor finds no
  // host memory, waits until there is some.
  ScheduledRequest remove(SequenceId sequence);

 private:
  void close(SequenceId sequence);
  void report_size();

  Executor* const executor_;
  DecodingBatch* const batch_;
  LoadMeter* const load_;
  KvReservations reservations_;
  IdMap<ScheduledRequest> running_;
  SequenceId next_sequence_ = 1;
};

}  // namespace forerun
