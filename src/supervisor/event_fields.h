// The fields of the structs that an engine sends, one list for each struct (json_structs.h). For
// message.cc.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "forerun/engine.h"
#include "supervisor/message.h"
#include "supervisor/request_fields.h"

namespace forerun {

template <class Visitor>
void visit_fields(Visitor& visit, TokenLogprob& logprob) {
  visit("token", logprob.token);
  visit("logprob", logprob.logprob);
}

template <class Visitor>
void visit_fields(Visitor& visit, SpeculationRound::Node& node) {
  visit("token", node.token);
  visit("parent", node.parent);
  visit("logprob", node.logprob);
  visit("accepted", node.accepted);
  visit("origin", node.origin);
  if (node.origin > GuessOrigin::kSelf) node.origin = GuessOrigin::kModel;
}

template <class Visitor>
void visit_fields(Visitor& visit, SpeculationRound& round) {
  visit("nodes", round.nodes);
  visit("bonus", round.bonus);
}

template <class Visitor>
void visit_fields(Visitor& visit, RequestStats& stats) {
  visit("prompt_tokens", stats.prompt_tokens);
  visit("output_tokens", stats.output_tokens);
  visit("resumed_tokens", stats.resumed_tokens);
  visit("seed", stats.seed);
  visit("reused_tokens", stats.reused_tokens);
  visit("draft_reused_tokens", stats.draft_reused_tokens);
  visit("target_steps", stats.target_steps);
  visit("draft_steps", stats.draft_steps);
  visit("target_step_s", stats.target_step_s);
  visit("draft_step_s", stats.draft_step_s);
  visit("drafted_tokens", stats.drafted_tokens);
  visit("accepted_tokens", stats.accepted_tokens);
  visit("preemptions", stats.preemptions);
  visit("time_to_first_token_s", stats.time_to_first_token_s);
  visit("decode_s", stats.decode_s);
  visit("strategy", stats.strategy);
  visit("strategy_changes", stats.strategy_changes);
}

// A Status has no fields to visit: its parts go through a struct that has.
struct StatusParts {
  StatusCode code = StatusCode::kOk;
  std::string message;
  std::chrono::milliseconds retry_after{0};
};

template <class Visitor>
void visit_fields(Visitor& visit, StatusParts& parts) {
  visit("code", parts.code);
  visit("message", parts.message);
  visit("retry_after", parts.retry_after);
}

template <class Visitor>
void visit_fields(Visitor& visit, Status& status) {
  StatusParts parts{status.code(), status.message(), status.retry_after()};
  visit_fields(visit, parts);
  const bool known = parts.code <= StatusCode::kOverloaded;
  status = parts.code == StatusCode::kOk
               ? Status()
               : Status(known ? parts.code : StatusCode::kInternal, std::move(parts.message))
                     .with_retry_after(parts.retry_after);
}

template <class Visitor>
void visit_fields(Visitor& visit, Event& event) {
  visit("sample_idx", event.sample_idx);
  visit("text", event.text);
  visit("tokens", event.tokens);
  visit("drafted", event.drafted);
  visit("time_s", event.time_s);
  visit("logprobs", event.logprobs);
  visit("prompt_logprobs", event.prompt_logprobs);
  visit("rounds", event.rounds);
  visit("finished", event.finished);
  if (!event.finished) return;
  visit("reason", event.reason);
  visit("stop_text", event.stop_text);
  visit("stop_token", event.stop_token);
  visit("error", event.error);
  visit("stats", event.stats);
  if (event.reason > FinishReason::kError) event.reason = FinishReason::kError;
}

template <class Visitor>
void visit_fields(Visitor& visit, KvLoad& load) {
  visit("used_blocks", load.used_blocks);
  visit("total_blocks", load.total_blocks);
  visit("block_tokens", load.block_tokens);
}

template <class Visitor>
void visit_fields(Visitor& visit, StrategyLoad& load) {
  visit("strategy", load.strategy);
  visit("output_tokens", load.output_tokens);
  visit("target_steps", load.target_steps);
  visit("drafted_tokens", load.drafted_tokens);
  visit("accepted_tokens", load.accepted_tokens);
}

template <class Visitor>
void visit_fields(Visitor& visit, EngineLoad& load) {
  visit("condition", load.condition);
  if (load.condition > EngineCondition::kGivenUp) {
    visit.fail("condition", "0 to 2");
    load.condition = EngineCondition::kServing;
  }
  visit("condition_reason", load.condition_reason);
  visit("running_requests", load.running_requests);
  visit("waiting_requests", load.waiting_requests);
  visit("target_kv", load.target_kv);
  visit("draft_kv", load.draft_kv);
  visit("output_tokens_per_s", load.output_tokens_per_s);
  visit("prompt_tokens_per_s", load.prompt_tokens_per_s);
  visit("output_tokens", load.output_tokens);
  visit("prompt_tokens", load.prompt_tokens);
  visit("reused_prompt_tokens", load.reused_prompt_tokens);
  visit("ended_requests", load.ended_requests);
  visit("preemptions", load.preemptions);
  visit("draft_faults", load.draft_faults);
  visit("strategies", load.strategies);
}

template <class Visitor>
void visit_fields(Visitor& visit, EmulationStats& stats) {
  visit("steps", stats.steps);
  visit("late_steps", stats.late_steps);
  visit("late_seconds", stats.late_seconds);
}

template <class Visitor>
void visit_fields(Visitor& visit, EngineState& state) {
  visit("load", state.load);
  visit("emulation", state.emulation);
  visit("kv_blocks", state.kv_blocks);
}

template <class Visitor>
void visit_fields(Visitor& visit, EngineInfo& info) {
  visit("model_name", info.model_name);
  visit("numeric_fingerprint", info.numeric_fingerprint);
  visit("emulated", info.emulated);
  visit("planner_report", info.planner_report);
  visit("max_context_tokens", info.max_context_tokens);
  visit("draft_window", info.draft_window);
  visit("vocab_size", info.vocab_size);
  visit("weight_bytes", info.weight_bytes);
  visit("kv_bytes", info.kv_bytes);
  visit("eos_token_ids", info.eos_token_ids);
  visit("default_sampling", info.default_sampling);
}

}  // namespace forerun
