// An online suffix automaton: the smallest automaton of all substrings of the tokens so far (Blumer
// et al., 1985), with counts on its edges. Amortized O(1) per token: at most 2n states and 3n edges
// for n tokens; a hash table holds the edges.
//
// An edge counts how often the sequence took it while its state was among the kCountedLinks longest
// repeated suffixes; exact counts would cost time proportional to the depth of suffix links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "step/types.h"

namespace forerun {

class SuffixAutomaton {
 public:
  static constexpr int32_t kRoot = 0;
  static constexpr int32_t kNone = -1;
  static constexpr int32_t kCountedLinks = 4;

  struct Edge {
    TokenId token = 0;
    int32_t target = kNone;
    int32_t next = kNone;  // another edge of the same state
    int32_t count = 1;
  };
  // A match of the tokens read so far: their longest suffix that occurs in the sequence.
  struct Match {
    int32_t state = kRoot;
    int32_t length = 0;  // length of that suffix, in tokens
  };

  SuffixAutomaton();
  void append(TokenId token);

  // Returns the longest suffix of the sequence that also occurs earlier in it.
  Match end() const;
  // Reads one more token. Amortized O(1) over a run of calls.
  Match step(Match match, TokenId token) const;
  // Returns the longest shorter suffix that occurs in more places; at last the empty one.
  Match shorter(Match match) const;

  // The edges of a state: first_edge, then Edge::next until kNone.
  int32_t first_edge(int32_t state) const { return states_[index(state)].first_edge; }
  const Edge& edge(int32_t edge_idx) const { return edges_[index(edge_idx)]; }
  int32_t num_states() const { return static_cast<int32_t>(states_.size()); }
  int32_t num_edges() const { return static_cast<int32_t>(edges_.size()); }

 private:
  struct State {
    int32_t length = 0;  // length of its longest string
    int32_t link = kNone;
    int32_t first_edge = kNone;
  };

  static size_t index(int32_t i) { return static_cast<size_t>(i); }
  static uint64_t key(int32_t state, TokenId token) {
    return static_cast<uint64_t>(static_cast<uint32_t>(state)) << 32 | static_cast<uint32_t>(token);
  }
  // Returns the cell of edge_cells_ for this key. edge_cells_ is a flat table (open addressing),
  // since every token of a text looks up several edges.
  size_t edge_cell(uint64_t wanted) const {
    const size_t mask = edge_cells_.size() - 1;
    size_t cell = static_cast<size_t>(wanted * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (edge_cells_[cell].edge_idx != kNone && edge_cells_[cell].key != wanted) {
      cell = (cell + 1) & mask;
    }
    return cell;
  }
  int32_t find_edge(int32_t state, TokenId token) const {
    return edge_cells_[edge_cell(key(state, token))].edge_idx;
  }
  void grow_edge_cells();
  void add_edge(int32_t state, TokenId token, int32_t target, int32_t count);
  int32_t clone(int32_t state, int32_t length);

  std::vector<State> states_;
  std::vector<Edge> edges_;
  struct EdgeCell {
    uint64_t key = 0;
    int32_t edge_idx = kNone;  // kNone: the cell is free
  };
  // Size is a power of two; at most two thirds of the cells are in use.
  std::vector<EdgeCell> edge_cells_;
  int32_t last_ = kRoot;
};

}  // namespace forerun
