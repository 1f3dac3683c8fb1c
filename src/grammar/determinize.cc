#include "grammar/determinize.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/status_macros.h"

namespace forerun::grammar {
namespace {

using StateSet = std::vector<uint32_t>;  // ascending

struct StateSetHasher {
  size_t operator()(const StateSet& set) const {
    uint64_t hash = set.size();
    for (const uint32_t state : set) hash = text::mix_bits(hash ^ (state + 0x9e3779b97f4a7c15u));
    return static_cast<size_t>(hash);
  }
};

class SubsetConstruction {
 public:
  SubsetConstruction(const Nfa& nfa, RuleId rule, size_t states_left, size_t max_states,
                     WorkMeter& work)
      : nfa_(nfa),
        rule_(nfa.rules[rule]),
        states_left_(states_left),
        max_states_(max_states),
        work_(work),
        first_(rule_.start),
        marks_((rule + 1 < nfa.rules.size() ? nfa.rules[rule + 1].start : nfa.states.size()) -
               first_) {}

  Result<Dfa> run() {
    FORERUN_ASSIGN_OR_RETURN([[maybe_unused]] const uint32_t start, state_of({rule_.start}));
    for (uint32_t at = 0; at < sets_.size(); ++at) {
      FORERUN_RETURN_IF_ERROR(add_byte_edges(at));
      FORERUN_RETURN_IF_ERROR(add_calls(at));
    }
    if (rule_.head != UINT32_MAX) mark_loop();
    return std::move(dfa_);
  }

 private:
  // Returns the number of the set that `seeds` and empty moves reach.
  Result<uint32_t> state_of(StateSet seeds) {
    ++mark_;
    StateSet set;
    const auto visit = [&](uint32_t state) {
      if (marks_[state - first_] == mark_) return;
      marks_[state - first_] = mark_;
      set.push_back(state);
    };
    for (const uint32_t seed : seeds) visit(seed);
    for (size_t i = 0; i < set.size(); ++i) {
      for (const uint32_t next : nfa_.states[set[i]].empties) visit(next);
    }
    if (!work_.spend(2 + set.size())) return work_.exceeded();
    const bool accepting = marks_[rule_.end - first_] == mark_;
    // Skips states without bytes or calls: sets that differ only in them are equivalent.
    std::erase_if(set, [&](uint32_t state) {
      const Nfa::State& s = nfa_.states[state];
      return s.bytes.empty() && s.calls.empty() && state != rule_.end && !rule_.is_head(state) &&
             state != rule_.start;
    });
    std::sort(set.begin(), set.end());
    const auto [found, inserted] =
        number_of_.try_emplace(std::move(set), static_cast<uint32_t>(dfa_.states.size()));
    if (inserted) {
      if (dfa_.states.size() >= states_left_) {
        return Status(
            StatusCode::kResourceExhausted,
            "grammar: it needs more than " + std::to_string(max_states_) +
                " states; accepted: fewer alternatives that begin alike, or smaller repetitions");
      }
      dfa_.states.emplace_back();
      dfa_.states.back().accepting = accepting;
      sets_.push_back(&found->first);
    }
    return found->second;
  }

  Status add_byte_edges(uint32_t at) {
    std::vector<Nfa::ByteMove> moves;
    std::vector<uint32_t> cuts;
    for (const uint32_t state : *sets_[at]) {
      for (const Nfa::ByteMove& move : nfa_.states[state].bytes) {
        moves.push_back(move);
        cuts.push_back(move.bytes.first);
        cuts.push_back(move.bytes.last + 1u);
      }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::sort(moves.begin(), moves.end(), [](const Nfa::ByteMove& a, const Nfa::ByteMove& b) {
      return a.bytes.first < b.bytes.first;
    });
    std::vector<const Nfa::ByteMove*> active;
    size_t next_move = 0;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const uint32_t first = cuts[i];
      std::erase_if(active, [&](const Nfa::ByteMove* move) { return move->bytes.last < first; });
      for (; next_move < moves.size() && moves[next_move].bytes.first <= first; ++next_move) {
        active.push_back(&moves[next_move]);
      }
      if (active.empty()) continue;
      if (!work_.spend(active.size())) return work_.exceeded();
      StateSet targets;
      for (const Nfa::ByteMove* move : active) targets.push_back(move->to);
      FORERUN_ASSIGN_OR_RETURN(const uint32_t target, state_of(std::move(targets)));
      std::vector<ByteEdge>& edges = dfa_.states[at].edges;
      const auto last = static_cast<uint8_t>(cuts[i + 1] - 1);
      if (!edges.empty() && edges.back().target == target && edges.back().last + 1u == first) {
        edges.back().last = last;
      } else {
        edges.push_back({static_cast<uint8_t>(first), last, target});
      }
    }
    return {};
  }

  Status add_calls(uint32_t at) {
    std::map<RuleId, StateSet> returns;
    for (const uint32_t state : *sets_[at]) {
      for (const Nfa::CallMove& call : nfa_.states[state].calls) {
        returns[call.rule].push_back(call.to);
      }
    }
    for (auto& [rule, targets] : returns) {
      FORERUN_ASSIGN_OR_RETURN(const uint32_t target, state_of(std::move(targets)));
      dfa_.states[at].calls.push_back({rule, target});
    }
    return {};
  }

  // Marks kHead, the sets with a head of the loop, and kBody, the others on a path from a head to a
  // head.
  void mark_loop() {
    const size_t count = dfa_.states.size();
    std::vector<std::vector<uint32_t>> ahead(count), back(count);
    std::vector<uint32_t> heads;
    for (uint32_t at = 0; at < count; ++at) {
      const Dfa::State& state = dfa_.states[at];
      const auto join = [&](uint32_t target) {
        ahead[at].push_back(target);
        back[target].push_back(at);
      };
      for (const ByteEdge& edge : state.edges) join(edge.target);
      for (const CallEdge& call : state.calls) join(call.target);
      if (std::any_of(sets_[at]->begin(), sets_[at]->end(),
                      [&](uint32_t s) { return rule_.is_head(s); })) {
        heads.push_back(at);
      }
    }
    const std::vector<bool> after = reachable(ahead, heads), before = reachable(back, heads);
    for (size_t at = 0; at < count; ++at) {
      if (after[at] && before[at]) dfa_.states[at].loop = LoopPart::kBody;
    }
    for (const uint32_t head : heads) dfa_.states[head].loop = LoopPart::kHead;
  }

  static std::vector<bool> reachable(const std::vector<std::vector<uint32_t>>& edges,
                                     const std::vector<uint32_t>& from) {
    std::vector<bool> reached(edges.size(), false);
    std::vector<uint32_t> open = from;
    for (const uint32_t state : from) reached[state] = true;
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      for (const uint32_t next : edges[at]) {
        if (!reached[next]) open.push_back(next);
        reached[next] = true;
      }
    }
    return reached;
  }

  const Nfa& nfa_;
  const Nfa::RuleStates& rule_;
  const size_t states_left_, max_states_;
  WorkMeter& work_;
  const uint32_t first_;         // a rule's states are consecutive
  std::vector<uint32_t> marks_;  // [state - first_]: the last set that contains the state
  uint32_t mark_ = 0;
  std::unordered_map<StateSet, uint32_t, StateSetHasher> number_of_;
  std::vector<const StateSet*> sets_;  // keys of number_of_, which keep their addresses
  Dfa dfa_;
};

}  // namespace

Result<Dfa> determinize(const Nfa& nfa, RuleId rule, size_t states_left, size_t max_states,
                        WorkMeter& work) {
  return SubsetConstruction(nfa, rule, states_left, max_states, work).run();
}

}  // namespace forerun::grammar
