// RuleSet: a grammar as rules and expressions, before it is compiled. The readers of schemas and
// grammar texts write it, and compile_rules() reads it.
//
// Expressions are immutable once added and identified by number; one expression may be used in many
// places. Rules may be named before they are defined, so they can refer to one another. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/code_point_set.h"

namespace forerun::grammar {

using ExprId = uint32_t;
using RuleId = uint32_t;

constexpr uint32_t kUnbounded = UINT32_MAX;

// An edge of Expr::kGraph: from one state of the graph to another by reading `expr`.
struct GraphEdge {
  uint32_t from = 0;
  ExprId expr = 0;
  uint32_t to = 0;
};

struct Expr {
  enum class Kind : uint8_t {
    kEmpty,     // the empty text
    kNever,     // no text
    kLiteral,   // `bytes`
    kChars,     // one character of `chars`, in UTF-8
    kSequence,  // `parts` one after another
    kChoice,    // one of `parts`
    kRepeat,    // parts[0], `min` to `max` times
    kRule,      // the texts of rule `rule`
    kGraph,     // paths from state 0 over `edges` to a state in `ends`
  };
  Kind kind = Kind::kEmpty;
  uint32_t min = 0, max = 0;
  RuleId rule = 0;
  uint32_t state_count = 0;
  std::string bytes;
  CodePointSet chars;
  std::vector<ExprId> parts;
  std::vector<GraphEdge> edges;
  std::vector<uint32_t> ends;
};

// The rule "before body* after" with a counter of rounds instead of a state for each.
struct CountedLoop {
  ExprId before = 0, body = 0, after = 0;
  // `body` is a graph with rounds as its edges; `after` follows its ends.
  bool body_is_graph = false;
  uint32_t initial = 0;       // count after `before` has been read: 0 or 1
  uint32_t min = 0, max = 0;  // bounds of the count where `after` begins
};

struct Rule {
  std::string name;
  bool defined = false;
  bool counted = false;  // `loop` is used, else `expr`
  bool shared = false;   // never copied into its callers, so that they share its token masks
  ExprId expr = 0;
  CountedLoop loop;
};

class RuleSet {
 public:
  ExprId empty();
  ExprId never();
  ExprId literal(std::string_view bytes);
  ExprId chars(CodePointSet chars);
  ExprId sequence(std::vector<ExprId> parts);
  ExprId choice(std::vector<ExprId> parts);
  ExprId optional(ExprId part) { return repeat(part, 0, 1); }
  // max may be kUnbounded.
  ExprId repeat(ExprId part, uint32_t min, uint32_t max);
  ExprId rule(RuleId rule);
  // State 0 is the start.
  ExprId graph(uint32_t state_count, std::vector<GraphEdge> edges, std::vector<uint32_t> ends);

  // Adds a rule, which one of the two functions below must define once.
  RuleId add_rule(std::string name, bool shared = false);
  void define(RuleId rule, ExprId expr);
  // `body` must be prefix-free and, if `before` can be empty, initial 0: chars(), a shared rule(),
  // or a sequence that ends in one and does not begin like `after`. If a body is a graph, every
  // edge must be prefix-free in the same way.
  void define(RuleId rule, const CountedLoop& loop);

  // Calls add_rule() and define().
  RuleId new_rule(std::string name, ExprId expr, bool shared = false);

  const Expr& expr(ExprId id) const { return exprs_[id]; }
  const Rule& rule_at(RuleId id) const { return rules_[id]; }
  size_t expr_count() const { return exprs_.size(); }
  size_t rule_count() const { return rules_.size(); }

 private:
  ExprId add(Expr expr);

  std::vector<Expr> exprs_;
  std::vector<Rule> rules_;
};

}  // namespace forerun::grammar
