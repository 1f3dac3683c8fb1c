#include "engine/loop/running_requests.h"

#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <utility>

namespace forerun {
namespace {

// Time to wait for other requests to free host memory.
constexpr std::chrono::microseconds kPause{2000};

}  // namespace

ScheduledRequest& RunningRequests::add(SequenceId sequence, ScheduledRequest&& request) {
  ScheduledRequest& running =
      running_.insert(sequence, std::make_unique<ScheduledRequest>(std::move(request)));
  report_size();
  batch_->admit(running.in_batch, static_cast<int64_t>(running.request->tokens().size()));
  running.sequence = sequence;
  return running;
}

Status RunningRequests::open(ScheduledRequest& running, const SequenceSpec& spec) {
  reservations_.reserve(*running.claim, running.reservation);
  running.claim.reset();
  return executor_->open(running.sequence, spec);
}

int64_t RunningRequests::count_tokens(ScheduledRequest& running) {
  const ActiveRequest& request = *running.request;
  const int64_t gained = batch_->count(
      running.in_batch, static_cast<int64_t>(request.tokens().size()), request.plan().automatic);
  if (gained > 0) running.futile_preemptions = 0;
  return gained;
}

ScheduledRequest RunningRequests::remove(SequenceId sequence) {
  ScheduledRequest removed = std::move(*running_.take(sequence));
  reservations_.release(removed.reservation);
  batch_->retire(removed.in_batch, removed.request->plan().automatic);
  removed.costs_version = 0;
  close(sequence);
  report_size();
  return removed;
}

void RunningRequests::close(SequenceId sequence) {
  while (true) {
    try {
      return executor_->close(sequence);
    } catch (const std::bad_alloc&) {
      // Closing allocates a message to a role's thread, so this waits until memory is free.
      std::this_thread::sleep_for(kPause);
    }
  }
}

void RunningRequests::report_size() {
  if (load_ != nullptr) load_->set_running(running_.size());
}

}  // namespace forerun
