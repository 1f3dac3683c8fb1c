#include "grammar/char_dfa.h"

#include <algorithm>
#include <map>
#include <utility>

#include "text/utf8.h"

namespace forerun::grammar {
namespace {

constexpr size_t kMaxStates = 20'000;
constexpr uint64_t kWorkOfRange = 5;  // units of GrammarLimits::max_work

using StateSet = std::vector<uint32_t>;  // ascending

// Returns which states lead to a state of `ends`.
std::vector<bool> leading_to(const std::vector<std::vector<uint32_t>>& back,
                             std::vector<uint32_t> ends) {
  std::vector<bool> leads(back.size(), false);
  for (const uint32_t end : ends) leads[end] = true;
  while (!ends.empty()) {
    const uint32_t at = ends.back();
    ends.pop_back();
    for (const uint32_t from : back[at]) {
      if (leads[from]) continue;
      leads[from] = true;
      ends.push_back(from);
    }
  }
  return leads;
}

struct Move {
  uint32_t first, last, to;
};

// Visits the targets of every character from a set of states, as disjoint ranges that cover all
// characters.
void for_each_target(std::vector<Move> moves,
                     const std::function<void(uint32_t, uint32_t, StateSet)>& visit) {
  std::vector<uint32_t> cuts = {0, 0xd800, 0xe000, kLastCodePoint + 1};
  for (const Move& move : moves) {
    cuts.push_back(move.first);
    cuts.push_back(move.last + 1);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::sort(moves.begin(), moves.end(),
            [](const Move& a, const Move& b) { return a.first < b.first; });
  std::vector<const Move*> active;
  size_t next = 0;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const uint32_t first = cuts[i];
    if (first >= 0xd800 && first < 0xe000) continue;
    std::erase_if(active, [&](const Move* move) { return move->last < first; });
    for (; next < moves.size() && moves[next].first <= first; ++next) {
      if (moves[next].last >= first) active.push_back(&moves[next]);
    }
    StateSet targets;
    for (const Move* move : active) targets.push_back(move->to);
    std::sort(targets.begin(), targets.end());
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    visit(first, cuts[i + 1] - 1, std::move(targets));
  }
}

}  // namespace

Result<CharDfa> read_together(std::span<const CharNfa> nfas, const GrammarLimits& limits) {
  std::vector<const CharNfa::State*> states;
  std::vector<uint64_t> marks;
  std::vector<uint32_t> offsets;
  StateSet start;
  for (size_t i = 0; i < nfas.size(); ++i) {
    const auto offset = static_cast<uint32_t>(states.size());
    if (!nfas[i].states.empty()) start.push_back(offset);
    for (const CharNfa::State& state : nfas[i].states) {
      states.push_back(&state);
      offsets.push_back(offset);
      marks.push_back(state.end ? uint64_t{1} << i : 0);
    }
  }
  const size_t max_states = std::min(kMaxStates, limits.max_states);
  CharDfa dfa;
  std::map<StateSet, uint32_t> numbers;
  std::vector<const StateSet*> sets;
  const auto number_of = [&](StateSet set) {
    const auto [found, inserted] =
        numbers.try_emplace(std::move(set), static_cast<uint32_t>(sets.size()));
    if (inserted) {
      sets.push_back(&found->first);
      dfa.states.emplace_back();
      for (const uint32_t state : found->first) dfa.states.back().marks |= marks[state];
    }
    return found->second;
  };
  number_of(std::move(start));
  size_t work = 0;
  for (size_t at = 0; at < sets.size(); ++at) {
    std::vector<Move> moves;
    for (const uint32_t state : *sets[at]) {
      for (const CharNfa::Edge& edge : states[state]->edges) {
        for (const CodePointRange& range : edge.chars.ranges()) {
          moves.push_back({range.first, range.last, offsets[state] + edge.to});
        }
      }
    }
    work += moves.size() + 8;
    std::map<uint32_t, CodePointSet> edges;
    for_each_target(std::move(moves), [&](uint32_t first, uint32_t last, StateSet targets) {
      work += targets.size();
      edges[number_of(std::move(targets))].add(first, last);
    });
    for (auto& [to, chars] : edges) dfa.states[at].edges.push_back({std::move(chars), to});
    if (sets.size() > max_states || work > limits.max_work / kWorkOfRange) {
      return Status(StatusCode::kResourceExhausted, "patterns that must all match need more than " +
                                                        std::to_string(max_states) +
                                                        " states; accepted: fewer or smaller ones");
    }
  }
  return dfa;
}

CharNfa texts_where(const CharDfa& dfa, const std::function<bool(uint64_t)>& wanted) {
  std::vector<std::vector<uint32_t>> back(dfa.states.size());
  std::vector<uint32_t> ends;
  for (uint32_t at = 0; at < dfa.states.size(); ++at) {
    for (const CharNfa::Edge& edge : dfa.states[at].edges) back[edge.to].push_back(at);
    if (wanted(dfa.states[at].marks)) ends.push_back(at);
  }
  const std::vector<bool> live = leading_to(back, ends);
  CharNfa nfa;
  if (!live[0]) return nfa;
  std::vector<uint32_t> numbers(dfa.states.size(), UINT32_MAX);
  uint32_t count = 0;
  for (uint32_t at = 0; at < dfa.states.size(); ++at) {
    if (live[at]) numbers[at] = count++;
  }
  nfa.states.resize(count);
  for (uint32_t at = 0; at < dfa.states.size(); ++at) {
    if (!live[at]) continue;
    CharNfa::State& state = nfa.states[numbers[at]];
    state.end = wanted(dfa.states[at].marks);
    for (const CharNfa::Edge& edge : dfa.states[at].edges) {
      if (live[edge.to]) state.edges.push_back({edge.chars, numbers[edge.to]});
    }
  }
  return nfa;
}

CharNfa literal_texts(std::span<const std::string> texts) {
  CharNfa nfa;
  nfa.states.emplace_back();
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> next;
  for (std::string_view text : texts) {
    uint32_t at = 0;
    while (!text.empty()) {
      const text::CodePoint c = text::first_code_point(text);
      text.remove_prefix(c.len_bytes);
      const auto [found, inserted] =
          next.try_emplace({at, c.value}, static_cast<uint32_t>(nfa.states.size()));
      if (inserted) {
        nfa.states.emplace_back();
        nfa.states[at].edges.push_back({CodePointSet(c.value, c.value), found->second});
      }
      at = found->second;
    }
    nfa.states[at].end = true;
  }
  return nfa;
}

bool accepts(const CharNfa& nfa, std::string_view text) {
  if (nfa.states.empty()) return false;
  std::vector<bool> now(nfa.states.size(), false);
  now[0] = true;
  while (!text.empty()) {
    const text::CodePoint c = text::first_code_point(text);
    text.remove_prefix(c.len_bytes);
    std::vector<bool> after(nfa.states.size(), false);
    for (size_t at = 0; at < now.size(); ++at) {
      if (!now[at]) continue;
      for (const CharNfa::Edge& edge : nfa.states[at].edges) {
        if (!after[edge.to] && edge.chars.contains(c.value)) after[edge.to] = true;
      }
    }
    now = std::move(after);
  }
  for (size_t at = 0; at < now.size(); ++at) {
    if (now[at] && nfa.states[at].end) return true;
  }
  return false;
}

LengthRange lengths_of(const CharNfa& nfa) {
  LengthRange range;
  const size_t count = nfa.states.size();
  if (count == 0) return range;
  std::vector<std::vector<uint32_t>> back(count);
  std::vector<uint32_t> ends;
  for (uint32_t at = 0; at < count; ++at) {
    for (const CharNfa::Edge& edge : nfa.states[at].edges) {
      if (!edge.chars.empty()) back[edge.to].push_back(at);
    }
    if (nfa.states[at].end) ends.push_back(at);
  }
  const std::vector<bool> live = leading_to(back, ends);
  if (!live[0]) return range;
  // Breadth first for the fewest characters; depth first, in order of finishing, for the most.
  std::vector<uint32_t> fewest(count, UINT32_MAX), order = {0};
  fewest[0] = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t at = order[i];
    if (nfa.states[at].end) range.fewest = std::min(range.fewest, fewest[at]);
    for (const CharNfa::Edge& edge : nfa.states[at].edges) {
      if (edge.chars.empty() || !live[edge.to] || fewest[edge.to] != UINT32_MAX) continue;
      fewest[edge.to] = fewest[at] + 1;
      order.push_back(edge.to);
    }
  }
  // A state that is reached again before all later states are done is on a cycle: there is no
  // bound.
  std::vector<uint32_t> entering(count, 0), most(count, 0);
  for (const uint32_t at : order) {
    for (const CharNfa::Edge& edge : nfa.states[at].edges) {
      if (!edge.chars.empty() && live[edge.to]) ++entering[edge.to];
    }
  }
  std::vector<uint32_t> open;
  if (entering[0] == 0) open.push_back(0);
  size_t done = 0;
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    ++done;
    if (nfa.states[at].end) range.most = std::max(range.most, most[at]);
    for (const CharNfa::Edge& edge : nfa.states[at].edges) {
      if (edge.chars.empty() || !live[edge.to]) continue;
      most[edge.to] = std::max(most[edge.to], most[at] + 1);
      if (--entering[edge.to] == 0) open.push_back(edge.to);
    }
  }
  if (done < order.size()) range.most = UINT32_MAX;
  return range;
}

}  // namespace forerun::grammar
