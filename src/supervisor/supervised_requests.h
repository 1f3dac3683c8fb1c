// The running requests. Passes them to each launch, takes their events, and ends those that are
// cancelled, late, or have been in too many launches that died.
//
// A launch has a request in parts (SupervisedRequest::parts), each of which is a request to the
// launch. A new request is connected, so that its reader gets its events, once the launch has
// accepted it, or once it must wait for a launch.
//
// Thread rules: used under the supervisor's lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "supervisor/launch_availability.h"
#include "supervisor/launch_calls.h"
#include "supervisor/message.h"
#include "supervisor/supervised_request.h"
#include "supervisor/supervisor_options.h"

namespace forerun {

class SupervisedRequests {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Returns the supervisor's functions for the handle of request `id`.
  using EngineSideOf = std::function<RequestChannel::EngineSide(uint64_t id)>;

  // `options`, `launch` and `calls` must outlive the object. Messages to the launch are queued in
  // `calls`.
  SupervisedRequests(const SupervisorOptions& options, const LaunchAvailability& launch,
                     LaunchCalls& calls, EngineSideOf engine_side)
      : options_(options), launch_(launch), calls_(calls), engine_side_(std::move(engine_side)) {}

  // Adds a request that meets SupervisedRequest's requirements; no launch has it, and it is not
  // connected. Returns its number.
  uint64_t add(Request request, std::shared_ptr<EventQueue> queue, uint64_t tag);
  // Passes a newly added request to the launch. Returns the number of the call that the launch
  // answers.
  uint64_t hand_over_new(uint64_t id);
  // Connects the request if it is running and not connected.
  void connect(uint64_t id);
  // Removes the request, if it exists, without an event.
  void erase(uint64_t id);

  size_t size() const { return requests_.size(); }
  // Returns the sum of all requests' samples.
  int64_t num_samples() const;
  // Returns null if it is not running.
  std::shared_ptr<SupervisedRequest> find(uint64_t id) const;
  // Returns the numbers of the launch's parts of the request `id`, which must be running.
  std::vector<uint64_t> parts_of(uint64_t id) const { return requests_.at(id).parts; }

  // Passes all requests but the suspects to a launch that is ready.
  void hand_over_all();
  // Takes the launch's answer to a part: connects the request, or ends it if the launch refuses it
  // and its submitter no longer waits for the answer.
  void take_answer(uint64_t part, const Status& status);
  struct Taken {
    bool has_tokens = false;  // the launch has made progress
    // Set if another launch may succeed: the request has failed for the first time.
    std::optional<LaunchFailure> failure;
  };
  // Takes an event of the part message.id; drops it if there is no such part.
  Taken take_event(UpMessage&& message);
  // Ends the requests that are cancelled, late, or have waited for a launch for too long, and tries
  // the next suspect. Must be called regularly.
  void look_after(TimePoint now);

  // Notes the loss of the launch: no request has parts any more, and all are connected.
  void note_loss();
  // Returns whether the launch has a suspect without a token from it.
  bool has_trial() const;
  // Counts the death of the last launch against the requests without a token from it, and fails
  // those that have reached kMaxDeaths. `why`: the cause of the launch's death.
  void count_death(const Status& why);
  // Ends and removes all connected requests, since no launch will follow, with `why` unless
  // `is_cancelled` or the request itself is cancelled; the others are only removed, since their
  // submitters receive the error.
  void end_all(const Status& why, bool is_cancelled);

 private:
  struct Entry {
    std::shared_ptr<SupervisedRequest> request;
    std::shared_ptr<EventQueue> queue;  // kept until the request is connected
    uint64_t tag = 0;
    std::vector<uint64_t> parts;  // numbers of its parts in this launch
    int launches = 0;
    bool cancel_sent = false;
    bool is_fresh = false;    // this launch has the request, and has sent no token of it
    bool died_fresh = false;  // value of is_fresh when the launch was lost
    int deaths = 0;           // launches in a row that died while is_fresh; above 0: a suspect
  };
  struct Part {
    uint64_t request = 0;
    int32_t sample = -1;
  };

  void hand_over(uint64_t id, Entry& entry);
  void connect(uint64_t id, Entry& entry);
  // Passes one suspect to the launch: they continue one at a time, after all other requests have
  // made progress.
  void hand_over_suspect();
  void cancel_parts(const Entry& entry);
  bool is_late(const Entry& entry, TimePoint now) const;
  Status late(const Entry& entry) const;

  const SupervisorOptions& options_;
  const LaunchAvailability& launch_;
  LaunchCalls& calls_;
  const EngineSideOf engine_side_;
  std::map<uint64_t, Entry> requests_;
  std::map<uint64_t, Part> parts_;
};

}  // namespace forerun
