#include "engine/loop/request_turns.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace forerun {

RequestDriver::State RequestTurns::start(ScheduledRequest& running, Clock::time_point now) {
  ActiveRequest& request = *running.request;
  return running.driver.start(
      {.sequence = running.sequence,
       .tokens = request.tokens(),
       .prompt_tokens = request.prompt_size(),
       .max_tokens = request.max_tokens(),
       .sampling = request.sampling()},
      [&](StrategyOutput& out) { return request.accept(out, now); },
      [&](WorkItem item) { submit(running, std::move(item)); });
}

RequestDriver::State RequestTurns::change_strategy(ScheduledRequest& running,
                                                   Clock::time_point now) {
  running.report(load_);  // under the previous strategy's name
  running.driver.change_strategy(strategies_->make(running));
  return start(running, now);
}

RequestDriver::State RequestTurns::take(ScheduledRequest& running, WorkResult& result,
                                        TurnTimer& timer, Clock::time_point now) {
  if (result.role == Role::kDraft && result.status.code() == StatusCode::kInternal &&
      load_ != nullptr) {
    load_->note_draft_fault();
  }
  const bool goes_on =
      running.driver.state() == RequestDriver::State::kRunning && !running.draft_is_out;
  const auto accept = [&](StrategyOutput& out) {
    timer.note(out);
    if (goes_on) automatic_->observe(running.request->plan(), result, out);
    if (!result.entered) {
      running.request->note(result, load_);
      running_->note_read(running, result.role);
    }
    // Recorded for the trace only.
    if (!running.request->request().record_rounds) out.rounds.clear();
    return running.request->accept(out, now);
  };
  RequestDriver::State state = running.driver.on_result(
      result, accept, [&](WorkItem item) { submit(running, std::move(item)); });
  state = leave_out_faulty_draft(running, result, state);
  return state == RequestDriver::State::kDrained ? change_strategy(running, now) : state;
}

void RequestTurns::submit(const ScheduledRequest& running, WorkItem item) {
  item.shared_noise = running.request->plan().shared_noise;
  executor_->submit(std::move(item));
}

// Switches to a plan without the draft model, since the draft's KV is likely to hold NaN, which
// would make every later row faulty as well.
RequestDriver::State RequestTurns::leave_out_faulty_draft(ScheduledRequest& running,
                                                          const WorkResult& result,
                                                          RequestDriver::State state) {
  if (result.role != Role::kDraft || running.draft_is_out) return state;
  const auto faulty = std::find_if(result.rows.begin(), result.rows.end(),
                                   [](const RowResult& row) { return !row.status.ok(); });
  if (faulty == result.rows.end()) return state;
  running.draft_is_out = true;
  log_line(LogLevel::kWarning,
           faulty->status.message() + "; the request goes on without the draft model");
  return state == RequestDriver::State::kRunning ? running.driver.drain() : state;
}

}  // namespace forerun
