#include "grammar/regex_rules.h"

#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "grammar/pattern.h"
#include "grammar/pattern_tree.h"

namespace forerun::grammar {

Result<ExprId> read_regex(std::string_view regex, const GrammarLimits& limits, RuleSet& rules) {
  if (regex.size() > limits.max_text_bytes) {
    return Status(StatusCode::kResourceExhausted, "found " + std::to_string(regex.size()) +
                                                      " bytes; accepted: up to " +
                                                      std::to_string(limits.max_text_bytes));
  }
  // Parses the expression by itself first: a bracket must not close the group that is put around
  // it, and offsets in messages must be those of the expression.
  FORERUN_RETURN_IF_ERROR(parse_pattern(regex, limits).status());
  FORERUN_ASSIGN_OR_RETURN(const CharNfa nfa,
                           read_pattern("^(?:" + std::string(regex) + ")$", limits));
  std::vector<GraphEdge> edges;
  std::vector<uint32_t> ends;
  for (uint32_t from = 0; from < nfa.states.size(); ++from) {
    for (const CharNfa::Edge& edge : nfa.states[from].edges) {
      edges.push_back({from, rules.chars(edge.chars), edge.to});
    }
    if (nfa.states[from].end) ends.push_back(from);
    if (rules.expr_count() > 4 * limits.max_expressions) {
      return Status(StatusCode::kResourceExhausted,
                    "found an expression whose automaton has more than " +
                        std::to_string(4 * limits.max_expressions) +
                        " transitions; accepted: one with fewer or smaller repetitions");
    }
  }
  if (ends.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "found an expression that matches no text; accepted: one that matches some text");
  }
  const auto count = static_cast<uint32_t>(nfa.states.size());
  return rules.graph(count, std::move(edges), std::move(ends));
}

}  // namespace forerun::grammar
