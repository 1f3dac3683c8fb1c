// The supervisor's requests: hands them to a launch, and their events to their readers.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "supervisor/launch_supervisor.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRequestPoll{50};
// A healthy launch answers at once.
constexpr milliseconds kLongestAnswer{1000};
// A launch ends its late requests itself, unless it has stalled; this leaves it time to do so.
constexpr milliseconds kLate{500};

// The answer to a question that only a launch can answer, while there is none.
Status no_launch() {
  constexpr milliseconds kComeAgain{1000};
  return Status(StatusCode::kOverloaded,
                "the launch has been lost, and the next one is not ready yet")
      .with_retry_after(kComeAgain);
}

}  // namespace

Result<EngineInfo> LaunchSupervisor::wait_until_ready() {
  std::unique_lock lock(mutex_);
  while (!was_ready_ && phase_ != Phase::kGivenUp) {
    changed_.wait_for(lock, kRequestPoll);
    const auto progress = std::exchange(progress_, std::nullopt);
    lock.unlock();
    if (progress && options_.engine.on_progress) {
      options_.engine.on_progress(progress->first, progress->second);
    }
    if (options_.is_cancelled && options_.is_cancelled()) stop();
    lock.lock();
  }
  if (!was_ready_) return given_up_;
  return info_;
}

Result<std::shared_ptr<RequestChannel>> LaunchSupervisor::submit(Request request,
                                                                 std::shared_ptr<EventQueue> queue,
                                                                 uint64_t tag) {
  std::unique_lock lock(mutex_);
  if (stopping_) return Status(StatusCode::kCancelled, "the engine is gone");
  if (phase_ == Phase::kGivenUp) return given_up_;
  const EngineOptions& engine = options_.engine;
  const int64_t room = int64_t{engine.max_active_requests} + engine.max_waiting_requests;
  const bool is_limited = engine.max_waiting_requests >= 0;
  if (phase_ != Phase::kReady && is_limited && num_samples() + request.num_samples > room) {
    return no_launch();
  }
  const uint64_t id = ++last_id_;
  const auto supervised = std::make_shared<SupervisedRequest>(std::move(request));
  Entry& entry = requests_[id];
  entry.request = supervised;
  entry.queue = std::move(queue);
  entry.tag = tag;
  if (phase_ != Phase::kReady) {
    connect(id, entry);
    return supervised->channel();
  }
  entry.launches = 1;
  entry.is_fresh = true;
  DownMessage message;
  message.kind = DownMessage::Kind::kSubmit;
  message.id = ++last_id_;
  message.request = supervised->parts(!has_draft_).front().first;
  parts_[message.id] = {id, -1};
  entry.parts = {message.id};
  const Call answered = call(lock, std::move(message), id);
  if (answered.state == CallState::kAnswered && !answered.status.ok()) {
    erase(id);
    return answered.status;
  }
  // The launch has not answered in time: the request waits for its answer, or for the next launch.
  if (const auto found = requests_.find(id); found != requests_.end() && found->second.queue) {
    connect(id, found->second);
  }
  return supervised->channel();
}

LaunchSupervisor::Call LaunchSupervisor::call(std::unique_lock<std::mutex>& lock,
                                              DownMessage message, uint64_t connects) {
  // A call that submits is numbered by its part of the request, since its answer may come when no
  // call waits for it any more.
  const uint64_t id = connects != 0 ? message.id : ++last_id_;
  message.call = id;
  calls_[id].connects = connects;
  outbox_.push_back(std::move(message));
  waker_->wake();
  const auto is_over = [&] { return calls_.at(id).state != CallState::kAsked; };
  if (connects != 0) {
    changed_.wait_for(lock, kLongestAnswer, is_over);
  } else {
    // A launch that does not answer is lost by its silence, and the supervisor's thread then ends
    // this wait.
    changed_.wait(lock, is_over);
  }
  Call answered = std::move(calls_.at(id));
  calls_.erase(id);
  return answered;
}

void LaunchSupervisor::answer(uint64_t call, const Status& status, bool result) {
  if (const auto waiting = calls_.find(call); waiting != calls_.end()) {
    waiting->second.state = CallState::kAnswered;
    waiting->second.status = status;
    waiting->second.result = result;
    const auto accepted = requests_.find(waiting->second.connects);
    if (status.ok() && accepted != requests_.end()) connect(accepted->first, accepted->second);
    changed_.notify_all();
    return;
  }
  // The request goes on from an earlier launch, or its submitter has stopped waiting for this
  // answer: a refusal ends it.
  const auto part = parts_.find(call);
  if (part == parts_.end() || status.ok()) return;
  const uint64_t id = part->second.request;
  Entry& entry = requests_.at(id);
  cancel_parts(entry);
  entry.request->end(FinishReason::kError, status);
  erase(id);
}

void LaunchSupervisor::connect(uint64_t id, Entry& entry) {
  using PlanPtr = RequestChannel::PlanPtr;
  const auto change = [supervisor = weak_from_this(),
                       id](const SpeculationOptions& options) -> Result<PlanPtr> {
    const std::shared_ptr<LaunchSupervisor> there = supervisor.lock();
    if (there == nullptr) return PlanPtr();  // it has ended
    FORERUN_RETURN_IF_ERROR(there->change_speculation(id, options));
    return PlanPtr();
  };
  entry.request->connect(std::exchange(entry.queue, nullptr), entry.tag,
                         {[waker = waker_] { waker->wake(); }, change});
}

void LaunchSupervisor::be_ready(EngineInfo&& info) {
  if (!was_ready_) info_ = std::move(info);
  was_ready_ = true;
  phase_ = Phase::kReady;
  lost_at_.reset();
  has_failed_again_ = false;
  away_.clear();
  state_ = {};
  policy_.note_ready(Clock::now());
  for (auto& [id, entry] : requests_) {
    if (entry.deaths == 0) hand_over(id, entry);
  }
  log_line(LogLevel::kInfo,
           "the launch is up; requests that wait for it: " + std::to_string(requests_.size()));
  changed_.notify_all();
}

void LaunchSupervisor::hand_over(uint64_t id, Entry& entry) {
  ++entry.launches;
  entry.is_fresh = true;
  for (auto& [request, sample] : entry.request->parts(!has_draft_)) {
    DownMessage message;
    message.kind = DownMessage::Kind::kSubmit;
    message.id = message.call = ++last_id_;
    message.request = std::move(request);
    parts_[message.id] = {id, sample};
    entry.parts.push_back(message.id);
    outbox_.push_back(std::move(message));
  }
}

void LaunchSupervisor::hand_over_suspect() {
  if (phase_ != Phase::kReady || !options_.doubts_requests) return;
  for (const auto& [id, entry] : requests_) {
    if (!entry.parts.empty() && entry.is_fresh) return;
  }
  for (auto& [id, entry] : requests_) {
    if (entry.deaths == 0 || !entry.parts.empty()) continue;
    return hand_over(id, entry);
  }
}

bool LaunchSupervisor::has_trial() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(requests_.begin(), requests_.end(), [](const auto& each) {
    const Entry& entry = each.second;
    return entry.deaths > 0 && entry.is_fresh && !entry.parts.empty();
  });
}

void LaunchSupervisor::doubt_requests(const LaunchFailure& failure) {
  const bool has_died = is_death(failure);
  std::vector<uint64_t> failed;
  for (auto& [id, entry] : requests_) {
    if (!std::exchange(entry.died_fresh, false) || !has_died) continue;
    if (++entry.deaths < SupervisorOptions::kMaxDeaths) continue;
    entry.request->end(FinishReason::kError,
                       Status(StatusCode::kInternal,
                              std::to_string(entry.deaths) +
                                  " processes in a row have died with this request before it put "
                                  "out a token, and it is not tried again; at last: " +
                                  failure.status.message()));
    failed.push_back(id);
  }
  for (const uint64_t id : failed) erase(id);
}

std::optional<LaunchFailure> LaunchSupervisor::take_event(UpMessage&& message) {
  const auto part = parts_.find(message.id);
  if (part == parts_.end()) return std::nullopt;
  const auto [id, sample] = part->second;
  Entry& entry = requests_.at(id);
  Event& event = message.event;
  if (entry.queue != nullptr) return std::nullopt;  // before its answer: no launch of ours
  // A defect or a device's error: a new process may do better, and if not it is the request's.
  const bool has_failed = event.finished && event.reason == FinishReason::kError &&
                          event.error.code() == StatusCode::kInternal;
  if (has_failed && entry.request->may_try_again()) {
    return LaunchFailure{.status = event.error, .rank = {}};
  }
  if (!event.tokens.empty() || event.finished) {
    entry.is_fresh = false;
    entry.deaths = 0;
  }
  if (!event.tokens.empty()) policy_.note_progress();
  entry.request->take(std::move(event), sample, entry.launches);
  if (entry.request->has_finished()) erase(id);
  return std::nullopt;
}

void LaunchSupervisor::look_after_requests() {
  const Clock::time_point now = Clock::now();
  std::vector<uint64_t> over;
  for (auto& [id, entry] : requests_) {
    if (entry.queue != nullptr) continue;
    const bool is_cancelled = entry.request->is_cancelled();
    if (!entry.parts.empty() && is_cancelled) {
      if (!std::exchange(entry.cancel_sent, true)) cancel_parts(entry);
    } else if (is_cancelled) {
      entry.request->end(FinishReason::kCancelled, Status());
      over.push_back(id);
    } else if (is_late(entry, now)) {
      cancel_parts(entry);
      entry.request->end(FinishReason::kError, late(entry));
      over.push_back(id);
    }
  }
  for (const uint64_t id : over) erase(id);
  hand_over_suspect();
}

bool LaunchSupervisor::is_late(const Entry& entry, Clock::time_point now) const {
  if (!entry.parts.empty()) return entry.request->is_late(now - kLate);
  if (entry.request->has_deadline()) return entry.request->is_late(now);
  return lost_at_ && now - std::max(*lost_at_, entry.request->submitted()) > options_.longest_wait;
}

Status LaunchSupervisor::late(const Entry& entry) const {
  if (entry.request->has_deadline()) {
    return entry.request->late(entry.parts.empty() ? why_waiting() : "the launch has stalled");
  }
  return Status(StatusCode::kCancelled, "there has been no launch for " +
                                            std::to_string(options_.longest_wait.count() / 1000) +
                                            " s, and requests wait no longer: " + why_waiting());
}

void LaunchSupervisor::cancel_parts(const Entry& entry) {
  for (const uint64_t part : entry.parts) {
    DownMessage message;
    message.kind = DownMessage::Kind::kCancel;
    message.id = part;
    outbox_.push_back(std::move(message));
  }
}

void LaunchSupervisor::erase(uint64_t id) {
  const auto entry = requests_.find(id);
  if (entry == requests_.end()) return;
  for (const uint64_t part : entry->second.parts) parts_.erase(part);
  requests_.erase(entry);
}

int64_t LaunchSupervisor::num_samples() const {
  int64_t samples = 0;
  for (const auto& [id, entry] : requests_) samples += entry.request->num_samples();
  return samples;
}

bool LaunchSupervisor::prepare_format(const OutputFormat& format, bool quick) {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::kReady || stopping_) return true;
  DownMessage message;
  message.kind = DownMessage::Kind::kPrepare;
  message.format = format;
  message.quick = quick;
  return call(lock, std::move(message), 0).result;
}

Status LaunchSupervisor::change_speculation(uint64_t id, const SpeculationOptions& options) {
  std::unique_lock lock(mutex_);
  const auto found = requests_.find(id);
  if (found == requests_.end()) return {};
  if (phase_ != Phase::kReady) return no_launch();
  const std::shared_ptr<SupervisedRequest> request = found->second.request;
  const std::vector<uint64_t> parts = found->second.parts;
  for (const uint64_t part : parts) {
    DownMessage message;
    message.kind = DownMessage::Kind::kSpeculation;
    message.id = part;
    message.speculation = options;
    const Call answered = call(lock, std::move(message), 0);
    if (answered.state == CallState::kLost) return no_launch();
    FORERUN_RETURN_IF_ERROR(answered.status);
  }
  request->set_speculation(options);
  return {};
}

}  // namespace forerun
