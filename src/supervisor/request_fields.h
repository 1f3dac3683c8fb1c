// The lists of fields of the structs that are sent to an engine, one list per struct
// (wire/wire_writer.h).
#pragma once

#include "forerun/engine.h"
#include "forerun/speculation_fields.h"
#include "wire/bytes.h"
#include "wire/sampling_lists.h"

namespace forerun {

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<SpeculationOptions> auto& options) {
  for (const SpeculationField& field : kSpeculationFields) {
    if (field.text != nullptr) visit(field.name, options.*field.text);
    if (field.number != nullptr) visit(field.name, options.*field.number);
    if (field.flag != nullptr) visit(field.name, options.*field.flag);
  }
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<EngineOptions> auto& options) {
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
  visit("send_model", options.send_model);
  visit("model_cache", options.model_cache);
  visit("cost_cache", options.cost_cache);
  visit("measure_anew", options.measure_anew);
  visit("emulate", options.emulate);
  visit("trace", options.trace);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<OutputReasoning> auto& reasoning) {
  visit("close", reasoning.close);
  visit("open", reasoning.open);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<OutputFormat> auto& format) {
  visit.choice("kind", format.kind, OutputFormat::Kind::kRegex);
  visit("text", format.text);
  visit("schemas", format.schemas);
  visit("reasoning", format.reasoning);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<Request> auto& request) {
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
