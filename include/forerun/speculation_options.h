// The options of speculation, i.e. how drafts are made and verified, and their accepted values.
// Names are checked against tables inside the engine, so that a strategy or source is added in one
// place; the functions below read these tables. They may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forerun {

// No option changes the output tokens (accept "match"). The strategy chooses the value of an empty
// option. A strategy refuses options that it does not use; "auto" ignores options that its chosen
// strategy does not use, and refuses only those that no strategy accepts.
struct SpeculationOptions {
  // One of strategy_choices(). With "auto" the planner chooses, from what it has measured.
  std::string strategy = "auto";
  // One of draft_source_choices(), or several joined by '+', such as "model+suffix". Empty: without
  // a draft model "suffix"; with a draft model "model+suffix" for serial_tree's shape "adaptive",
  // and "model" otherwise. For sparse_self, the source of the guesses that the view checks; empty:
  // none.
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
  // d: draft Steps a round (parallel_tree: during a verification), or the length of a "chain"
  // (sparse_self: γ, the length at which it is verified); 1 to 64. Empty: 4.
  std::optional<int32_t> draft_depth = {};
  // Whether the draft ranks tokens by the target's noise, so that both tend to draw the same token.
  // Empty: true.
  std::optional<bool> shared_noise = {};
  // parallel_tree with shape "adaptive": draft Steps during a verification beyond the number that
  // fits into it; 0 or 1 (d = r or r + 1 in SwiftSpec §3.1). Empty: 0.
  std::optional<int32_t> extra_draft_steps = {};
  // The number of candidates that the draft gives at each node that it runs; 0 to 64. 0 and empty:
  // as many as may be of use.
  std::optional<int32_t> children_per_leaf = {};
  // One of kv_view_choices(): the part of its KV cache that the drafting model sees (sparse_self:
  // the target; serial_tree: the draft model; "auto" chooses a view by itself). Empty:
  // "streaming_llm" for sparse_self, else the whole cache.
  std::string view = {};
  // K: the tokens in the view; the accepted range depends on the view. Empty: 512.
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

// Returns `options` for `strategy`, without the options that it does not use, so that several
// strategies can run with one set of options. Nothing is checked.
SpeculationOptions options_for(const std::string& strategy, SpeculationOptions options);

}  // namespace forerun
