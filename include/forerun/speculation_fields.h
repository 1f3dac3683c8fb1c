// The fields of SpeculationOptions, one row each. All code that reads, writes, checks or lists them
// uses these rows: JSON, flags, messages between processes. A new field needs a row here, a member
// of SpeculationOptions, and code in src/strategies (docs/adding-a-request-field.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forerun/speculation_options.h"

namespace forerun {

// The smallest and largest value of a number, and its value if it is not set.
struct OptionRange {
  int32_t low = 0, high = 0, fallback = 0;
};

// Exactly one of the pointers to members is not null.
struct SpeculationField {
  const char* name;  // in JSON and in messages; flags replace _ by -
  std::string SpeculationOptions::*text = nullptr;
  std::optional<int32_t> SpeculationOptions::*number = nullptr;
  std::optional<bool> SpeculationOptions::*flag = nullptr;  // true if it is not set
  OptionRange range = {};                                   // range of a number
  const char* help;                                  // one line; for a flag, the effect of false
  std::vector<OptionChoice> (*choices)() = nullptr;  // for a text: the values that it accepts
  const char* note = "";                             // help that follows the choices
};

inline constexpr std::array kSpeculationFields{
    SpeculationField{.name = "strategy",
                     .text = &SpeculationOptions::strategy,
                     .help = "",
                     .choices = strategy_choices},
    SpeculationField{.name = "source",
                     .text = &SpeculationOptions::source,
                     .help = "Where drafts come from: ",
                     .choices = draft_source_choices,
                     .note = ", or several joined by '+' (default: model+suffix for serial_tree's "
                             "adaptive shape, else model; suffix without a draft; none for "
                             "sparse_self, which drafts by itself and checks what a source "
                             "guesses)"},
    SpeculationField{.name = "shape",
                     .text = &SpeculationOptions::shape,
                     .help = "Draft tree: ",
                     .choices = tree_shape_choices,
                     .note = " (default: adaptive)"},
    SpeculationField{.name = "accept",
                     .text = &SpeculationOptions::accept,
                     .help = "How guesses are verified: ",
                     .choices = accept_rule_choices,
                     .note = " (default: match)"},
    SpeculationField{.name = "verify_tokens",
                     .number = &SpeculationOptions::verify_tokens,
                     .range = {1, 128, 8},
                     .help = "Rows a verification; of pipelined: nodes that enter the stages at a "
                             "time (bs, SpecPipe's w; default: 8)"},
    SpeculationField{.name = "draft_width",
                     .number = &SpeculationOptions::draft_width,
                     .range = {1, 128, 4},
                     .help = "Leaves expanded a draft step; of sparse_self with a source: rows (w; "
                             "default: 4)"},
    SpeculationField{.name = "draft_depth",
                     .number = &SpeculationOptions::draft_depth,
                     .range = {1, 64, 4},
                     .help = "Draft steps a round; of sparse_self: tokens drafted (d, γ; default: "
                             "4)"},
    SpeculationField{.name = "shared_noise",
                     .flag = &SpeculationOptions::shared_noise,
                     .help = "Let the draft sample without the target's noise"},
    SpeculationField{.name = "extra_draft_steps",
                     .number = &SpeculationOptions::extra_draft_steps,
                     .range = {0, 1, 0},
                     .help = "Draft steps of parallel_tree's adaptive shape during a verification "
                             "beyond those that fit into it (default: 0)"},
    SpeculationField{.name = "children_per_leaf",
                     .number = &SpeculationOptions::children_per_leaf,
                     .range = {0, 64, 0},
                     .help = "Guesses asked for at each node that the draft runs (default: 0, as "
                             "many as may be of use)"},
    SpeculationField{.name = "view",
                     .text = &SpeculationOptions::view,
                     .help = "Which of its KV the model that drafts sees, of sparse_self and "
                             "serial_tree: ",
                     .choices = kv_view_choices},
    SpeculationField{.name = "view_budget",
                     .number = &SpeculationOptions::view_budget,
                     .range = {1, 1 << 24, 512},
                     .help = "Tokens of it (K; default: 512)"},
};

}  // namespace forerun
