// The submitted requests that the loop has not taken yet, and the request to stop the loop.
#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include "engine/loop/active_request.h"
#include "engine/loop/loop_waker.h"

namespace forerun {

// submit(), stop() and waker() may be called from any thread, the other functions only from the
// loop's.
class Submissions {
 public:
  // Both wake the loop.
  void submit(std::unique_ptr<ActiveRequest> request);
  void stop();

  bool is_stopping() const;
  // Removes all requests and returns them in order of submission. If memory runs out
  // (std::bad_alloc), none is removed.
  std::deque<std::unique_ptr<ActiveRequest>> take();
  // Never null. Streams share it to wake the loop themselves.
  const std::shared_ptr<LoopWaker>& waker() const { return waker_; }

 private:
  const std::shared_ptr<LoopWaker> waker_ = std::make_shared<LoopWaker>();
  mutable std::mutex mutex_;  // guards the members below
  std::deque<std::unique_ptr<ActiveRequest>> submitted_;
  bool is_stopping_ = false;
};

}  // namespace forerun
