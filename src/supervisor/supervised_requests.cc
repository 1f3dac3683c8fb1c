#include "supervisor/supervised_requests.h"

#include <algorithm>
#include <string>
#include <utility>

namespace forerun {
namespace {

// A launch ends its late requests itself, unless it has stalled; this gives it time to do so.
constexpr std::chrono::milliseconds kLate{500};

}  // namespace

uint64_t SupervisedRequests::add(Request request, std::shared_ptr<EventQueue> queue, uint64_t tag) {
  const uint64_t id = calls_.new_id();
  Entry& entry = requests_[id];
  entry.request = std::make_shared<SupervisedRequest>(std::move(request));
  entry.queue = std::move(queue);
  entry.tag = tag;
  return id;
}

uint64_t SupervisedRequests::hand_over_new(uint64_t id) {
  Entry& entry = requests_.at(id);
  hand_over(id, entry);
  return entry.parts.front();
}

void SupervisedRequests::hand_over(uint64_t id, Entry& entry) {
  ++entry.launches;
  entry.is_fresh = true;
  for (auto& [request, sample] : entry.request->parts(!launch_.has_draft())) {
    DownMessage message;
    message.kind = DownMessage::Kind::kSubmit;
    // The answer may arrive when no call waits for it any more, so it carries the part's number.
    message.id = message.call = calls_.new_id();
    message.request = std::move(request);
    parts_[message.id] = {id, sample};
    entry.parts.push_back(message.id);
    calls_.queue(std::move(message));
  }
}

void SupervisedRequests::hand_over_all() {
  for (auto& [id, entry] : requests_) {
    if (entry.deaths == 0) hand_over(id, entry);
  }
}

void SupervisedRequests::hand_over_suspect() {
  if (!launch_.is_ready() || !options_.doubts_requests) return;
  for (const auto& [id, entry] : requests_) {
    if (!entry.parts.empty() && entry.is_fresh) return;
  }
  for (auto& [id, entry] : requests_) {
    if (entry.deaths == 0 || !entry.parts.empty()) continue;
    return hand_over(id, entry);
  }
}

void SupervisedRequests::connect(uint64_t id) {
  const auto found = requests_.find(id);
  if (found != requests_.end() && found->second.queue != nullptr) connect(id, found->second);
}

void SupervisedRequests::connect(uint64_t id, Entry& entry) {
  entry.request->connect(std::exchange(entry.queue, nullptr), entry.tag, engine_side_(id));
}

void SupervisedRequests::erase(uint64_t id) {
  const auto entry = requests_.find(id);
  if (entry == requests_.end()) return;
  for (const uint64_t part : entry->second.parts) parts_.erase(part);
  requests_.erase(entry);
}

int64_t SupervisedRequests::num_samples() const {
  int64_t samples = 0;
  for (const auto& [id, entry] : requests_) samples += entry.request->num_samples();
  return samples;
}

std::shared_ptr<SupervisedRequest> SupervisedRequests::find(uint64_t id) const {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second.request;
}

void SupervisedRequests::take_answer(uint64_t part, const Status& status) {
  const auto found = parts_.find(part);
  if (found == parts_.end()) return;
  const uint64_t id = found->second.request;
  Entry& entry = requests_.at(id);
  const bool has_submitter = entry.queue != nullptr;
  if (status.ok() && has_submitter) return connect(id, entry);
  // If a submitter still waits, its call reports the refusal. Otherwise the request continues from
  // an earlier launch, or its submitter no longer waits: the refusal ends it.
  if (status.ok() || has_submitter) return;
  cancel_parts(entry);
  entry.request->end(FinishReason::kError, status);
  erase(id);
}

SupervisedRequests::Taken SupervisedRequests::take_event(UpMessage&& message) {
  const auto part = parts_.find(message.id);
  if (part == parts_.end()) return {};
  const auto [id, sample] = part->second;
  Entry& entry = requests_.at(id);
  Event& event = message.event;
  if (entry.queue != nullptr) return {};  // before the launch's answer: not an event of this launch
  // A defect or a device's error: a new process may succeed, and if not, the request is at fault.
  const bool has_failed = event.finished && event.reason == FinishReason::kError &&
                          event.error.code() == StatusCode::kInternal;
  if (has_failed && entry.request->may_try_again()) {
    return {.failure = LaunchFailure{.status = event.error, .rank = {}}};
  }
  const bool has_tokens = !event.tokens.empty();
  if (has_tokens || event.finished) {
    entry.is_fresh = false;
    entry.deaths = 0;
  }
  entry.request->take(std::move(event), sample, entry.launches);
  if (entry.request->has_finished()) erase(id);
  return {.has_tokens = has_tokens, .failure = {}};
}

void SupervisedRequests::look_after(TimePoint now) {
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

bool SupervisedRequests::is_late(const Entry& entry, TimePoint now) const {
  if (!entry.parts.empty()) return entry.request->is_late(now - kLate);
  if (entry.request->has_deadline()) return entry.request->is_late(now);
  const std::optional<TimePoint> lost_at = launch_.lost_at();
  return lost_at && now - std::max(*lost_at, entry.request->submitted()) > options_.longest_wait;
}

Status SupervisedRequests::late(const Entry& entry) const {
  if (entry.request->has_deadline()) {
    return entry.request->late(entry.parts.empty() ? launch_.why_waiting()
                                                   : "the launch has stalled");
  }
  return Status(StatusCode::kCancelled,
                "there has been no launch for " +
                    std::to_string(options_.longest_wait.count() / 1000) +
                    " s, and requests wait no longer: " + launch_.why_waiting());
}

void SupervisedRequests::cancel_parts(const Entry& entry) {
  for (const uint64_t part : entry.parts) {
    DownMessage message;
    message.kind = DownMessage::Kind::kCancel;
    message.id = part;
    calls_.queue(std::move(message));
  }
}

void SupervisedRequests::note_loss() {
  parts_.clear();
  for (auto& [id, entry] : requests_) {
    // The launch was asked to take it and has not answered, so the next launch is asked.
    if (entry.queue != nullptr) connect(id, entry);
    entry.died_fresh = !entry.parts.empty() && entry.is_fresh;
    entry.parts.clear();
    entry.cancel_sent = false;
  }
}

bool SupervisedRequests::has_trial() const {
  return std::any_of(requests_.begin(), requests_.end(), [](const auto& each) {
    const Entry& entry = each.second;
    return entry.deaths > 0 && entry.is_fresh && !entry.parts.empty();
  });
}

void SupervisedRequests::count_death(const Status& why) {
  std::vector<uint64_t> failed;
  for (auto& [id, entry] : requests_) {
    if (!entry.died_fresh || ++entry.deaths < SupervisorOptions::kMaxDeaths) continue;
    entry.request->end(FinishReason::kError,
                       Status(StatusCode::kInternal,
                              std::to_string(entry.deaths) +
                                  " processes in a row have died with this request before it put "
                                  "out a token, and it is not tried again; at last: " +
                                  why.message()));
    failed.push_back(id);
  }
  for (const uint64_t id : failed) erase(id);
}

void SupervisedRequests::end_all(const Status& why, bool is_cancelled) {
  for (auto& [id, entry] : requests_) {
    if (entry.queue != nullptr) continue;
    const bool cancelled = is_cancelled || entry.request->is_cancelled();
    entry.request->end(cancelled ? FinishReason::kCancelled : FinishReason::kError,
                       cancelled ? Status() : why);
  }
  requests_.clear();
  parts_.clear();
}

}  // namespace forerun
