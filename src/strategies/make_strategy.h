// Makes a request's strategy from names and numbers, checked once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "step/cost_table.h"
#include "strategies/strategy.h"

namespace forerun {

class SharedAcceptance;

struct StrategyOptions {
  std::string name = "serial_tree";  // one of strategy_names()
  // "adaptive" (what is drafted and verified follows from measured costs and acceptance) or "best"
  // (best-first, of the sizes below); serial_tree also takes "chain" and a static expansion such as
  // "1,1,3,1,1" (children of every node, level by level; "<1,1,3>" is the same).
  std::string shape = "adaptive";
  // As make_draft_source() takes it. Empty: "suffix" where there is no draft model, else
  // "model+suffix" for serial_tree's "adaptive", which weighs both by how often they are right, and
  // "model" otherwise. parallel_tree needs "model" or a union with it.
  std::string source;
  // Or "rejection": only serial_tree's "chain" and static shapes, source "model".
  std::string accept = "match";

  int32_t verify_tokens = 8;  // bs of "best": rows of a verification, the root included; 1 to 128
  // w of "best": leaves run a draft step; 1 to 128.
  int32_t draft_width = 4;
  // d: draft steps a round of "best" (parallel_tree: while a verification runs), length of "chain";
  // 1 to 64.
  int32_t draft_depth = 4;
  // parallel_tree of "adaptive": draft steps while a verification runs, beyond as many as fit into
  // it; 0 or 1 (SwiftSpec §3.1's d of r or r + 1).
  int32_t extra_draft_steps = 0;
  // Guesses asked for at each node run by the draft, "best" and "adaptive"; 1 to 64. 0: as many as
  // may be of use.
  int32_t children_per_leaf = 0;

  bool has_draft_model = true;
  // Token ids that the models know; 0: no limit. Guesses beyond the target's are dropped. A token
  // that the draft does not know is fed to the draft as its last known id: its guesses get worse
  // for a while, the output stays what it is.
  int32_t target_vocab = 0;
  int32_t draft_vocab = 0;
  bool record_rounds = false;  // fill StrategyOutput::rounds
};

// "autoregressive", "serial_tree", "parallel_tree".
const std::vector<std::string>& strategy_names();

// Checks options without making anything: kInvalidArgument names the parameter, what was found and
// what is accepted.
Status check_strategy_options(const StrategyOptions& options);

// `options`, by serial_tree where they are parallel_tree's and it does not take them.
StrategyOptions parallel_or_serial(StrategyOptions options);

// `shared` is what requests learn from each other about how often guesses are right; may be null.
// It must outlive nothing: strategies hold a reference. All strategies that share it run on one
// thread. `costs` is as for Strategy::on_costs; an unmeasured table stands for ratios typical of a
// draft a fifth of its target's cost.
Result<std::unique_ptr<Strategy>> make_strategy(const StrategyOptions& options,
                                                std::shared_ptr<SharedAcceptance> shared = nullptr,
                                                const CostTable& costs = {});

}  // namespace forerun
