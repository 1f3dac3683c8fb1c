#include "grammar/follow.h"

#include <vector>

namespace forerun::grammar {
namespace {

using ByteBits = std::array<uint64_t, 4>;

bool add(const ByteBits& bits, ByteBits& into) {
  bool grew = false;
  for (size_t i = 0; i < bits.size(); ++i) {
    grew |= (bits[i] & ~into[i]) != 0;
    into[i] |= bits[i];
  }
  return grew;
}

// Returns the bytes that edges at `node`, or at the starts of rules called there, read.
ByteBits first_bytes(const Program& program, const std::vector<ByteBits>& first_of_rule,
                     const Node& node) {
  ByteBits bits{};
  for (const ByteEdge& edge : program.edges_of(node)) {
    for (uint32_t byte = edge.first; byte <= edge.last; ++byte) {
      bits[byte / 64] |= uint64_t{1} << (byte % 64);
    }
  }
  for (const CallEdge& call : program.calls_of(node)) add(first_of_rule[call.rule], bits);
  return bits;
}

}  // namespace

Status find_follow(Program& program, WorkMeter& work) {
  std::vector<ByteBits> first_of_rule(program.rules.size());
  // Called rules come after their callers, so in reverse order each is complete when it is needed.
  for (auto rule = program.rule_of_order.rbegin(); rule != program.rule_of_order.rend(); ++rule) {
    const Node& start = program.nodes[program.rules[*rule].start];
    first_of_rule[*rule] = first_bytes(program, first_of_rule, start);
  }
  // A call that may end its caller's text is also followed by the bytes that follow the caller.
  std::vector<std::vector<uint32_t>> inherits(program.rules.size());
  for (const Node& node : program.nodes) {
    for (const CallEdge& call : program.calls_of(node)) {
      const Node& back = program.nodes[call.target];
      if (!work.spend(4 + back.edge_count + back.call_count)) return work.exceeded();
      add(first_bytes(program, first_of_rule, back), program.rules[call.rule].follow);
      if (back.accepting && call.rule != node.rule) inherits[node.rule].push_back(call.rule);
    }
  }
  std::vector<uint32_t> open(program.rule_of_order);
  while (!open.empty()) {
    const uint32_t rule = open.back();
    open.pop_back();
    if (!work.spend(1 + inherits[rule].size())) return work.exceeded();
    for (const uint32_t called : inherits[rule]) {
      if (add(program.rules[rule].follow, program.rules[called].follow)) open.push_back(called);
    }
  }
  return {};
}

}  // namespace forerun::grammar
