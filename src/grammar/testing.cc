#include "grammar/testing.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <span>

#include "base/sanitized.h"
#include "grammar/configuration.h"

namespace forerun::grammar {

bool matches(const Grammar& grammar, std::string_view text) {
  GrammarState whole = grammar.start();
  const bool accepted = whole.accept(text);
  GrammarState stepped = grammar.start();
  bool steps = true;
  for (const char c : text) steps = steps && stepped.accept({&c, 1});
  if (steps != accepted || (accepted && !(stepped == whole))) std::abort();
  return accepted && whole.is_complete();
}

std::vector<std::string> synthetic_tokens(std::string_view sample, size_t count, uint32_t seed) {
  static constexpr std::array<std::string_view, 36> kJson = {
      "\",",  "\":",   "\": ", "\", \"", "{\"",  "}",    "}}", "]}",  "],",   "[[", "[\"", "true",
      "null", "false", "\\n",  "\\u",    "\\\"", "\\",   "  ", "\n ", "\n  ", ": ", ":",   ", ",
      ",\n",  "\"}",   "\"]",  "0.",     "12",   "1234", "-1", "e+",  "E1",   " {", " [",  " \""};
  std::mt19937 random(seed);
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const std::string_view text : kJson) tokens.emplace_back(text);
  while (tokens.size() < count + 256 + kJson.size()) {
    std::string token(sample.substr(random() % sample.size(), 2 + random() % 5));
    if (random() % 8 == 0) token += kJson[random() % kJson.size()];
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<GreedyGrammar> greedy_grammars() {
  std::string any, rules = "root ::= r0\n";
  for (int i = 0; i < 12; ++i) any += (i ? " | r" : "r") + std::to_string(i);
  for (int i = 0; i < 12; ++i) {
    const std::string name = "r" + std::to_string(i);
    rules += name + " ::= [a-z ] (" + any + ") (" + any + ")? | [a-z ]\n";
  }
  std::vector<GreedyGrammar> all = {
      {"both_sides", "root ::= x\nx ::= [a-z ] | [a-z ] x | [a-z ] x [a-z ]"},
      {"twice_itself", "root ::= x\nx ::= [a-z ] | [a-z ] x x"},
      {"three_times", "root ::= x\nx ::= [a-z ] | [a-z ] x x | [a-z ] x x x"},
      {"nullable", "root ::= x\nx ::= \"\" | [a-z ] x y | [a-z ] y x\ny ::= \"\" | [a-z ] y"},
      {"nested", "root ::= x\nx ::= [a-z ] y | [a-z ]\ny ::= x z | x\nz ::= x y | y [a-z ]"},
      {"counted", "root ::= x{1,400}\nx ::= [a-z ]+ | [a-z ] y\ny ::= [a-z ]*"},
      {"counted_rules", "root ::= (x | y){1,300}\nx ::= [a-z ] y?\ny ::= [a-z ] x?"},
      {"alternatives", rules, /*always_costly=*/true},
  };
  if (kSanitized) all.erase(all.begin() + 1, all.begin() + 5);
  return all;
}

std::vector<uint32_t> brute_force_mask(const GrammarState& state,
                                       const VocabularyTrie& vocabulary) {
  std::vector<uint32_t> mask(vocabulary.mask_words());
  for (int32_t id = 0; id < vocabulary.vocab_size(); ++id) {
    if (vocabulary.token(id).empty()) continue;
    GrammarState next = state;
    if (next.accept(vocabulary.token(id))) mask[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
  }
  return mask;
}

namespace {

std::vector<int32_t> allowed_ids(const std::vector<uint32_t>& mask) {
  std::vector<int32_t> ids;
  for (size_t word = 0; word < mask.size(); ++word) {
    for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      ids.push_back(static_cast<int32_t>(word * 32) + std::countr_zero(bits));
    }
  }
  return ids;
}

// Returns the minimum number of bytes from each node to its rule's end. Ignores rounds that a loop
// still owes.
std::vector<uint32_t> bytes_to_end(const Program& program) {
  constexpr uint32_t kFar = 1u << 28;
  std::vector<uint32_t> distance(program.nodes.size(), kFar);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t at = program.nodes.size(); at-- > 0;) {
      const Node& node = program.nodes[at];
      // A start ends its rule only if the rule was not called: calls of empty texts are bypassed.
      uint32_t least = node.accepting && at != program.rules[node.rule].start ? 0 : kFar;
      for (const ByteEdge& edge : program.edges_of(node)) {
        least = std::min(least, 1 + distance[edge.target]);
      }
      for (const CallEdge& call : program.calls_of(node)) {
        const uint32_t within = distance[program.rules[call.rule].start];
        least = std::min(least, within + distance[call.target]);
      }
      changed = changed || least < distance[at];
      distance[at] = std::min(distance[at], least);
    }
  }
  return distance;
}

uint64_t bytes_left(const std::vector<uint32_t>& distance, std::span<const Place> places) {
  uint64_t least = UINT64_MAX / 2;
  for (const Place& place : places) {
    if (place.node == kEndNode) return 0;
    least = std::min(least, distance[place.node] + bytes_left(distance, place.frame->places()));
  }
  return least;
}

// Returns bytes that lead to an end; each byte is the one that seems nearest to it.
std::optional<std::string> closing(GrammarState state) {
  const std::vector<uint32_t> distance = bytes_to_end(state.program());
  std::string text;
  while (!state.is_complete() && text.size() < 4000) {
    std::optional<GrammarState> best;
    char best_byte = 0;
    uint64_t least = UINT64_MAX;
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      GrammarState next = state;
      if (!next.accept({&c, 1})) continue;
      const uint64_t left =
          next.is_complete() ? 0 : bytes_left(distance, next.configuration().places);
      if (left >= least) continue;
      least = left;
      best = next;
      best_byte = c;
    }
    if (!best) return std::nullopt;
    text += best_byte;
    state = *best;
  }
  return state.is_complete() ? std::optional(text) : std::nullopt;
}

}  // namespace

std::optional<std::string> random_text(const Grammar& grammar, TokenMasks& masks,
                                       std::mt19937& random, size_t soft_limit) {
  GrammarState state = grammar.start();
  std::string text;
  std::vector<uint32_t> mask(masks.vocabulary().mask_words());
  for (size_t tokens = 0;; ++tokens) {
    const bool may_end = masks.write(state, mask);
    const std::vector<int32_t> ids = allowed_ids(mask);
    if (may_end && (ids.empty() || random() % 4 == 0 || tokens > soft_limit)) return text;
    if (ids.empty()) return std::nullopt;
    if (tokens > soft_limit) {
      const std::optional<std::string> rest = closing(state);
      if (!rest) return std::nullopt;
      return text + *rest;
    }
    const std::string_view token = masks.vocabulary().token(ids[random() % ids.size()]);
    if (!state.accept(token)) std::abort();
    text += token;
  }
}

}  // namespace forerun::grammar
