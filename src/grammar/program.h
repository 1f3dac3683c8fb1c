// Program: a compiled grammar. It has one deterministic automaton over bytes per rule. Some edges
// of its nodes read a byte, others call a rule (a recursive transition network).
//
// Immutable after compile_rules(); shared by every state of the grammar. A node may have several
// call edges beside its byte edges, so a rule is deterministic by itself but the choice between
// rules is not; the walker (walker.h) follows all choices at once. Invariants of every program:
//  - a rule's start has no edge into it; if the rule reads the empty text, an edge around every
//    call of it shows this, not its start;
//  - no rule calls itself before it has read a byte (no left recursion), so CompiledRule::order
//    exists;
//  - from every node some text leads to the end of its rule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/hash_bytes.h"

namespace forerun::grammar {

constexpr uint32_t kNoNode = UINT32_MAX;
constexpr uint32_t kEndNode = UINT32_MAX - 1;  // return address of the root rule
constexpr uint32_t kNotDense = UINT32_MAX;

// A structural hash of 128 bits: objects with equal hashes count as equal.
struct Hash128 {
  uint64_t low = 0, high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;

  void mix(uint64_t value) {
    low = text::mix_bits(low ^ (value + 0x9e3779b97f4a7c15u));
    high = text::mix_bits(high * 0xd6e8feb86659fd93u + value + 0x632be59bd9b4e019u);
  }
  void mix(const Hash128& other) {
    mix(other.low);
    mix(other.high);
  }
};

struct Hash128Hasher {
  size_t operator()(const Hash128& hash) const { return static_cast<size_t>(hash.low); }
};

// The position of a node in a rule that counts rounds.
enum class LoopPart : uint8_t {
  kOutside,  // before or after the rounds, and in rules without a counter
  kHead,     // between two rounds; reaching it from a round adds one to the count
  kBody,     // within a round
};

struct ByteEdge {
  uint8_t first = 0, last = 0;  // inclusive
  uint32_t target = kNoNode;
};

struct CallEdge {
  uint32_t rule = 0;
  uint32_t target = kNoNode;  // node after the call
};

struct Node {
  uint32_t first_edge = 0, edge_count = 0;
  uint32_t first_call = 0, call_count = 0;
  uint32_t dense = kNotDense;  // index into Program::dense if there are many edges
  uint32_t rule = 0;
  bool accepting = false;
  bool only_accepting = false;  // accepting, without edges
  bool plain = false;           // no call, not accepting, no counting: the usual case
  LoopPart loop = LoopPart::kOutside;
};

struct CompiledRule {
  std::string name;
  uint32_t start = 0;  // first node; the rule's nodes are [start, start + node_count)
  uint32_t node_count = 0;
  bool reads_empty = false;
  bool counted = false;
  uint32_t min_rounds = 0, max_rounds = 0;  // if counted; max may be kUnbounded
  uint32_t initial_rounds = 0;
  uint32_t order = 0;  // a rule that another may call before reading a byte has the higher order
  // Whether it calls no rule: then masks of its nodes depend only on `content` and `follow`, in any
  // grammar.
  bool leaf = false;
  Hash128 content;
  std::array<uint64_t, 4> follow{};  // one bit per byte that may follow the rule's text
};

struct Program {
  std::vector<Node> nodes;
  std::vector<ByteEdge> edges;  // by node, ascending
  std::vector<CallEdge> calls;
  std::vector<std::array<uint32_t, 256>> dense;
  std::vector<CompiledRule> rules;
  std::vector<uint32_t> rule_of_order;
  uint32_t root = 0;  // a rule
  Hash128 identity;   // hash of everything above

  std::span<const ByteEdge> edges_of(const Node& node) const {
    return std::span(edges).subspan(node.first_edge, node.edge_count);
  }
  std::span<const CallEdge> calls_of(const Node& node) const {
    return std::span(calls).subspan(node.first_call, node.call_count);
  }
  // Returns kNoNode if the byte is not read here.
  uint32_t target(const Node& node, uint8_t byte) const {
    if (node.dense != kNotDense) return dense[node.dense][byte];
    for (uint32_t i = node.first_edge; i < node.first_edge + node.edge_count; ++i) {
      if (byte < edges[i].first) return kNoNode;
      if (byte <= edges[i].last) return edges[i].target;
    }
    return kNoNode;
  }
  // Returns whether the rule may end at `node` after `rounds` rounds.
  bool may_end(const Node& node, uint32_t rounds) const {
    return node.accepting &&
           (node.loop != LoopPart::kHead || rounds >= rules[node.rule].min_rounds);
  }
  // Returns the count of rounds after moving from `from`, reached with `rounds`, to `to`; kNoNode
  // if the count forbids it.
  uint32_t rounds_after(const Node& from, uint32_t rounds, const Node& to) const;
};

inline uint32_t Program::rounds_after(const Node& from, uint32_t rounds, const Node& to) const {
  if (from.loop == LoopPart::kOutside) {
    return to.loop == LoopPart::kHead ? rules[to.rule].initial_rounds : 0;
  }
  const CompiledRule& rule = rules[from.rule];
  if (from.loop == LoopPart::kHead) {
    if (to.loop == LoopPart::kOutside) return rounds >= rule.min_rounds ? 0 : kNoNode;
    if (rounds >= rule.max_rounds) return kNoNode;
  }
  if (to.loop != LoopPart::kHead) return rounds;
  // Counting beyond the minimum would only separate states that behave alike.
  const bool counts = rule.max_rounds != UINT32_MAX || rounds < rule.min_rounds;
  return counts ? rounds + 1 : rounds;
}

}  // namespace forerun::grammar
