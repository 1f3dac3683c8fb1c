// How drafts are made and verified: the options, and what they accept. Names are checked against
// tables inside the engine, so that a strategy or source is added in one place; the functions below
// read these tables. May be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forerun {

// None of it changes which tokens come out (accept "match"). What is left empty is for the strategy
// to choose. A strategy refuses what it does not use; "auto" leaves aside what the strategy that it
// chooses does not use, and refuses only what no strategy would take.
struct SpeculationOptions {
  // One of strategy_choices(): "auto" is for the planner to choose from what it measures.
  std::string strategy = "auto";
  // One of draft_source_choices(), or several joined by '+' such as "model+suffix". Empty: "suffix"
  // where there is no draft model; with one "model+suffix" for serial_tree's shape "adaptive", and
  // "model" otherwise. sparse_self: what guesses for the view to check; empty: nothing does.
  std::string source = {};
  // One of tree_shape_choices(). Empty: "adaptive".
  std::string shape = {};
  // One of accept_rule_choices(): "match" (token for token what plain decoding gives), "rejection"
  // (exact in distribution only), and two that change what greedy requests say, of pipelined alone:
  // "relaxed" (the guess that the target finds likeliest), "nucleus" or "nucleus:P" (of the guesses
  // in the target's likeliest tokens of probability P, 0.9, the draft's likeliest); their
  // log-probabilities are those after biases and penalties. Empty: "match".
  std::string accept = {};
  // bs: rows of a verification, the root included; pipelined: nodes that enter the stages at a time
  // (SpecPipe's w); 1 to 128. Empty: 8.
  std::optional<int32_t> verify_tokens = {};
  // w: leaves expanded a draft step (sparse_self with a source: rows, of which all but one are
  // guesses); 1 to 128. Empty: 4.
  std::optional<int32_t> draft_width = {};
  // d: draft steps a round (parallel_tree: while a verification runs), length of a "chain"
  // (sparse_self: γ, from which on it is verified); 1 to 64. Empty: 4.
  std::optional<int32_t> draft_depth = {};
  // The draft ranks by the target's noise, so that both tend to draw the same token. Empty: true.
  std::optional<bool> shared_noise = {};
  // parallel_tree of shape "adaptive": draft steps while a verification runs beyond as many as fit
  // into it; 0 or 1 (SwiftSpec §3.1's d of r or r + 1). Empty: 0.
  std::optional<int32_t> extra_draft_steps = {};
  // Guesses asked for at each node that the draft runs; 0 to 64, 0 and empty: as many as may be of
  // use.
  std::optional<int32_t> children_per_leaf = {};
  // One of kv_view_choices(): which of its KV the model that drafts sees (sparse_self: the target;
  // serial_tree: the draft model; auto chooses one by itself). Empty: "streaming_llm" for
  // sparse_self, else all of it.
  std::string view = {};
  // K: how many tokens of it; what is accepted depends on the view. Empty: 512.
  std::optional<int32_t> view_budget = {};
};

// A value that an option accepts, and a line of help.
struct OptionChoice {
  std::string name;
  std::string help;
};
std::vector<OptionChoice> strategy_choices();  // "auto" first
std::vector<OptionChoice> draft_source_choices();
std::vector<OptionChoice> accept_rule_choices();
std::vector<OptionChoice> kv_view_choices();
std::vector<OptionChoice> tree_shape_choices();  // children per level stand as an example

// `options` for `strategy`, without what it does not use: to run several strategies with one set of
// options. Nothing is checked.
SpeculationOptions options_for(const std::string& strategy, SpeculationOptions options);

}  // namespace forerun
