#include "drafts/suffix_automaton.h"

#include <algorithm>

namespace forerun {

SuffixAutomaton::SuffixAutomaton() : edge_cells_(64) { states_.emplace_back(); }

void SuffixAutomaton::grow_edge_cells() {
  std::vector<EdgeCell> old(2 * edge_cells_.size());
  old.swap(edge_cells_);
  for (const EdgeCell& cell : old) {
    if (cell.edge_idx != kNone) edge_cells_[edge_cell(cell.key)] = cell;
  }
}

void SuffixAutomaton::add_edge(int32_t state, TokenId token, int32_t target, int32_t count) {
  const int32_t edge_idx = num_edges();
  if (3 * (edges_.size() + 1) > 2 * edge_cells_.size()) grow_edge_cells();
  edges_.push_back({token, target, states_[index(state)].first_edge, count});
  states_[index(state)].first_edge = edge_idx;
  const uint64_t edge_key = key(state, token);
  edge_cells_[edge_cell(edge_key)] = {edge_key, edge_idx};
}

int32_t SuffixAutomaton::clone(int32_t state, int32_t length) {
  const int32_t copy = num_states();
  states_.push_back({length, states_[index(state)].link, kNone});
  for (int32_t e = first_edge(state); e != kNone; e = edges_[index(e)].next) {
    const Edge original = edges_[index(e)];
    add_edge(copy, original.token, original.target, original.count);
  }
  states_[index(state)].link = copy;
  return copy;
}

void SuffixAutomaton::append(TokenId token) {
  // Each suffix that had occurred before is now followed by `token` once more.
  int32_t repeated = states_[index(last_)].link;
  for (int32_t i = 0; i < kCountedLinks && repeated > kRoot; ++i) {
    if (const int32_t e = find_edge(repeated, token); e != kNone) ++edges_[index(e)].count;
    repeated = states_[index(repeated)].link;
  }

  const int32_t added = num_states();
  states_.push_back({states_[index(last_)].length + 1, kRoot, kNone});
  int32_t state = last_;
  int32_t e = kNone;
  for (; state != kNone; state = states_[index(state)].link) {
    e = find_edge(state, token);
    if (e != kNone) break;
    add_edge(state, token, added, 1);
  }
  last_ = added;
  if (state == kNone) return;
  const int32_t target = edges_[index(e)].target;
  const int32_t length = states_[index(state)].length + 1;
  if (states_[index(target)].length == length) {
    states_[index(added)].link = target;
    return;
  }
  const int32_t copy = clone(target, length);
  states_[index(added)].link = copy;
  for (; state != kNone; state = states_[index(state)].link) {
    e = find_edge(state, token);
    if (e == kNone || edges_[index(e)].target != target) break;
    edges_[index(e)].target = copy;
  }
}

SuffixAutomaton::Match SuffixAutomaton::end() const {
  const int32_t state = states_[index(last_)].link;
  if (state == kNone) return {};
  return {state, states_[index(state)].length};
}

SuffixAutomaton::Match SuffixAutomaton::shorter(Match match) const {
  const int32_t link = states_[index(match.state)].link;
  if (link == kNone) return {};
  return {link, states_[index(link)].length};
}

SuffixAutomaton::Match SuffixAutomaton::step(Match match, TokenId token) const {
  while (true) {
    const int32_t e = find_edge(match.state, token);
    if (e != kNone) return {edges_[index(e)].target, match.length + 1};
    if (match.state == kRoot) return {};
    match = shorter(match);
  }
}

}  // namespace forerun
