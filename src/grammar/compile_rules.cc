#include "grammar/compile_rules.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "grammar/determinize.h"
#include "grammar/follow.h"
#include "grammar/nfa.h"

namespace forerun::grammar {
namespace {

constexpr size_t kDenseFrom = 7;  // number of edges of a node from which a table of 256 is used
constexpr size_t kMaxDense = 8192;

using Live = std::vector<std::vector<bool>>;  // [rule][state]

// Marks the states that lead to the end of their rule, given the rules from which a call may
// return.
void mark_live(const Dfa& dfa, const std::vector<bool>& returns, std::vector<bool>& live) {
  std::vector<std::vector<uint32_t>> back(dfa.states.size());
  std::vector<uint32_t> open;
  for (uint32_t at = 0; at < dfa.states.size(); ++at) {
    const Dfa::State& state = dfa.states[at];
    for (const ByteEdge& edge : state.edges) back[edge.target].push_back(at);
    for (const CallEdge& call : state.calls) {
      if (returns[call.rule]) back[call.target].push_back(at);
    }
    live[at] = state.accepting;
    if (state.accepting) open.push_back(at);
  }
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    for (const uint32_t from : back[at]) {
      if (live[from]) continue;
      live[from] = true;
      open.push_back(from);
    }
  }
}

// Returns whether a call of the rule can return after reading at least one byte.
bool start_leads_on(const Dfa& dfa, const std::vector<bool>& returns,
                    const std::vector<bool>& live) {
  const Dfa::State& start = dfa.states[0];
  return std::any_of(start.edges.begin(), start.edges.end(),
                     [&](const ByteEdge& edge) { return live[edge.target]; }) ||
         std::any_of(start.calls.begin(), start.calls.end(),
                     [&](const CallEdge& call) { return returns[call.rule] && live[call.target]; });
}

// Finds the rules that accept a non-empty text, and the states that can finish one.
Status find_live(const std::vector<Dfa>& dfas, Live& live, std::vector<bool>& returns,
                 WorkMeter& work) {
  live.resize(dfas.size());
  for (size_t rule = 0; rule < dfas.size(); ++rule) live[rule].resize(dfas[rule].states.size());
  returns.assign(dfas.size(), false);
  std::vector<std::vector<uint32_t>> callers(dfas.size());
  std::vector<uint32_t> open;
  for (uint32_t rule = 0; rule < dfas.size(); ++rule) {
    open.push_back(rule);
    for (const Dfa::State& state : dfas[rule].states) {
      for (const CallEdge& call : state.calls) {
        if (callers[call.rule].empty() || callers[call.rule].back() != rule) {
          callers[call.rule].push_back(rule);
        }
      }
    }
  }
  while (!open.empty()) {
    const uint32_t rule = open.back();
    open.pop_back();
    if (!work.spend(1 + dfas[rule].states.size())) return work.exceeded();
    mark_live(dfas[rule], returns, live[rule]);
    if (returns[rule] || !start_leads_on(dfas[rule], returns, live[rule])) continue;
    returns[rule] = true;
    open.insert(open.end(), callers[rule].begin(), callers[rule].end());
  }
  return {};
}

// Copies the live states of every rule into one Program.
class Assembly {
 public:
  Assembly(const RuleSet& rules, const Nfa& nfa, const std::vector<Dfa>& dfas, const Live& live,
           const std::vector<bool>& returns, Program& program)
      : rules_(rules), nfa_(nfa), dfas_(dfas), live_(live), returns_(returns), program_(program) {}

  void run() {
    for (RuleId id = 0; id < dfas_.size(); ++id) add_rule(id);
  }

 private:
  void add_rule(RuleId id) {
    const Rule& source = rules_.rule_at(id);
    CompiledRule rule;
    rule.name = source.name;
    rule.start = static_cast<uint32_t>(program_.nodes.size());
    rule.reads_empty = nfa_.rules[id].reads_empty;
    rule.counted = source.counted;
    if (source.counted) {
      rule.min_rounds = source.loop.min;
      rule.max_rounds = source.loop.max;
      rule.initial_rounds = source.loop.initial;
    }
    rule.leaf = true;
    number_states(id, rule.start);
    for (const uint32_t at : kept_) add_node(id, dfas_[id].states[at], rule);
    rule.node_count = static_cast<uint32_t>(program_.nodes.size()) - rule.start;
    program_.rules.push_back(std::move(rule));
  }

  bool keeps(RuleId id, const CallEdge& call) const {
    return returns_[call.rule] && live_[id][call.target];
  }

  // Numbers the live states that the start reaches, in order of discovery.
  void number_states(RuleId id, uint32_t first) {
    numbers_.assign(dfas_[id].states.size(), kNoNode);
    kept_.clear();
    const auto visit = [&](uint32_t state) {
      if (numbers_[state] != kNoNode) return;
      numbers_[state] = first + static_cast<uint32_t>(kept_.size());
      kept_.push_back(state);
    };
    visit(0);
    for (size_t i = 0; i < kept_.size(); ++i) {
      const Dfa::State& state = dfas_[id].states[kept_[i]];
      for (const ByteEdge& edge : state.edges) {
        if (live_[id][edge.target]) visit(edge.target);
      }
      for (const CallEdge& call : state.calls) {
        if (keeps(id, call)) visit(call.target);
      }
    }
  }

  void add_node(RuleId id, const Dfa::State& state, CompiledRule& rule) {
    Node node;
    node.rule = id;
    node.first_edge = static_cast<uint32_t>(program_.edges.size());
    node.first_call = static_cast<uint32_t>(program_.calls.size());
    node.accepting = state.accepting;
    node.loop = state.loop;
    rule.content.mix(static_cast<uint64_t>(state.accepting) << 8 |
                     static_cast<uint64_t>(state.loop));
    for (const ByteEdge& edge : state.edges) {
      if (!live_[id][edge.target]) continue;
      program_.edges.push_back({edge.first, edge.last, numbers_[edge.target]});
      rule.content.mix(static_cast<uint64_t>(numbers_[edge.target] - rule.start) << 16 |
                       static_cast<uint64_t>(edge.first) << 8 | edge.last);
    }
    for (const CallEdge& call : state.calls) {
      if (!keeps(id, call)) continue;
      program_.calls.push_back({call.rule, numbers_[call.target]});
      rule.content.mix((static_cast<uint64_t>(numbers_[call.target]) << 32 | call.rule) + 1);
      rule.leaf = false;
    }
    rule.content.mix(UINT64_MAX);
    node.edge_count = static_cast<uint32_t>(program_.edges.size()) - node.first_edge;
    node.call_count = static_cast<uint32_t>(program_.calls.size()) - node.first_call;
    const bool empty = node.edge_count == 0 && node.call_count == 0;
    node.only_accepting = node.accepting && empty && node.loop == LoopPart::kOutside;
    node.plain = !node.accepting && node.call_count == 0 && !rule.counted;
    if (node.edge_count >= kDenseFrom && program_.dense.size() < kMaxDense) add_dense(node);
    program_.nodes.push_back(node);
  }

  void add_dense(Node& node) {
    std::array<uint32_t, 256> targets;
    targets.fill(kNoNode);
    for (const ByteEdge& edge : program_.edges_of(node)) {
      for (uint32_t byte = edge.first; byte <= edge.last; ++byte) targets[byte] = edge.target;
    }
    node.dense = static_cast<uint32_t>(program_.dense.size());
    program_.dense.push_back(targets);
  }

  const RuleSet& rules_;
  const Nfa& nfa_;
  const std::vector<Dfa>& dfas_;
  const Live& live_;
  const std::vector<bool>& returns_;
  Program& program_;
  std::vector<uint32_t> numbers_;
  std::vector<uint32_t> kept_;
};

// Orders the rules so that a rule comes after those that may call it before they read a byte.
Status order_rules(Program& program) {
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  const size_t count = program.rules.size();
  std::vector<Mark> marks(count, Mark::kNew);
  std::vector<uint32_t> finished;
  struct Visit {
    uint32_t rule;
    uint32_t next_call;
  };
  for (uint32_t first = 0; first < count; ++first) {
    if (marks[first] != Mark::kNew) continue;
    std::vector<Visit> path = {{first, 0}};
    marks[first] = Mark::kOpen;
    while (!path.empty()) {
      const uint32_t rule = path.back().rule;
      const auto calls = program.calls_of(program.nodes[program.rules[rule].start]);
      if (path.back().next_call == calls.size()) {
        marks[rule] = Mark::kDone;
        finished.push_back(rule);
        path.pop_back();
        continue;
      }
      const uint32_t called = calls[path.back().next_call++].rule;
      if (marks[called] == Mark::kOpen) {
        std::string circle;
        size_t from = 0;
        while (path[from].rule != called) ++from;
        for (; from < path.size(); ++from) circle += program.rules[path[from].rule].name + " -> ";
        return Status(StatusCode::kInvalidArgument,
                      "grammar: a rule calls itself before it reads anything: " + circle +
                          program.rules[called].name +
                          "; accepted: recursion after at least one character, or a repetition");
      }
      if (marks[called] == Mark::kNew) {
        marks[called] = Mark::kOpen;
        path.push_back({called, 0});
      }
    }
  }
  program.rule_of_order.assign(finished.rbegin(), finished.rend());
  for (uint32_t order = 0; order < count; ++order) {
    program.rules[program.rule_of_order[order]].order = order;
  }
  return {};
}

void set_identity(Program& program) {
  program.identity.mix(program.root);
  for (const CompiledRule& rule : program.rules) {
    program.identity.mix(rule.content);
    program.identity.mix(static_cast<uint64_t>(rule.min_rounds) << 32 | rule.max_rounds);
    program.identity.mix(static_cast<uint64_t>(rule.initial_rounds) << 32 | rule.node_count);
    program.identity.mix(rule.reads_empty);
  }
}

}  // namespace

Result<std::shared_ptr<const Program>> compile_rules(const RuleSet& rules, RuleId root,
                                                     const GrammarLimits& limits) {
  WorkMeter work{limits.max_work, 0};
  FORERUN_ASSIGN_OR_RETURN(const Nfa nfa, build_nfa(rules, limits, work));
  std::vector<Dfa> dfas;
  size_t states_left = limits.max_states;
  for (RuleId rule = 0; rule < rules.rule_count(); ++rule) {
    FORERUN_ASSIGN_OR_RETURN(Dfa dfa, determinize(nfa, rule, states_left, limits.max_states, work));
    states_left -= dfa.states.size();
    dfas.push_back(std::move(dfa));
  }
  Live live;
  std::vector<bool> returns;
  FORERUN_RETURN_IF_ERROR(find_live(dfas, live, returns, work));
  if (!returns[root] && !nfa.rules[root].reads_empty) {
    return Status(
        StatusCode::kInvalidArgument,
        "grammar: found no finite text that satisfies it; accepted: a grammar whose rule \"" +
            rules.rule_at(root).name + "\" can come to an end");
  }
  auto program = std::make_shared<Program>();
  Assembly(rules, nfa, dfas, live, returns, *program).run();
  program->root = root;
  FORERUN_RETURN_IF_ERROR(order_rules(*program));
  FORERUN_RETURN_IF_ERROR(find_follow(*program, work));
  set_identity(*program);
  return std::shared_ptr<const Program>(std::move(program));
}

}  // namespace forerun::grammar
