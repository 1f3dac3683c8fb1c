#include "engine/info/load_meter.h"

#include <algorithm>
#include <string>
#include <utility>

namespace forerun {
namespace {

// Number of ended requests from which the rate of ends is computed.
constexpr size_t kEnds = 32;
constexpr double kSoonest_s = 0.01;
constexpr double kUnknown_s = 1.0;
constexpr double kLatest_s = 30.0;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void RateMeter::add(double now_s, int64_t count) {
  const auto second = static_cast<int64_t>(now_s);
  Second& place = seconds_[static_cast<size_t>(second % kWindow)];
  if (place.second != second) place = {second, 0};
  place.count += count;
}

double RateMeter::per_s(double now_s) const {
  // The current second has only begun; the first second of the window counts as whole.
  const auto first = static_cast<int64_t>(now_s) - kWindow + 1;
  int64_t count = 0;
  for (const Second& place : seconds_) {
    if (place.second >= first) count += place.count;
  }
  const double begin_s = std::max(static_cast<double>(first), start_s_);
  return count == 0 ? 0.0 : static_cast<double>(count) / std::max(now_s - begin_s, 1e-3);
}

LoadMeter::LoadMeter(int64_t limit) : limit_(limit), output_(now_s()), prompt_(now_s()) {}

void LoadMeter::Place::give_back() {
  LoadMeter* const meter = std::exchange(meter_, nullptr);
  if (meter == nullptr) return;
  const std::lock_guard lock(meter->mutex_);
  --meter->places_;
  ++meter->load_.ended_requests;
  if (meter->ends_s_.size() == kEnds) meter->ends_s_.pop_front();
  meter->ends_s_.push_back(now_s());
}

// Returns the time until `places` places are free, at the rate at which requests have ended lately.
std::chrono::milliseconds LoadMeter::retry_after(int32_t places, double now) const {
  double wait_s = kUnknown_s;
  if (!ends_s_.empty()) {
    wait_s = places * (now - ends_s_.front()) / static_cast<double>(ends_s_.size());
  }
  return std::chrono::milliseconds(
      static_cast<int64_t>(1000.0 * std::clamp(wait_s, kSoonest_s, kLatest_s)));
}

Result<std::vector<LoadMeter::Place>> LoadMeter::take_places(int32_t count) {
  std::vector<Place> places;
  places.reserve(static_cast<size_t>(count));
  {
    const std::lock_guard lock(mutex_);
    if (limit_ >= 0 && count > limit_) {
      return Status(StatusCode::kInvalidArgument,
                    "num_samples: found " + std::to_string(count) + "; accepted: up to " +
                        std::to_string(limit_) +
                        ", as many as max_active_requests and max_waiting_requests leave room for");
    }
    if (limit_ >= 0 && places_ + count > limit_) {
      return Status(StatusCode::kOverloaded, "the engine has " + std::to_string(places_) +
                                                 " running and waiting requests; accepted: up to " +
                                                 std::to_string(limit_))
          .with_retry_after(retry_after(static_cast<int32_t>(places_ + count - limit_), now_s()));
    }
    places_ += count;
  }
  for (int32_t idx = 0; idx < count; ++idx) places.emplace_back(this);
  return places;
}

void LoadMeter::set_running(size_t requests) {
  const std::lock_guard lock(mutex_);
  load_.running_requests = static_cast<int32_t>(requests);
}

void LoadMeter::note_preemption() {
  const std::lock_guard lock(mutex_);
  ++load_.preemptions;
}

void LoadMeter::note_draft_fault() {
  const std::lock_guard lock(mutex_);
  ++load_.draft_faults;
}

void LoadMeter::note_prompt(int64_t computed_tokens, int64_t reused_tokens) {
  const std::lock_guard lock(mutex_);
  load_.prompt_tokens += computed_tokens;
  load_.reused_prompt_tokens += reused_tokens;
  prompt_.add(now_s(), computed_tokens);
}

void LoadMeter::note_progress(const char* strategy, int64_t output_tokens,
                              const StrategyStats& before, const StrategyStats& now) {
  const std::lock_guard lock(mutex_);
  load_.output_tokens += output_tokens;
  output_.add(now_s(), output_tokens);
  auto found = std::find_if(load_.strategies.begin(), load_.strategies.end(),
                            [&](const StrategyLoad& of) { return of.strategy == strategy; });
  if (found == load_.strategies.end()) {
    load_.strategies.push_back({.strategy = strategy});
    found = load_.strategies.end() - 1;
  }
  found->output_tokens += output_tokens;
  found->target_steps += now.target_steps - before.target_steps;
  found->drafted_tokens += now.drafted_tokens - before.drafted_tokens;
  found->accepted_tokens += now.accepted_tokens - before.accepted_tokens;
}

EngineLoad LoadMeter::load() const {
  const double now = now_s();
  const std::lock_guard lock(mutex_);
  EngineLoad load = load_;
  load.waiting_requests =
      static_cast<int32_t>(std::max<int64_t>(places_ - load.running_requests, 0));
  load.output_tokens_per_s = output_.per_s(now);
  load.prompt_tokens_per_s = prompt_.per_s(now);
  return load;
}

}  // namespace forerun
