// One request from submission to its last event: its tokens, its text, and its end. It does not use
// executors; the loop passes tokens to it.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "engine/info/load_meter.h"
#include "engine/loop/event_queue.h"
#include "engine/loop/stop_matcher.h"
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
  // `request.prompt_tokens` must be filled and checked. `sampling` is request.sampling, resolved;
  // `constraint` is that of its output format; `eos` are the checkpoint's end tokens.
  ActiveRequest(Request request, SamplingParams sampling,
                std::shared_ptr<const TokenConstraint> constraint,
                std::shared_ptr<const SpeculationPlan> plan, const Tokenizer& tokenizer,
                const std::vector<int32_t>& eos);
  // If the request is not finished, its reader receives the error that memory ran out.
  ~ActiveRequest();
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;
  // Takes request.resume_tokens as tokens that have been emitted. Fails if a token other than the
  // last would have ended the request.
  Status resume();
  // Returns whether the resumed tokens have already ended the request, so that only finish() is
  // left to do.
  bool is_over() const { return is_over_; }
  // Must be called before any event is sent. `place` is given back when the request has ended.
  void connect(std::shared_ptr<EventStream> stream, LoadMeter::Place place = {});

  const Request& request() const { return request_; }
  const SamplingParams& sampling() const { return sampling_; }
  const std::shared_ptr<const TokenConstraint>& constraint() const { return constraint_; }
  // Returns the request's present plan: its own options or the engine's, resolved.
  const SpeculationPlan& plan() const { return *plan_; }
  // Returns the plan that the reader asked for; plan() differs from it if the engine has chosen
  // another.
  const std::shared_ptr<const SpeculationPlan>& usual_plan() const { return usual_plan_; }
  // Takes the plan that the reader has asked for since; returns false if there is none or it is
  // usual_plan().
  bool take_wanted_plan();
  // Both set the plan that the engine has chosen: begin_with() before the request runs, follow()
  // while it runs. follow() returns false if the request already has that plan.
  void begin_with(std::shared_ptr<const SpeculationPlan> plan) { plan_ = std::move(plan); }
  bool follow(const std::shared_ptr<const SpeculationPlan>& plan);
  EventStream& stream() { return *stream_; }
  // Returns whether its prompt is still to be scored.
  bool wants_scores() const { return sampling_.prompt_logprobs >= 0 && !has_scores_; }
  // Returns the prompt and the tokens emitted so far, from which a rebuilt request starts.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  int32_t prompt_size() const { return prompt_size_; }
  // Returns the maximum length of the sequence. At least one more than the prompt, since reading
  // the prompt samples a token.
  int32_t max_tokens() const { return prompt_size_ + std::max(request_.max_new_tokens, 1); }
  std::optional<Clock::time_point> deadline() const { return deadline_; }

  // Takes the tokens that a strategy emitted, up to the first one that ends the request. Returns
  // whether the request has ended; all other work is left to send(). `now` is the time at which the
  // tokens were emitted.
  bool accept(StrategyOutput& out, Clock::time_point now);
  // Sends an event with the output accepted since the last one, if there is any.
  void send();
  // Sends the remaining output and the last event. `stats` is the sum over all strategies of the
  // request.
  void finish(FinishReason reason, Status error, const StrategyStats& stats,
              const std::string& strategy_name);
  FinishReason reason() const { return reason_; }
  void note_preemption() {
    ++preemptions_;
    for (RoleCount& count : counts_) count.has_read_text = false;
    has_read_ = false;
  }
  // Notes the facts of a result other than its rows: its duration, the rows reused from the cache,
  // and the prompt's log-probabilities. Must be called before accept().
  void note(const WorkResult& result, LoadMeter* load = nullptr);
  // Reports to `load` the tokens since the last call; `stats` as in finish().
  void report(LoadMeter& load, const char* strategy_name, const StrategyStats& stats);

 private:
  // Adds one token to the next event; returns true if it ends the request.
  bool accept_token(EmittedToken& token);
  // Returns the text that may be sent after `token`: without an end that may begin a stop string.
  std::string text_of(TokenId token) {
    return stop_matcher_.push(detokenizer_.push(token), may_stop());
  }
  // Returns whether stop strings may match in the text of the last token.
  bool may_stop() const {
    return static_cast<int32_t>(tokens_.size()) - prompt_size_ > request_.min_new_tokens;
  }

  Request request_;
  const SamplingParams sampling_;
  const std::shared_ptr<const TokenConstraint> constraint_;
  std::shared_ptr<const SpeculationPlan> plan_;
  std::shared_ptr<const SpeculationPlan> usual_plan_;
  std::vector<int32_t> end_tokens_;  // sorted
  std::vector<int32_t> own_ends_;    // end tokens of the request that are not the checkpoint's
  std::shared_ptr<EventStream> stream_;
  Detokenizer detokenizer_;
  StopMatcher stop_matcher_;
  std::vector<TokenId> tokens_;
  int32_t prompt_size_;
  int32_t preemptions_ = 0;
  int32_t strategy_changes_ = 0;
  bool is_over_ = false;
  bool is_finished_ = false;
  bool has_read_ = false;  // the target has read the request's text since it was last (re)built
  bool has_scores_ = false;
  LoadMeter::Place place_;
  size_t reported_tokens_;  // number of entries of tokens_ that have been reported
  StrategyStats reported_;
  // The counts of one role. The first result of a role reads the prompt and does not count as a
  // Step.
  struct RoleCount {
    int32_t reused_rows = 0;
    bool has_read_text = false;  // the first result, also after a preemption
    int32_t steps = 0;
    double step_seconds = 0.0;

    double mean_step_s() const { return steps > 0 ? step_seconds / steps : 0.0; }
  };
  std::array<RoleCount, kNumRoles> counts_;
  FinishReason reason_ = FinishReason::kLength;
  int32_t stop_token_ = -1;  // the token of own_ends_ that ended the output; -1: none
  Event next_event_;
  std::vector<TokenId> without_text_;  // tokens of next_event_ with text that is not decoded yet

  Clock::time_point submitted_;
  std::optional<Clock::time_point> first_token_, last_token_, deadline_;
};

}  // namespace forerun
