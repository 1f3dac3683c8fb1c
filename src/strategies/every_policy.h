// All policies that keep plain decoding's output, for tests: each strategy of the table with each
// shape, source and acceptance rule that it accepts. New entries of the tables are included, so a
// test that runs over all policies cannot forget one.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "strategies/strategy_table.h"

namespace forerun {

// Settings for the strategies that use them.
struct PolicySettings {
  int32_t verify_tokens = 6;
  int32_t draft_width = 3;
  int32_t draft_depth = 3;
  bool shared_noise = true;
  int32_t view_budget = 192;
};

// Returns the views to combine with a shape, source and rule: all of them, and none, for the first
// shape and either the first source or no source; only no view otherwise. The part of the KV that a
// draft sees does not depend on how a tree is grown and verified.
inline std::vector<std::string> views_for(const std::string& shape, const std::string& source,
                                          const std::string& accept) {
  std::vector<std::string> views = {""};
  const bool first_source = source.empty() || source == every_draft_source().front();
  if (shape != every_tree_shape().front() || !first_source || accept != "match") return views;
  for (const KvViewEntry& entry : view_table()) views.push_back(entry.name);
  return views;
}

inline std::vector<SpeculationOptions> every_policy(const ModelFacts& models = {},
                                                    const PolicySettings& settings = {}) {
  std::vector<SpeculationOptions> policies;
  std::set<std::string> seen;
  std::vector<std::string> sources = every_draft_source();
  sources.push_back("");  // for strategies that need no source
  for (const StrategyEntry& strategy : strategy_table()) {
    for (const std::string& shape : every_tree_shape()) {
      for (const std::string& source : sources) {
        for (const AcceptRuleEntry& rule : accept_rule_table()) {
          if (!rule.exact_where_greedy) continue;
          const char* const accept = rule.name;
          for (const std::string& view : views_for(shape, source, accept)) {
            SpeculationOptions options{.strategy = strategy.name,
                                       .source = source,
                                       .shape = shape,
                                       .accept = accept,
                                       .verify_tokens = settings.verify_tokens,
                                       .draft_width = settings.draft_width,
                                       .draft_depth = settings.draft_depth,
                                       .shared_noise = settings.shared_noise,
                                       .view = view};
            options = without_unused(strategy, options);
            const auto plan = resolve_speculation(options, models);
            // Skips a repetition of a policy above, whose source is the default.
            if (plan.ok() && source.empty() && !(*plan)->source.empty()) continue;
            if (plan.ok() && (*plan)->view.kind != nullptr) {
              options.view = (*plan)->view.kind->name;
              options.view_budget = settings.view_budget;
            }
            if (plan.ok() && seen.insert(describe(**plan)).second) policies.push_back(options);
          }
        }
      }
    }
  }
  return policies;
}

// Returns the policies that give plain decoding's tokens at any temperature. Excludes rule
// `rejection`, which gives them only for greedy decoding.
inline std::vector<SpeculationOptions> every_exact_policy(const ModelFacts& models = {},
                                                          const PolicySettings& settings = {}) {
  std::vector<SpeculationOptions> policies = every_policy(models, settings);
  std::erase_if(policies, [](const SpeculationOptions& o) { return o.accept == "rejection"; });
  return policies;
}

// Returns those of `policies` that use `strategy`.
inline std::vector<SpeculationOptions> policies_of(const std::string& strategy,
                                                   std::vector<SpeculationOptions> policies) {
  std::erase_if(policies, [&](const SpeculationOptions& o) { return o.strategy != strategy; });
  return policies;
}

// Returns a name such as "serial_tree 2,2 model+suffix match".
inline std::string policy_name(const SpeculationOptions& options) {
  std::string name = options.strategy;
  for (const std::string& part : {options.shape, options.source, options.accept, options.view}) {
    if (!part.empty()) name += " " + part;
  }
  return name;
}

}  // namespace forerun
