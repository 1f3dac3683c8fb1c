#include "hosts/step_deadlines.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace forerun {
namespace {

constexpr double kWorkOfWeights = 4.0;       // cost of reading the weights, in rows
constexpr double kReadBytesPerSecond = 1e8;  // bandwidth of a slow disk
constexpr double kFirstBytesPerSecond = 1e10;
constexpr double kForgotten = 0.9;
constexpr double kPatience = 10.0;
// A longer time between two calls means that this process was stopped.
constexpr std::chrono::seconds kLongestLook{2};

double seconds(StepDeadlines::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string one_decimal(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", number);
  return text;
}

}  // namespace

double work_of(std::span<const StepRow> rows, const ModelConfig& config) {
  // `layer`: multiplications by a layer's weights per row. `per_token`: multiplications of
  // attention per token that the row attends to, relative to `layer`.
  const double hidden = config.hidden_size;
  const double heads = static_cast<double>(config.num_heads) * config.head_dim;
  const double kv_heads = static_cast<double>(config.num_kv_heads) * config.head_dim;
  const double layer = hidden * (2.0 * heads + 2.0 * kv_heads + 3.0 * config.intermediate_size);
  const double per_token = layer > 0.0 ? 2.0 * heads / layer : 0.0;
  double work = kWorkOfWeights;
  for (const StepRow& row : rows) work += 1.0 + per_token * row.visible;
  return work;
}

StepDeadlines::StepDeadlines(int32_t num_stages, const StepDeadlineOptions& options)
    : floor_(options.floor), stages_(static_cast<size_t>(num_stages)) {
  for (size_t idx = 0; idx < std::min(stages_.size(), options.weight_bytes.size()); ++idx) {
    const auto bytes = static_cast<double>(options.weight_bytes[idx]);
    stages_[idx].read_seconds = bytes / kReadBytesPerSecond;
    stages_[idx].seconds_per_work = bytes / kFirstBytesPerSecond;
  }
}

double StepDeadlines::allowed_seconds(const Stage& stage, double work) const {
  return seconds(floor_) + stage.read_seconds + kPatience * work * stage.seconds_per_work;
}

StepDeadlines::UnderWay* StepDeadlines::find(uint64_t step) {
  if (under_way_.empty() || step < under_way_.front().step) return nullptr;
  const uint64_t idx = step - under_way_.front().step;
  return idx < under_way_.size() ? &under_way_[idx] : nullptr;
}

void StepDeadlines::issue(uint64_t step, int32_t rows, double work, Clock::time_point now) {
  UnderWay& added = under_way_.emplace_back();
  added.step = step;
  added.rows = rows;
  added.work = work;
  added.arrived.resize(stages_.size());
  added.arrived.front() = now;
}

void StepDeadlines::pass(int32_t stage, uint64_t step, Clock::time_point now) {
  UnderWay* const passed = find(step);
  if (passed == nullptr) return;
  for (auto idx = static_cast<size_t>(0); idx <= static_cast<size_t>(stage); ++idx) {
    Stage& passed_stage = stages_[idx];
    if (passed_stage.done >= step) continue;
    // Earlier stages have not reported yet, so the time of each of them is not known.
    if (idx == static_cast<size_t>(stage)) {
      const double took = seconds(now - std::max(passed_stage.done_at, passed->arrived[idx]));
      passed_stage.seconds_per_work =
          std::max(took / passed->work, kForgotten * passed_stage.seconds_per_work);
    }
    if (idx + 1 < stages_.size()) passed->arrived[idx + 1] = now;
    passed_stage.done = step;
    passed_stage.done_at = now;
  }
  while (!under_way_.empty() && under_way_.front().step <= stages_.back().done) {
    under_way_.pop_front();
  }
}

std::optional<StepDeadlines::Late> StepDeadlines::find_late(Clock::time_point now) {
  const Clock::duration pause = looked_ ? now - *looked_ : Clock::duration(0);
  looked_ = now;
  if (pause > kLongestLook) {
    for (Stage& stage : stages_) stage.done_at = now;
    for (UnderWay& under_way : under_way_)
      std::fill(under_way.arrived.begin(), under_way.arrived.end(), now);
    return std::nullopt;
  }
  for (size_t idx = 0; idx < stages_.size(); ++idx) {
    const Stage& stage = stages_[idx];
    const uint64_t next = stage.done + 1;
    const UnderWay* const step = find(next);
    if (step == nullptr || (idx > 0 && stages_[idx - 1].done < next)) continue;
    const double worked = seconds(now - std::max(stage.done_at, step->arrived[idx]));
    const double allowed = allowed_seconds(stage, step->work);
    if (worked <= allowed) continue;
    return Late{static_cast<int32_t>(idx), "has worked on Step " + std::to_string(step->step) +
                                               " (" + std::to_string(step->rows) + " rows) for " +
                                               one_decimal(worked) + " s; accepted: at most " +
                                               one_decimal(allowed) + " s"};
  }
  return std::nullopt;
}

}  // namespace forerun
