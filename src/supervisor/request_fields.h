// The fields of the structs that are sent to an engine, one list for each struct (json_structs.h).
// For message.cc.
#pragma once

#include <type_traits>

#include "forerun/engine.h"
#include "forerun/sampling_fields.h"
#include "forerun/speculation_fields.h"

namespace forerun {

template <class Visitor>
void visit_fields(Visitor& visit, SpeculationOptions& options) {
  for (const SpeculationField& field : kSpeculationFields) {
    if (field.text != nullptr) visit(field.name, options.*field.text);
    if (field.number != nullptr) visit(field.name, options.*field.number);
    if (field.flag != nullptr) visit(field.name, options.*field.flag);
  }
}

template <class Visitor>
void visit_fields(Visitor& visit, EngineOptions& options) {
  visit("model", options.model);
  visit("draft", options.draft);
  visit("speculation", options.speculation);
  visit("devices", options.devices);
  visit("stages", options.stages);
  visit("stage_layers", options.stage_layers);
  visit("draft_devices", options.draft_devices);
  visit("try_splits", options.try_splits);
  visit("weights", options.weights);
  visit("draft_weights", options.draft_weights);
  visit("activations", options.activations);
  visit("max_context_tokens", options.max_context_tokens);
  visit("max_active_requests", options.max_active_requests);
  visit("max_waiting_requests", options.max_waiting_requests);
  visit("priority_ageing_s", options.priority_ageing_s);
  visit("max_logprobs", options.max_logprobs);
  visit("kv_memory_bytes", options.kv_memory_bytes);
  visit("draft_window", options.draft_window);
  visit("share_prefixes", options.share_prefixes);
  visit("step_budget_ms", options.step_budget_ms);
  visit("cost_cache", options.cost_cache);
  visit("measure_anew", options.measure_anew);
  visit("emulate", options.emulate);
  visit("trace", options.trace);
}

// SamplingOptions and SamplingParams have the same fields; the former's may be unset.
template <class Visitor, class Sampling>
void visit_sampling(Visitor& visit, Sampling& sampling) {
  for_each_sampling_field([&](const auto& field) {
    if constexpr (std::is_same_v<Sampling, SamplingOptions>) {
      visit(field.name, sampling.*field.option);
    } else {
      visit(field.name, sampling.*field.param);
    }
  });
  visit("logit_bias", sampling.logit_bias);
  visit("seed", sampling.seed);
  visit("logprobs", sampling.logprobs);
  visit("prompt_logprobs", sampling.prompt_logprobs);
}

template <class Visitor>
void visit_fields(Visitor& visit, SamplingOptions& sampling) {
  visit_sampling(visit, sampling);
}

template <class Visitor>
void visit_fields(Visitor& visit, SamplingParams& sampling) {
  visit_sampling(visit, sampling);
}

template <class Visitor>
void visit_fields(Visitor& visit, OutputReasoning& reasoning) {
  visit("close", reasoning.close);
  visit("open", reasoning.open);
}

template <class Visitor>
void visit_fields(Visitor& visit, OutputFormat& format) {
  visit("kind", format.kind);
  visit("text", format.text);
  visit("schemas", format.schemas);
  visit("reasoning", format.reasoning);
  if (format.kind > OutputFormat::Kind::kRegex) {
    visit.fail("kind", "0 to 4");
    format.kind = OutputFormat::Kind::kAny;
  }
}

template <class Visitor>
void visit_fields(Visitor& visit, Request& request) {
  visit("prompt", request.prompt);
  visit("prompt_tokens", request.prompt_tokens);
  visit("add_special_tokens", request.add_special_tokens);
  visit("resume_tokens", request.resume_tokens);
  visit("sampling", request.sampling);
  visit("output_format", request.output_format);
  visit("cache_salt", request.cache_salt);
  visit("num_samples", request.num_samples);
  visit("max_new_tokens", request.max_new_tokens);
  visit("min_new_tokens", request.min_new_tokens);
  visit("stop", request.stop);
  visit("keep_stop", request.keep_stop);
  visit("stop_tokens", request.stop_tokens);
  visit("ignore_eos", request.ignore_eos);
  visit("skip_special_tokens", request.skip_special_tokens);
  visit("deadline", request.deadline);
  visit("priority", request.priority);
  visit("speculation", request.speculation);
  visit("record_rounds", request.record_rounds);
  visit("share_prefix", request.share_prefix);
}

}  // namespace forerun
