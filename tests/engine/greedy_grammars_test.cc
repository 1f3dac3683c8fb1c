// Grammars that read a text in very many ways, below a whole engine loop, with every way to
// speculate: the same tokens, and the same error after the same tokens, as without; beside them a
// request without a grammar goes on as if they were not there.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/sanitized.h"
#include "engine/loop/engine_loop.h"
#include "engine/loop/grammar_constraint.h"
#include "exec/exec_rig.h"
#include "grammar/testing.h"
#include "strategies/every_policy.h"
#include "support/submit_to_loop.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

using grammar::Grammar;
using grammar::TokenMasks;
using grammar::VocabularyTrie;

// A vocabulary as large as the fake models'; tokens 0 to 2 are not text.
std::shared_ptr<const VocabularyTrie> vocabulary() {
  static const auto trie = [] {
    const std::string words = "the quick brown fox jumps over the lazy dog ";
    std::vector<std::string> tokens(3);
    for (size_t at = 0; static_cast<int32_t>(tokens.size()) < kVocab; at += 3) {
      tokens.push_back(words.substr(at % (words.size() - 5), 1 + at % 5));
    }
    return std::make_shared<const VocabularyTrie>(tokens);
  }();
  return trie;
}

struct Loop {
  explicit Loop(const Rig::Options& options) : rig(options) {
    loop = std::make_unique<EngineLoop>(EngineLoop::Options{}, std::move(rig.executor));
  }
  ~Loop() { loop.reset(); }
  std::shared_ptr<RequestStream> submit(const Request& request,
                                        std::shared_ptr<const TokenConstraint> constraint) {
    return submit_to_loop(*loop, request, toy_tokenizer(),
                          {.target_vocab = kVocab, .draft_vocab = kVocab}, std::move(constraint));
  }
  Rig rig;
  std::unique_ptr<EngineLoop> loop;
};

Request request_of(uint64_t seed, const SpeculationOptions& speculation) {
  Request request;
  request.prompt_tokens = {5, 7, static_cast<int32_t>(seed % 50) + 3};
  request.max_new_tokens = 24;
  request.ignore_eos = true;
  request.sampling.temperature = seed % 2 == 0 ? 0.0f : 0.9f;
  request.sampling.seed = seed;
  request.speculation = speculation;
  return request;
}

std::shared_ptr<GrammarConstraint::Format> format_of(const std::string& text, bool fails,
                                                     const std::shared_ptr<MaskThreads>& threads) {
  const auto grammar = Grammar::from_text(text);
  EXPECT_TRUE(grammar.ok()) << grammar.status().message();
  auto masks = std::make_shared<TokenMasks>(vocabulary());
  const auto prepared = masks->prepare(*grammar);
  EXPECT_TRUE(prepared.ok()) << prepared.status().message();
  // With so few steps made at once, most masks are late.
  MaskBudget budget{.inline_steps = 30};
  if (fails) {
    budget.request = 4'000;
    budget.per_token = 20;
  }
  return std::make_shared<GrammarConstraint::Format>(
      GrammarConstraint::Format{.grammar = *grammar,
                                .prepared = *prepared,
                                .masks = masks,
                                .end_tokens = {},
                                .threads = threads,
                                .budget = budget});
}

// How many requests have failed.
int compare_with_plain_decoding(bool fails) {
  const auto threads = std::make_shared<MaskThreads>();
  const std::vector<SpeculationOptions> policies = every_exact_policy();
  const SpeculationOptions plain{.strategy = "autoregressive"};
  int failed = 0;
  size_t policy = 0;
  uint64_t seed = 0;
  for (const auto& greedy : grammar::greedy_grammars()) {
    if (!fails && greedy.always_costly) continue;
    const auto format = format_of(greedy.text, fails, threads);
    for (int turn = 0; turn < (kSanitized ? 4 : 8); ++turn) {
      ++seed;
      const Rig::Options options{.threaded = turn % 2 == 1, .draft_astray_one_in = 6};
      Output expected, neighbour_alone;
      {
        Loop loop(options);
        expected = drain(
            *loop.submit(request_of(seed, plain), std::make_shared<GrammarConstraint>(format)));
        neighbour_alone = drain(*loop.submit(request_of(seed + 1, plain), nullptr));
      }
      failed += !expected.error.ok();
      const SpeculationOptions& speculation = policies[5 * policy++ % policies.size()];
      SCOPED_TRACE(std::string(greedy.name) + " " + policy_name(speculation) + " seed " +
                   std::to_string(seed));
      Loop loop(options);
      auto neighbour = loop.submit(request_of(seed + 1, plain), nullptr);
      auto held =
          loop.submit(request_of(seed, speculation), std::make_shared<GrammarConstraint>(format));
      const Output output = drain(*held);
      EXPECT_EQ(output.tokens, expected.tokens);
      EXPECT_EQ(output.error.code(), expected.error.code());
      if (!expected.error.ok()) {
        EXPECT_EQ(output.error.code(), StatusCode::kInvalidArgument);
        const auto reason = [](const Status& error) {
          return error.message().substr(error.message().find("output_format"));
        };
        EXPECT_EQ(reason(output.error), reason(expected.error));
      }
      EXPECT_EQ(drain(*neighbour).tokens, neighbour_alone.tokens);
      EXPECT_EQ(neighbour_alone.tokens.size(), 24u);
    }
  }
  return failed;
}

TEST(GreedyGrammars, TokensAreThoseOfPlainDecoding) {
  EXPECT_EQ(compare_with_plain_decoding(/*fails=*/false), 0);
}

TEST(GreedyGrammars, ErrorsAreThoseOfPlainDecoding) {
  EXPECT_GE(compare_with_plain_decoding(/*fails=*/true), kSanitized ? 4 : 16);
}

}  // namespace
}  // namespace forerun::testing
