// The messages that wait to be sent to the launch, and the calls among them: messages with a sender
// that waits for the launch's answer.
//
// Thread rules: used under the supervisor's lock, which call() and wait() release while they wait.
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
    kAnswered,  // the launch has answered, or the supervisor has given up and has the reason
    kLost,      // the launch was lost before it answered
  };
  struct Answer {
    State state = State::kAsked;
    Status status;
    bool result = true;  // UpMessage::result
  };

  // `waker` wakes the supervisor's thread.
  explicit LaunchCalls(std::shared_ptr<WakeDescriptor> waker) : waker_(std::move(waker)) {}

  // Returns a number that no other request, part of a request or call of this supervisor has.
  uint64_t new_id() { return ++last_id_; }
  // Queues a message until the supervisor's thread takes it.
  void queue(DownMessage message) { messages_.push_back(std::move(message)); }
  // Takes the queued messages, in the order in which they were queued.
  std::vector<DownMessage> take_messages();

  // Queues `message` as a call and waits until it is answered or lost. A launch that does not
  // answer is lost by its silence.
  Answer call(std::unique_lock<std::mutex>& lock, DownMessage message);
  // Waits for the answer to the call `id`; its message must have been queued under this same lock.
  // Returns kAsked once `timeout` is over; a later answer is dropped.
  Answer wait(std::unique_lock<std::mutex>& lock, uint64_t id, std::chrono::milliseconds timeout);

  // Passes the launch's answer to the call `id`; does nothing if no sender waits for it.
  void answer(uint64_t id, const Status& status, bool result);
  // Notes the loss of the launch: drops the queued messages and ends all waits.
  void lose();
  // Answers all calls with `why`, since no launch will follow.
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
