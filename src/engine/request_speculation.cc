#include "engine/request_speculation.h"

#include <utility>

namespace forerun {

StrategyOptions strategy_options(const SpeculationContext& context, const Request& request) {
  const SpeculationOptions& wanted = request.speculation.value_or(context.defaults);
  StrategyOptions options;
  options.name = wanted.strategy;
  if (wanted.strategy == "auto") {
    options.name = context.side_by_side ? "parallel_tree" : "serial_tree";
    options.extra_draft_steps = context.extra_draft_steps;
  }
  options.shape = wanted.shape;
  options.source = wanted.source;
  options.accept = wanted.accept;
  options.verify_tokens = wanted.verify_tokens;
  options.draft_width = wanted.draft_width;
  options.draft_depth = wanted.draft_depth;
  options.has_draft_model = context.has_draft_model;
  options.target_vocab = context.target_vocab;
  options.draft_vocab = context.draft_vocab;
  options.record_rounds = request.record_rounds || context.trace;
  if (wanted.strategy != "auto") return options;
  options = parallel_or_serial(std::move(options));
  const bool planned_without_draft = context.has_draft_model && !context.side_by_side &&
                                     wanted.source.empty() && !context.planned_source.empty();
  if (planned_without_draft && check_strategy_options(options).ok()) {
    // Trees of given sizes, and what takes a draft model alone, would cost more than they bring.
    if (options.shape == "adaptive" && options.accept == "match") {
      options.source = context.planned_source;
    } else {
      options.name = "autoregressive";
    }
  }
  return options;
}

}  // namespace forerun
