// The options of speculation, i.e. how drafts are made and verified, and their accepted values. The
// engine checks names against its own tables, so that one table holds all strategies and one all
// draft sources; the functions below read these tables. They may be called from any thread.
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
  // One of strategy_choices(). With "auto" the planner chooses by its measurements.
  std::string strategy = "auto";
  // One of draft_source_choices(), or several joined by '+', such as "model+suffix". Empty:
  // "suffix" without a draft model; with one, "model+suffix" for serial_tree's shape "adaptive",
  // and "model" otherwise. For sparse_self, the source whose guesses are checked through the view;
  // empty: none.
  std::string source = {};
  // One of tree_shape_choices(). Empty: "adaptive".
  std::string shape = {};
  // One of accept_rule_choices(). "match" gives the tokens of plain decoding; "rejection" keeps
  // only their distribution. Two rules change the output of greedy requests, and only pipelined
  // accepts them: "relaxed" takes the guess with the highest probability in the target; "nucleus"
  // or "nucleus:P" takes, of the guesses within the target's top-P set (P = 0.9 by default), the
  // one that the draft ranks first. Both use log-probabilities after biases and penalties. Empty:
  // "match".
  std::string accept = {};
  // Rows of a verification, the root included (bs in SwiftSpec); pipelined: nodes that enter the
  // stages at a time (SpecPipe's w); 1 to 128. Empty: 8.
  std::optional<int32_t> verify_tokens = {};
  // Leaves expanded in one draft step (w in SwiftSpec); sparse_self with a source: rows of a step,
  // one of which is not a guess; 1 to 128. Empty: 4.
  std::optional<int32_t> draft_width = {};
  // Draft Steps per round (d in SwiftSpec; parallel_tree: during a verification), or the length of
  // a "chain" (sparse_self: γ, the length at which it is verified); 1 to 64. Empty: 4.
  std::optional<int32_t> draft_depth = {};
  // Whether the draft ranks tokens with the target's sampling noise added, so that both models tend
  // to sample the same token. Empty: true.
  std::optional<bool> shared_noise = {};
  // parallel_tree with shape "adaptive": number of draft Steps during a verification beyond those
  // that fit into its time; 0 or 1 (d = r or r + 1 in SwiftSpec §3.1). Empty: 0.
  std::optional<int32_t> extra_draft_steps = {};
  // The number of candidates that the draft model returns for each node that it runs; 0 to 64. 0
  // and empty: the strategy decides.
  std::optional<int32_t> children_per_leaf = {};
  // One of kv_view_choices(): the part of the KV cache that the drafting model sees (in sparse_self
  // that model is the target, in serial_tree the draft model; "auto" chooses a view by itself).
  // Empty: "streaming_llm" for sparse_self, else the whole cache.
  std::string view = {};
  // Number of tokens in the view (K); the accepted range depends on the view. Empty: 512.
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
std::vector<OptionChoice> tree_shape_choices();  // the entry for children per level is an example

// Returns `options` for `strategy`, without the options that it does not use, so that several
// strategies can run with one set of options. Nothing is checked.
SpeculationOptions options_for(const std::string& strategy, SpeculationOptions options);

}  // namespace forerun
