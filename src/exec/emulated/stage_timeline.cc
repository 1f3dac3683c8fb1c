#include "exec/emulated/stage_timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace forerun {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// Bytes of a message beside its hidden rows: token, position, slot and ancestors per row, and one
// header per message.
constexpr int64_t kRowHeaderBytes = 64;
constexpr int64_t kHeaderBytes = 256;

int64_t to_ns(double seconds) { return std::llround(1e9 * seconds); }

}  // namespace

StepCosts::Stages stage_costs(const StageChain& chain) {
  return {
      .count = chain.stages,
      .link_seconds = chain.latency_seconds + static_cast<double>(kHeaderBytes) / chain.bytes_per_s,
      .link_row_seconds =
          static_cast<double>(kRowHeaderBytes + chain.row_bytes) / chain.bytes_per_s};
}

StageTimeline::StageTimeline(const StageChain& chain,
                             std::function<double(const StepLoad&)> seconds)
    : chain_(chain),
      seconds_(std::move(seconds)),
      latency_ns_(to_ns(chain.latency_seconds)),
      stages_(static_cast<size_t>(chain.stages)) {}

uint64_t StageTimeline::schedule(Event event) {
  event.order = ++scheduled_;
  events_.push(event);
  return event.order;
}

int32_t StageTimeline::live_rows(const StepAt& step, size_t stage, int64_t now_ns) const {
  const int64_t known_ns = now_ns - delay_ns(stage);
  return static_cast<int32_t>(
      std::count_if(step.dropped_ns.begin(), step.dropped_ns.end(),
                    [known_ns](int64_t dropped_ns) { return dropped_ns > known_ns; }));
}

void StageTimeline::issue(uint64_t step, const StepLoad& load, std::span<const int32_t> dropped,
                          int64_t now_ns) {
  StepAt& added = steps_.emplace_back();
  added.step = step;
  added.load = load;
  added.stages.reserve(stages_.size());
  added.dropped_ns.assign(static_cast<size_t>(load.rows), kNever);
  for (const int32_t row : dropped) added.dropped_ns[static_cast<size_t>(row)] = now_ns;
  schedule({.ns = now_ns, .kind = Event::Kind::kArrives, .stage = 0, .step = step});
}

void StageTimeline::drop(std::span<const IssuedRow> rows, int64_t now_ns) {
  for (const IssuedRow& row : rows) {
    if (steps_.empty() || row.step < steps_.front().step) continue;
    int64_t& dropped_ns = at(row.step).dropped_ns[static_cast<size_t>(row.row)];
    dropped_ns = std::min(dropped_ns, now_ns);
  }
  for (size_t idx = 0; idx < stages_.size(); ++idx) {
    Stage& stage = stages_[idx];
    if (stage.step == 0) continue;
    const int64_t known_ns = now_ns + delay_ns(idx);
    if (known_ns >= stage.end_ns || live_rows(at(stage.step), idx, known_ns) > 0) continue;
    const int64_t layers = (known_ns - stage.start_ns + stage.layer_ns - 1) / stage.layer_ns;
    const int64_t end_ns = stage.start_ns + layers * stage.layer_ns;
    if (end_ns >= stage.end_ns) continue;
    stage.end_ns = end_ns;
    stage.ending =
        schedule({.ns = end_ns, .kind = Event::Kind::kEnds, .stage = idx, .step = stage.step});
  }
}

std::optional<int64_t> StageTimeline::next_ns() const {
  if (events_.empty()) return std::nullopt;
  return events_.top().ns;
}

void StageTimeline::begin(size_t stage_idx, int64_t now_ns) {
  Stage& stage = stages_[stage_idx];
  if (stage.step != 0 || stage.inbox.empty()) return;
  stage.step = stage.inbox.front();
  stage.inbox.pop_front();
  StepAt& step = at(stage.step);
  StepLoad load = step.load;
  load.rows = live_rows(step, stage_idx, now_ns);
  double seconds = 0.0;
  if (load.rows > 0) {
    load.attended_tokens = load.attended_tokens * load.rows / step.load.rows;
    load.sequences = std::min(load.sequences, load.rows);
    seconds = seconds_(load) / chain_.stages;
  }
  step.stages.push_back({.rows = load.rows, .start_ns = now_ns});
  stage.start_ns = now_ns;
  stage.layer_ns = std::max<int64_t>(1, to_ns(seconds / chain_.layers));
  stage.end_ns = now_ns + to_ns(seconds);
  stage.ending = schedule(
      {.ns = stage.end_ns, .kind = Event::Kind::kEnds, .stage = stage_idx, .step = stage.step});
}

void StageTimeline::end(size_t stage_idx, int64_t now_ns, std::vector<PipelineEvent>& events) {
  Stage& stage = stages_[stage_idx];
  const uint64_t number = std::exchange(stage.step, 0);
  if (stage_idx == 0) {
    events.push_back(
        {.kind = PipelineEvent::Kind::kEntered, .step = number, .status = {}, .end_ns = now_ns});
  }
  TraceStage& passed = at(number).stages.back();
  passed.end_ns = now_ns;
  if (stage_idx + 1 == stages_.size()) {
    passed.sent_ns = now_ns + latency_ns_;
    schedule({.ns = passed.sent_ns, .kind = Event::Kind::kReturns, .step = number});
  } else {
    const int64_t begin_ns = std::max(now_ns, stage.link_free_ns);
    const int64_t rows = live_rows(at(number), stage_idx, begin_ns);
    const int64_t bytes = kHeaderBytes + rows * (kRowHeaderBytes + chain_.row_bytes);
    stage.link_free_ns = begin_ns + to_ns(static_cast<double>(bytes) / chain_.bytes_per_s);
    passed.sent_ns = stage.link_free_ns + latency_ns_;
    schedule({.ns = passed.sent_ns,
              .kind = Event::Kind::kArrives,
              .stage = stage_idx + 1,
              .step = number});
  }
  begin(stage_idx, now_ns);
}

void StageTimeline::advance(int64_t now_ns, std::vector<PipelineEvent>& events) {
  while (!events_.empty() && events_.top().ns <= now_ns) {
    const Event event = events_.top();
    events_.pop();
    switch (event.kind) {
      case Event::Kind::kArrives:
        stages_[event.stage].inbox.push_back(event.step);
        begin(event.stage, event.ns);
        break;
      case Event::Kind::kEnds:
        if (stages_[event.stage].ending == event.order) end(event.stage, event.ns, events);
        break;
      case Event::Kind::kReturns:
        events.push_back({.kind = PipelineEvent::Kind::kRetired,
                          .step = event.step,
                          .status = {},
                          .start_ns = steps_.front().stages.front().start_ns,
                          .end_ns = event.ns,
                          .stages = std::move(steps_.front().stages)});
        steps_.pop_front();
        break;
    }
  }
}

}  // namespace forerun
