// A request that outlives launches: the request itself, and its output so far.
//
// Thread rules: used under its supervisor's lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/loop/event_queue.h"
#include "forerun/event.h"
#include "forerun/request.h"

namespace forerun {

class SupervisedRequest {
 public:
  using Clock = std::chrono::steady_clock;

  // `request` must have been checked, with its prompt as tokens and all sampling fields set,
  // including the seed.
  explicit SupervisedRequest(Request request);

  // Must be called once the request has been accepted: its events go to `queue` from now on.
  void connect(std::shared_ptr<EventQueue> queue, uint64_t tag, RequestChannel::EngineSide engine);
  const std::shared_ptr<RequestChannel>& channel() const { return channel_; }

  // Returns the requests to submit to a launch so that this one continues: the whole request if it
  // has no token yet, otherwise each unfinished sample as a request of its own that continues its
  // tokens. The second member is the sample's index; -1: the whole request. `plainly`: the launch
  // has no draft.
  std::vector<std::pair<Request, int32_t>> parts(bool plainly) const;

  // Takes an event of a part. `launches` is the number of launches that have worked on the request.
  void take(Event event, int32_t part, int launches);
  // Ends all samples that have not finished.
  void end(FinishReason reason, const Status& error);

  bool has_finished() const;
  bool is_cancelled() const { return channel_ != nullptr && channel_->cancelled(); }
  bool is_late(Clock::time_point now) const { return deadline_ && *deadline_ < now; }
  bool has_deadline() const { return deadline_.has_value(); }
  Clock::time_point submitted() const { return submitted_; }
  // Returns the error of a request that has missed its deadline. `why` says what it has waited for;
  // it may be empty.
  Status late(const std::string& why) const;
  int32_t num_samples() const { return request_.num_samples; }
  void set_speculation(const SpeculationOptions& options) { request_.speculation = options; }

  // Returns whether this is the first failure of the request by a defect or a device.
  bool may_try_again() { return !std::exchange(has_failed_, true); }

 private:
  struct Sample {
    std::shared_ptr<EventStream> stream;
    std::vector<int32_t> tokens;  // all emitted tokens, including resume_tokens
    std::optional<Clock::time_point> first_token;
    bool scored = false;  // Event::prompt_logprobs has been emitted
    bool finished = false;
  };

  Request request_;
  const Clock::time_point submitted_;
  std::optional<Clock::time_point> deadline_;
  std::shared_ptr<RequestChannel> channel_;
  std::vector<Sample> samples_;
  bool has_failed_ = false;
};

}  // namespace forerun
