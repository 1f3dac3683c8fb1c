// Fuzzes the readers of JSON schemas and grammar texts with any bytes. They are refused or
// compiled, and a compiled grammar's states, masks and limits must be consistent.
//
// The first byte selects the reader. The bytes after the first zero byte are a text that the
// grammar is walked with.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/testing.h"
#include "grammar/token_masks.h"

namespace {

using forerun::grammar::Grammar;
using forerun::grammar::GrammarLimits;
using forerun::grammar::GrammarState;
using forerun::grammar::SchemaReading;
using forerun::grammar::TokenMasks;
using forerun::grammar::VocabularyTrie;

void check_mask(const GrammarState& state, TokenMasks& masks) {
  uint64_t steps = 0;
  const auto mask = masks.find(state, 0, UINT64_MAX, steps);
  if (mask->too_costly) return;
  if (mask->bits != brute_force_mask(state, masks.vocabulary())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string_view source = bytes.substr(0, bytes.find('\0'));
  const std::string_view walked = bytes.substr(std::min(source.size() + 1, bytes.size()));
  GrammarLimits limits;
  limits.max_text_bytes = 4096;
  limits.max_states = 2000;
  limits.max_expressions = 20'000;
  limits.max_work = 300'000;
  const auto reading = data[0] % 4 == 0 ? SchemaReading::kLetter : SchemaReading::kIntent;
  const auto grammar = data[0] % 2 == 0 ? Grammar::from_json_schema(source, limits, reading)
                                        : Grammar::from_text(source, limits);
  if (!grammar.ok()) {
    if (grammar.status().message().empty()) std::abort();
    return 0;
  }
  static const auto vocabulary = std::make_shared<const VocabularyTrie>(
      forerun::grammar::synthetic_tokens("{\"a\": [1, -2.5e3, \"\xc3\xa9\\n\"]} the end", 20, 5));
  TokenMasks masks(vocabulary);
  GrammarState state = grammar->start();
  // From every state some byte leads on, unless the text is complete.
  check_mask(state, masks);
  for (const char c : walked.substr(0, 16)) {
    if (!state.accept({&c, 1})) break;
    if (!state.is_complete() && !state.can_continue()) std::abort();
    check_mask(state, masks);
  }
  return 0;
}
