#include "grammar/pattern.h"

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "grammar/pattern_tree.h"

namespace forerun::grammar {
namespace {

// An automaton with empty moves, some of which apply only where a text begins or ends.
class PatternNfa {
 public:
  PatternNfa(const PatternTree& tree, const GrammarLimits& limits)
      : tree_(tree), max_states_(limits.max_states) {}

  // Returns the automaton of the pattern with any text before and after it.
  Result<CharNfa> build() {
    const uint32_t start = new_state(), before = new_state(), after = new_state();
    join(start, before);
    states_[before].edges.push_back({CodePointSet::all(), before});
    states_[after].edges.push_back({CodePointSet::all(), after});
    end_ = after;
    FORERUN_RETURN_IF_ERROR(add(tree_.root, before, after));
    return without_empty_moves(start);
  }

 private:
  enum class Where : uint8_t { kAnywhere, kAtBegin, kAtEnd };
  struct Move {
    uint32_t to = 0;
    Where where = Where::kAnywhere;
  };
  struct State {
    std::vector<CharNfa::Edge> edges;
    std::vector<Move> moves;
  };

  uint32_t new_state() {
    states_.emplace_back();
    return static_cast<uint32_t>(states_.size() - 1);
  }
  void join(uint32_t from, uint32_t to, Where where = Where::kAnywhere) {
    states_[from].moves.push_back({to, where});
  }

  Status add(uint32_t id, uint32_t from, uint32_t to) {
    if (states_.size() > max_states_) return too_large();
    const PatternNode& node = tree_.nodes[id];
    switch (node.kind) {
      case PatternNode::Kind::kChars:
        if (!node.chars.empty()) states_[from].edges.push_back({node.chars, to});
        return {};
      case PatternNode::Kind::kBegin:
        join(from, to, Where::kAtBegin);
        return {};
      case PatternNode::Kind::kEnd:
        join(from, to, Where::kAtEnd);
        return {};
      case PatternNode::Kind::kSequence:
        for (const uint32_t part : node.parts) {
          const uint32_t next = new_state();
          FORERUN_RETURN_IF_ERROR(add(part, from, next));
          from = next;
        }
        join(from, to);
        return {};
      case PatternNode::Kind::kChoice:
        for (const uint32_t part : node.parts) FORERUN_RETURN_IF_ERROR(add(part, from, to));
        return {};
      case PatternNode::Kind::kRepeat:
        return add_repeat(node, from, to);
    }
    return {};
  }

  Status add_repeat(const PatternNode& node, uint32_t from, uint32_t to) {
    for (uint32_t i = 0; i < node.min; ++i) {
      const uint32_t next = new_state();
      FORERUN_RETURN_IF_ERROR(add(node.parts[0], from, next));
      from = next;
    }
    if (node.max == UINT32_MAX) {
      const uint32_t head = new_state();
      join(from, head);
      FORERUN_RETURN_IF_ERROR(add(node.parts[0], head, head));
      join(head, to);
      return {};
    }
    join(from, to);
    for (uint32_t i = node.min; i < node.max; ++i) {
      const uint32_t next = new_state();
      FORERUN_RETURN_IF_ERROR(add(node.parts[0], from, next));
      join(next, to);
      from = next;
    }
    return {};
  }

  Status too_large() const {
    return Status(StatusCode::kResourceExhausted, "pattern: more than " +
                                                      std::to_string(max_states_) +
                                                      " states; accepted: smaller repetitions");
  }

  // Returns the states that empty moves reach from `from`, itself included.
  std::vector<uint32_t> reach(uint32_t from, bool at_begin, bool at_end) {
    ++mark_;
    marks_.resize(states_.size());
    std::vector<uint32_t> reached = {from};
    marks_[from] = mark_;
    for (size_t i = 0; i < reached.size(); ++i) {
      for (const Move& move : states_[reached[i]].moves) {
        const bool holds = move.where == Where::kAnywhere ||
                           (move.where == Where::kAtBegin && at_begin) ||
                           (move.where == Where::kAtEnd && at_end);
        if (!holds || marks_[move.to] == mark_) continue;
        marks_[move.to] = mark_;
        reached.push_back(move.to);
      }
    }
    work_ += reached.size();
    return reached;
  }

  Result<CharNfa> without_empty_moves(uint32_t start) {
    CharNfa nfa;
    std::vector<uint32_t> numbers(states_.size(), UINT32_MAX);
    std::vector<uint32_t> kept;
    const auto number_of = [&](uint32_t state) {
      if (numbers[state] == UINT32_MAX) {
        numbers[state] = static_cast<uint32_t>(kept.size());
        kept.push_back(state);
      }
      return numbers[state];
    };
    number_of(start);
    size_t edges = 0;  // counts each range
    for (size_t i = 0; i < kept.size(); ++i) {
      const bool at_begin = kept[i] == start;
      CharNfa::State made;
      for (const uint32_t state : reach(kept[i], at_begin, false)) {
        for (const CharNfa::Edge& edge : states_[state].edges) {
          made.edges.push_back({edge.chars, number_of(edge.to)});
          edges += edge.chars.ranges().size();
        }
      }
      for (const uint32_t state : reach(kept[i], at_begin, true)) made.end |= state == end_;
      if (edges + work_ > 50 * max_states_) return too_large();
      nfa.states.push_back(std::move(made));
    }
    return nfa;
  }

  const PatternTree& tree_;
  const size_t max_states_;
  std::vector<State> states_;
  std::vector<uint32_t> marks_;
  uint32_t mark_ = 0;
  uint32_t end_ = 0;
  size_t work_ = 0;
};

}  // namespace

Result<CharNfa> read_pattern(std::string_view pattern, const GrammarLimits& limits) {
  FORERUN_ASSIGN_OR_RETURN(const PatternTree tree, parse_pattern(pattern, limits));
  return PatternNfa(tree, limits).build();
}

}  // namespace forerun::grammar
