// The messages that wait to be sent to the launch, and the calls among them: the messages whose
// sender waits for the launch's answer.
//
// Threads: used under the supervisor's lock, which call() and wait() release while they wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "forerun/status.h"
#include "supervisor/message.h"
#include "supervisor/wake_descriptor.h"

namespace forerun {

class LaunchCalls {
 public:
  enum class State : uint8_t {
    kAsked,     // the launch has not answered
    kAnswered,  // it has, or the supervisor has given up launches and says why
    kLost,      // the launch was lost before it answered
  };
  struct Answer {
    State state = State::kAsked;
    Status status;
    bool result = true;  // UpMessage::result
  };

  // `waker` wakes the supervisor's thread.
  explicit LaunchCalls(std::shared_ptr<WakeDescriptor> waker) : waker_(std::move(waker)) {}

  // Returns a number that no request, part of a request or call of this supervisor has.
  uint64_t new_id() { return ++last_id_; }
  // Queues a message until the supervisor's thread takes it.
  void queue(DownMessage message) { messages_.push_back(std::move(message)); }
  // Takes the queued messages, in the order in which they were queued.
  std::vector<DownMessage> take_messages();

  // Queues `message` as a call and waits until it is answered or lost. A launch that does not
  // answer is lost by its silence.
  Answer call(std::unique_lock<std::mutex>& lock, DownMessage message);
  // Waits for the answer to the call `id`, whose message has been queued under this same lock.
  // Returns kAsked once `timeout` is over; an answer that comes later finds no call.
  Answer wait(std::unique_lock<std::mutex>& lock, uint64_t id, std::chrono::milliseconds timeout);

  // The launch has answered the call `id`; does nothing if nobody waits for that.
  void answer(uint64_t id, const Status& status, bool result);
  // The launch is lost: drops the queued messages and ends all waits.
  void lose();
  // No launch will follow: answers all calls with `why`.
  void refuse(const Status& why);

 private:
  bool is_open(uint64_t id) const { return calls_.at(id).state == State::kAsked; }
  Answer take(uint64_t id);

  const std::shared_ptr<WakeDescriptor> waker_;
  uint64_t last_id_ = 0;
  std::vector<DownMessage> messages_;
  std::map<uint64_t, Answer> calls_;  // calls whose senders wait
  std::condition_variable answered_;
};

}  // namespace forerun
