#include "grammar/nfa.h"

#include <algorithm>
#include <unordered_map>

#include "base/status_macros.h"

namespace forerun::grammar {
namespace {

constexpr uint64_t kInlinedSize =
    8;  // maximum bytes and calls of a rule that is copied into its callers
constexpr uint64_t kNotInlined = UINT64_MAX / 4;
constexpr int kInlinedDepth = 16;

// The sizes of rules after rules within them are copied; kNotInlined for recursive and large ones.
class InlinedSizes {
 public:
  explicit InlinedSizes(const RuleSet& rules)
      : rules_(rules), sizes_(rules.rule_count(), kUnknown) {}

  bool small(RuleId rule) { return of_rule(rule, 0) <= kInlinedSize; }

 private:
  static constexpr uint64_t kUnknown = UINT64_MAX;

  uint64_t of_rule(RuleId id, int depth) {
    if (sizes_[id] != kUnknown) return sizes_[id];
    const Rule& rule = rules_.rule_at(id);
    if (rule.shared || rule.counted) return sizes_[id] = kNotInlined;
    sizes_[id] = kNotInlined;  // the size that a recursive rule finds for itself
    return sizes_[id] = std::min(of_expr(rule.expr, depth), kNotInlined);
  }

  uint64_t of_expr(ExprId id, int depth) {
    const Expr& expr = rules_.expr(id);
    if (depth > kInlinedDepth) return kNotInlined;
    uint64_t size = 0;
    switch (expr.kind) {
      case Expr::Kind::kEmpty:
      case Expr::Kind::kNever:
        return 0;
      case Expr::Kind::kLiteral:
        return expr.bytes.size();
      case Expr::Kind::kChars:
        return expr.chars.ranges().size();
      case Expr::Kind::kRule: {
        const Rule& called = rules_.rule_at(expr.rule);
        if (called.shared || called.counted) return 1;
        return of_rule(expr.rule, depth + 1);
      }
      case Expr::Kind::kRepeat:
        size = of_expr(expr.parts[0], depth + 1);
        if (size >= kNotInlined) return kNotInlined;
        return size * std::max(1u, expr.max == kUnbounded ? expr.min : expr.max);
      case Expr::Kind::kGraph:
        return kNotInlined;
      case Expr::Kind::kSequence:
      case Expr::Kind::kChoice:
        for (const ExprId part : expr.parts) {
          size += of_expr(part, depth + 1);
          if (size > kInlinedSize) return kNotInlined;
        }
        return size;
    }
    return kNotInlined;
  }

  const RuleSet& rules_;
  std::vector<uint64_t> sizes_;
};

class Builder {
 public:
  Builder(const RuleSet& rules, const GrammarLimits& limits, WorkMeter& work)
      : rules_(rules), sizes_(rules), max_states_(8 * limits.max_states), work_(work) {}

  Result<Nfa> build() {
    for (RuleId id = 0; id < rules_.rule_count(); ++id) {
      const Rule& rule = rules_.rule_at(id);
      Nfa::RuleStates states;
      states.start = new_state();
      states.end = new_state();
      rule_name_ = &rule.name;
      if (rule.counted && rule.loop.body_is_graph) {
        const Expr& graph = rules_.expr(rule.loop.body);
        states.head = static_cast<uint32_t>(nfa_.states.size());
        states.head_count = graph.state_count;
        nfa_.states.resize(nfa_.states.size() + graph.state_count);
        FORERUN_RETURN_IF_ERROR(add(rule.loop.before, states.start, states.head));
        for (const GraphEdge& edge : graph.edges) {
          FORERUN_RETURN_IF_ERROR(add(edge.expr, states.head + edge.from, states.head + edge.to));
        }
        for (const uint32_t end : graph.ends) {
          FORERUN_RETURN_IF_ERROR(add(rule.loop.after, states.head + end, states.end));
        }
      } else if (rule.counted) {
        states.head = new_state();
        inlines_ = false;
        FORERUN_RETURN_IF_ERROR(add(rule.loop.before, states.start, states.head));
        FORERUN_RETURN_IF_ERROR(add(rule.loop.body, states.head, states.head));
        FORERUN_RETURN_IF_ERROR(add(rule.loop.after, states.head, states.end));
        inlines_ = true;
      } else {
        FORERUN_RETURN_IF_ERROR(add(rule.expr, states.start, states.end));
      }
      nfa_.rules.push_back(states);
    }
    FORERUN_RETURN_IF_ERROR(find_empty_rules());
    return std::move(nfa_);
  }

 private:
  uint32_t new_state() {
    nfa_.states.emplace_back();
    return static_cast<uint32_t>(nfa_.states.size() - 1);
  }
  void join(uint32_t from, uint32_t to) { nfa_.states[from].empties.push_back(to); }

  Status check_size() {
    if (nfa_.states.size() > max_states_) {
      return Status(StatusCode::kResourceExhausted,
                    "grammar: rule \"" + *rule_name_ + "\" needs more than " +
                        std::to_string(max_states_) +
                        " states before they are merged; accepted: smaller repetitions");
    }
    return work_.spend(1) ? Status() : work_.exceeded();
  }

  // Adds paths that read `id` between two states.
  Status add(ExprId id, uint32_t from, uint32_t to) {
    FORERUN_RETURN_IF_ERROR(check_size());
    const Expr& expr = rules_.expr(id);
    switch (expr.kind) {
      case Expr::Kind::kEmpty:
        join(from, to);
        return {};
      case Expr::Kind::kNever:
        return {};
      case Expr::Kind::kLiteral:
        return add_literal(expr.bytes, from, to);
      case Expr::Kind::kChars:
        for (const auto& sequence : expr.chars.utf8_sequences()) {
          add_bytes(sequence, from, to);
          if (!work_.spend(2)) return work_.exceeded();
        }
        return check_size();
      case Expr::Kind::kSequence:
        for (size_t i = 0; i < expr.parts.size(); ++i) {
          const uint32_t next = i + 1 == expr.parts.size() ? to : new_state();
          FORERUN_RETURN_IF_ERROR(add(expr.parts[i], from, next));
          from = next;
        }
        if (expr.parts.empty()) join(from, to);
        return {};
      case Expr::Kind::kChoice:
        for (const ExprId part : expr.parts) FORERUN_RETURN_IF_ERROR(add(part, from, to));
        return {};
      case Expr::Kind::kRepeat:
        return add_repeat(expr, from, to);
      case Expr::Kind::kRule:
        if (inlines_ && sizes_.small(expr.rule)) {
          return add(rules_.rule_at(expr.rule).expr, from, to);
        }
        nfa_.states[from].calls.push_back({expr.rule, to});
        return {};
      case Expr::Kind::kGraph: {
        const uint32_t first = static_cast<uint32_t>(nfa_.states.size());
        nfa_.states.resize(nfa_.states.size() + expr.state_count);
        join(from, first);
        for (const GraphEdge& edge : expr.edges) {
          FORERUN_RETURN_IF_ERROR(add(edge.expr, first + edge.from, first + edge.to));
        }
        for (const uint32_t end : expr.ends) join(first + end, to);
        return check_size();
      }
    }
    return {};
  }

  // Sequences with equal ends into one state share the states of their ends.
  void add_bytes(const std::vector<ByteRange>& sequence, uint32_t from, uint32_t to) {
    for (size_t i = sequence.size(); i-- > 1;) {
      const uint64_t key = static_cast<uint64_t>(to) << 16 |
                           static_cast<uint64_t>(sequence[i].first) << 8 | sequence[i].last;
      const auto [found, inserted] = before_.try_emplace(key, 0);
      if (inserted) {
        found->second = new_state();
        nfa_.states[found->second].bytes.push_back({sequence[i], to});
      }
      to = found->second;
    }
    nfa_.states[from].bytes.push_back({sequence[0], to});
  }

  Status add_literal(const std::string& bytes, uint32_t from, uint32_t to) {
    if (bytes.empty()) {
      join(from, to);
      return {};
    }
    std::vector<ByteRange> sequence;
    for (const char c : bytes)
      sequence.push_back({static_cast<uint8_t>(c), static_cast<uint8_t>(c)});
    add_bytes(sequence, from, to);
    return check_size();
  }

  Status add_repeat(const Expr& expr, uint32_t from, uint32_t to) {
    const ExprId part = expr.parts[0];
    for (uint32_t i = 0; i < expr.min; ++i) {
      const uint32_t next = new_state();
      FORERUN_RETURN_IF_ERROR(add(part, from, next));
      from = next;
    }
    if (expr.max == kUnbounded) {
      const uint32_t head = new_state(), back = new_state();
      join(from, head);
      FORERUN_RETURN_IF_ERROR(add(part, head, back));
      join(back, head);
      join(head, to);
      return {};
    }
    join(from, to);
    for (uint32_t i = expr.min; i < expr.max; ++i) {
      const uint32_t next = new_state();
      FORERUN_RETURN_IF_ERROR(add(part, from, next));
      join(next, to);
      from = next;
    }
    return {};
  }

  // Finds the rules that read the empty text, and adds moves around calls of them. Each such rule
  // may make others read the empty text, so this repeats until nothing changes.
  Status find_empty_rules() {
    for (bool changed = true; changed;) {
      changed = false;
      for (RuleId id = 0; id < rules_.rule_count(); ++id) {
        Nfa::RuleStates& states = nfa_.rules[id];
        const Rule& rule = rules_.rule_at(id);
        if (states.reads_empty || (rule.counted && rule.loop.min > rule.loop.initial)) continue;
        FORERUN_ASSIGN_OR_RETURN(states.reads_empty, reaches_end(states));
        changed |= states.reads_empty;
      }
    }
    for (Nfa::State& state : nfa_.states) {
      for (const Nfa::CallMove& call : state.calls) {
        if (nfa_.rules[call.rule].reads_empty) state.empties.push_back(call.to);
      }
    }
    return {};
  }

  Result<bool> reaches_end(const Nfa::RuleStates& rule) {
    std::vector<uint32_t> open = {rule.start};
    std::vector<uint32_t> seen = {rule.start};
    const auto visit = [&](uint32_t state) {
      if (std::find(seen.begin(), seen.end(), state) != seen.end()) return;
      seen.push_back(state);
      open.push_back(state);
    };
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      if (at == rule.end) return true;
      const Nfa::State& state = nfa_.states[at];
      if (!work_.spend(1 + seen.size())) return work_.exceeded();
      for (const uint32_t next : state.empties) visit(next);
      for (const Nfa::CallMove& call : state.calls) {
        if (nfa_.rules[call.rule].reads_empty) visit(call.to);
      }
    }
    return false;
  }

  const RuleSet& rules_;
  InlinedSizes sizes_;
  const size_t max_states_;
  WorkMeter& work_;
  bool inlines_ = true;
  const std::string* rule_name_ = nullptr;
  // Maps a state and the bytes that lead to it to a state with only that move.
  std::unordered_map<uint64_t, uint32_t> before_;
  Nfa nfa_;
};

}  // namespace

Result<Nfa> build_nfa(const RuleSet& rules, const GrammarLimits& limits, WorkMeter& work) {
  return Builder(rules, limits, work).build();
}

}  // namespace forerun::grammar
