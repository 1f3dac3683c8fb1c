#include "engine/loop/submissions.h"

#include <utility>

namespace forerun {

void Submissions::submit(std::unique_ptr<ActiveRequest> request) {
  {
    const std::lock_guard lock(mutex_);
    submitted_.push_back(std::move(request));
  }
  waker_->wake();
}

void Submissions::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  waker_->wake();
}

bool Submissions::is_stopping() const {
  const std::lock_guard lock(mutex_);
  return is_stopping_;
}

std::deque<std::unique_ptr<ActiveRequest>> Submissions::take() {
  std::deque<std::unique_ptr<ActiveRequest>> taken;
  const std::lock_guard lock(mutex_);
  taken.swap(submitted_);
  return taken;
}

}  // namespace forerun
