// The lists of fields of the structs that an engine sends, one list per struct
// (wire/wire_writer.h).
#pragma once

#include "forerun/engine.h"
#include "supervisor/message.h"
#include "wire/bytes.h"
#include "wire/sampling_lists.h"

namespace forerun {

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<TokenLogprob> auto& logprob) {
  visit("token", logprob.token);
  visit("logprob", logprob.logprob);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<SpeculationRound::Node> auto& node) {
  visit("token", node.token);
  visit("parent", node.parent);
  visit("logprob", node.logprob);
  visit("accepted", node.accepted);
  visit.choice("origin", node.origin, GuessOrigin::kSelf);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<SpeculationRound> auto& round) {
  visit("nodes", round.nodes);
  visit("bonus", round.bonus);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<RequestStats> auto& stats) {
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

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<Event> auto& event) {
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
  visit.choice("reason", event.reason, FinishReason::kError);
  visit("stop_text", event.stop_text);
  visit("stop_token", event.stop_token);
  visit("error", event.error);
  visit("stats", event.stats);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<KvLoad> auto& load) {
  visit("used_blocks", load.used_blocks);
  visit("total_blocks", load.total_blocks);
  visit("block_tokens", load.block_tokens);
}

// visit_totals() lists the numbers that only grow, which add_totals() (supervisor/engine_totals.h)
// adds up over launches.
template <class Visitor>
void visit_totals(Visitor& visit, MaybeConst<StrategyLoad> auto& load) {
  visit("output_tokens", load.output_tokens);
  visit("target_steps", load.target_steps);
  visit("drafted_tokens", load.drafted_tokens);
  visit("accepted_tokens", load.accepted_tokens);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<StrategyLoad> auto& load) {
  visit("strategy", load.strategy);
  visit_totals(visit, load);
}

template <class Visitor>
void visit_totals(Visitor& visit, MaybeConst<EngineLoad> auto& load) {
  visit("output_tokens", load.output_tokens);
  visit("prompt_tokens", load.prompt_tokens);
  visit("reused_prompt_tokens", load.reused_prompt_tokens);
  visit("ended_requests", load.ended_requests);
  visit("preemptions", load.preemptions);
  visit("draft_faults", load.draft_faults);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<EngineLoad> auto& load) {
  visit.choice("condition", load.condition, EngineCondition::kGivenUp);
  visit("condition_reason", load.condition_reason);
  visit("running_requests", load.running_requests);
  visit("waiting_requests", load.waiting_requests);
  visit("target_kv", load.target_kv);
  visit("draft_kv", load.draft_kv);
  visit("output_tokens_per_s", load.output_tokens_per_s);
  visit("prompt_tokens_per_s", load.prompt_tokens_per_s);
  visit_totals(visit, load);
  visit("strategies", load.strategies);
}

template <class Visitor>
void visit_totals(Visitor& visit, MaybeConst<EmulationStats> auto& stats) {
  visit("steps", stats.steps);
  visit("late_steps", stats.late_steps);
  visit("late_seconds", stats.late_seconds);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<EmulationStats> auto& stats) {
  visit_totals(visit, stats);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<EngineState> auto& state) {
  visit("load", state.load);
  visit("emulation", state.emulation);
  visit("kv_blocks", state.kv_blocks);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<EngineInfo> auto& info) {
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
