#include "engine/loop/event_delivery.h"

#include <new>
#include <utility>

namespace forerun {

void EventDelivery::note_turn(SequenceId sequence) {
  turned_.push_back(sequence);
  if (unsent_.capacity() < turned_.capacity()) unsent_.reserve(turned_.capacity());
}

void EventDelivery::deliver(const RunningRequests& running) {
  for (const SequenceId sequence : turned_) {
    ScheduledRequest* const found = running.find(sequence);
    if (found == nullptr) continue;
    try {
      send(*found);
    } catch (const std::bad_alloc&) {
      unsent_.push_back(sequence);
    }
  }
  turned_.clear();
  for (Ended& ended : ended_) {
    try {
      finish(ended);
    } catch (const std::bad_alloc&) {
      // The request's destructor tells its reader.
    }
  }
  ended_.clear();
}

void EventDelivery::send(ScheduledRequest& running) const {
  running.report(load_);
  running.request->send();
  running.driver.prepare();
}

void EventDelivery::finish(Ended& ended) const {
  ended.request.report(load_);
  ended.request.request->finish(ended.reason, std::move(ended.error), ended.request.driver.stats(),
                                ended.request.driver.strategy_name());
}

void EventDelivery::drop_unsent(RunningRequests& running) {
  for (const SequenceId sequence : unsent_) {
    if (running.contains(sequence)) running.remove(sequence);
  }
  unsent_.clear();
}

}  // namespace forerun
