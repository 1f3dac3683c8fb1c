// One request from submission to its last event: its tokens, its text, when it ends. Knows nothing
// of executors; the loop feeds it tokens.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "engine/event_queue.h"
#include "engine/load_meter.h"
#include "engine/stop_matcher.h"
#include "forerun/engine.h"
#include "step/token_constraint.h"
#include "strategies/speculation_plan.h"
#include "strategies/strategy.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace forerun {

using Clock = std::chrono::steady_clock;

class ActiveRequest {
 public:
  // `request.prompt_tokens` is filled and checked; `sampling` is what request.sampling came to, and
  // `constraint` what its output format did; `eos` are the checkpoint's end tokens.
  ActiveRequest(Request request, SamplingParams sampling,
                std::shared_ptr<const TokenConstraint> constraint,
                std::shared_ptr<const SpeculationPlan> plan, const Tokenizer& tokenizer,
                const std::vector<int32_t>& eos);
  // Not finished: it is dropped for lack of memory, and its reader is told so.
  ~ActiveRequest();
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;
  // Takes request.resume_tokens as what had been emitted. Fails where one but the last of them
  // would have ended the request.
  Status resume();
  // It had ended before: finish() is all that is left to do.
  bool is_over() const { return is_over_; }
  // Before anything is sent. `place` is given back when the request has ended.
  void connect(std::shared_ptr<EventStream> stream, LoadMeter::Place place = {});

  const Request& request() const { return request_; }
  const SamplingParams& sampling() const { return sampling_; }
  const std::shared_ptr<const TokenConstraint>& constraint() const { return constraint_; }
  // How it speculates: its own options or the engine's, resolved.
  const SpeculationPlan& plan() const { return *plan_; }
  // The one that its reader asked for; plan() is another one where the engine has chosen it.
  const std::shared_ptr<const SpeculationPlan>& usual_plan() const { return usual_plan_; }
  // Takes the plan that its reader asks for by now; false where that is none or the usual one.
  bool take_wanted_plan();
  // The engine's choice: while it waits to begin, and since then. False where that is its plan.
  void begin_with(std::shared_ptr<const SpeculationPlan> plan) { plan_ = std::move(plan); }
  bool follow(const std::shared_ptr<const SpeculationPlan>& plan);
  EventStream& stream() { return *stream_; }
  // Whether its prompt is still to be scored.
  bool wants_scores() const { return sampling_.prompt_logprobs >= 0 && !has_scores_; }
  // Prompt and what has been emitted so far: what a rebuilt request starts from.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  int32_t prompt_size() const { return prompt_size_; }
  // Longest length the sequence may reach: what reads a prompt draws the token after it.
  int32_t max_tokens() const { return prompt_size_ + std::max(request_.max_new_tokens, 1); }
  std::optional<Clock::time_point> deadline() const { return deadline_; }

  // Takes what a strategy emitted, up to the first token that ends the request. Returns whether the
  // request has ended. What is not needed for that answer is left to send(). `now`: when that was.
  bool accept(StrategyOutput& out, Clock::time_point now);
  // Sends an event of what has been accepted since the last one; none where that is nothing.
  void send();
  // Sends that and the last event. `stats` are the strategy's, over all its lives.
  void finish(FinishReason reason, Status error, const StrategyStats& stats,
              const std::string& strategy_name);
  FinishReason reason() const { return reason_; }
  void note_preemption() {
    ++preemptions_;
    for (RoleCount& count : counts_) count.has_read_text = false;
    has_read_ = false;
  }
  // What a result tells beside its rows: what it took, what needed not be run, and how likely the
  // prompt was. Before accept().
  void note(const WorkResult& result, LoadMeter* load = nullptr);
  // Tells `load` what has come since the last call; `stats` as in finish().
  void report(LoadMeter& load, const char* strategy_name, const StrategyStats& stats);

 private:
  // Adds one token to the next event; true if it ends the request.
  bool accept_token(EmittedToken& token);
  // As text, behind what may be a part of a stop string.
  std::string text_of(TokenId token) {
    return stop_matcher_.push(detokenizer_.push(token), may_stop());
  }
  // Whether stop strings are looked for in the text of the last token.
  bool may_stop() const {
    return static_cast<int32_t>(tokens_.size()) - prompt_size_ > request_.min_new_tokens;
  }

  Request request_;
  const SamplingParams sampling_;
  const std::shared_ptr<const TokenConstraint> constraint_;
  std::shared_ptr<const SpeculationPlan> plan_;
  std::shared_ptr<const SpeculationPlan> usual_plan_;
  std::vector<int32_t> end_tokens_;  // sorted
  std::vector<int32_t> own_ends_;  // the request's own end tokens, those of the checkpoint left out
  std::shared_ptr<EventStream> stream_;
  Detokenizer detokenizer_;
  StopMatcher stop_matcher_;
  std::vector<TokenId> tokens_;
  int32_t prompt_size_;
  int32_t preemptions_ = 0;
  int32_t strategy_changes_ = 0;
  bool is_over_ = false;
  bool is_finished_ = false;
  bool has_read_ = false;  // the target has read its text, in this life
  bool has_scores_ = false;
  LoadMeter::Place place_;
  size_t reported_tokens_;  // of tokens_
  StrategyStats reported_;
  // By role. The first result of either reads the prompt and counts for no Step.
  struct RoleCount {
    int32_t reused_rows = 0;
    bool has_read_text = false;  // the first result, also after a preemption
    int32_t steps = 0;
    double step_seconds = 0.0;

    double mean_step_s() const { return steps > 0 ? step_seconds / steps : 0.0; }
  };
  std::array<RoleCount, kNumRoles> counts_;
  FinishReason reason_ = FinishReason::kLength;
  int32_t stop_token_ = -1;  // the one of own_ends_ that ended the output; -1: none did
  Event next_event_;
  std::vector<TokenId> without_text_;  // of its tokens, those whose text is still to come

  Clock::time_point submitted_;
  std::optional<Clock::time_point> first_token_, last_token_, deadline_;
};

}  // namespace forerun
