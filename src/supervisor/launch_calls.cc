#include "supervisor/launch_calls.h"

#include <utility>

namespace forerun {

std::vector<DownMessage> LaunchCalls::take_messages() { return std::exchange(messages_, {}); }

LaunchCalls::Answer LaunchCalls::call(std::unique_lock<std::mutex>& lock, DownMessage message) {
  const uint64_t id = message.call = new_id();
  queue(std::move(message));
  calls_.emplace(id, Answer{});
  waker_->wake();
  answered_.wait(lock, [&] { return !is_open(id); });
  return take(id);
}

LaunchCalls::Answer LaunchCalls::wait(std::unique_lock<std::mutex>& lock, uint64_t id,
                                      std::chrono::milliseconds timeout) {
  calls_.emplace(id, Answer{});
  waker_->wake();
  answered_.wait_for(lock, timeout, [&] { return !is_open(id); });
  return take(id);
}

LaunchCalls::Answer LaunchCalls::take(uint64_t id) {
  return std::move(calls_.extract(id).mapped());
}

void LaunchCalls::answer(uint64_t id, const Status& status, bool result) {
  const auto call = calls_.find(id);
  if (call == calls_.end()) return;
  call->second = {State::kAnswered, status, result};
  answered_.notify_all();
}

void LaunchCalls::lose() {
  messages_.clear();
  for (auto& [id, call] : calls_) {
    if (call.state == State::kAsked) call.state = State::kLost;
  }
  answered_.notify_all();
}

void LaunchCalls::refuse(const Status& why) {
  for (auto& [id, call] : calls_) {
    if (call.state == State::kAsked) call = {State::kAnswered, why};
  }
  answered_.notify_all();
}

}  // namespace forerun
