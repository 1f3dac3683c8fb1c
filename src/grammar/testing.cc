#include "grammar/testing.h"

#include <array>
#include <bit>
#include <cstdlib>

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

// Bytes that lead to an end, preferring those that close what is open. Empty if none is found.
std::optional<std::string> closing(GrammarState state) {
  static constexpr std::string_view kFirst = "\"}],:0123456789tfnrualse-+.";
  std::string text;
  for (int steps = 0; steps < 4000; ++steps) {
    if (state.is_complete()) return text;
    // The shortest way to an end or to a state with a smaller stack would need a search over
    // states; bytes in this order nearly always find one at once.
    bool moved = false;
    for (size_t i = 0; i < kFirst.size() + 256 && !moved; ++i) {
      const char byte = i < kFirst.size() ? kFirst[i] : static_cast<char>(i - kFirst.size());
      GrammarState next = state;
      if (!next.accept({&byte, 1})) continue;
      text += byte;
      state = next;
      moved = true;
    }
    if (!moved) return std::nullopt;
  }
  return std::nullopt;
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
