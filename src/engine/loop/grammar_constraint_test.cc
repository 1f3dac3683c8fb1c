// A grammar as a constraint: masks follow the grammar, whether they are made at once or by threads;
// whether a request exceeds its budget depends only on its own tokens; cheap masks overtake
// expensive ones.
#include "engine/loop/grammar_constraint.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/sanitized.h"
#include "grammar/testing.h"

namespace forerun {
namespace {

using grammar::Grammar;
using grammar::TokenMasks;
using grammar::VocabularyTrie;

const char kSample[] = "the quick brown fox jumps over the lazy dog and so on until the end of it";

std::shared_ptr<const VocabularyTrie> vocabulary() {
  static const auto trie =
      std::make_shared<const VocabularyTrie>(grammar::synthetic_tokens(kSample, 200, 3));
  return trie;
}

std::shared_ptr<GrammarConstraint::Format> format_of(const std::string& text,
                                                     const MaskBudget& budget = {}) {
  auto grammar = Grammar::from_text(text);
  EXPECT_TRUE(grammar.ok()) << grammar.status().message();
  auto masks =
      std::make_shared<TokenMasks>(vocabulary(), grammar::TokenMaskLimits{.state_steps = 200'000});
  const auto prepared = masks->prepare(*grammar);
  EXPECT_TRUE(prepared.ok()) << prepared.status().message();
  return std::make_shared<GrammarConstraint::Format>(
      GrammarConstraint::Format{.grammar = *grammar,
                                .prepared = *prepared,
                                .masks = masks,
                                .end_tokens = {1},
                                .threads = std::make_shared<MaskThreads>(),
                                .budget = budget});
}

MaskState wait_for(const GrammarConstraint& constraint, const TokenConstraint::State& state,
                   int64_t steps = 1'000'000'000) {
  MaskState now = constraint.prepare(state, steps);
  while (now == MaskState::kLate) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (!constraint.is_late(state)) now = constraint.prepare(state, steps);
  }
  return now;
}

std::vector<int32_t> allowed(const GrammarConstraint& constraint,
                             const TokenConstraint::State& state) {
  std::vector<uint32_t> words(vocabulary()->mask_words());
  constraint.allow(state, words);
  std::vector<int32_t> ids;
  for (int32_t id = 2; id < vocabulary()->vocab_size(); ++id) {
    if ((words[static_cast<size_t>(id) / 32] >> (id % 32)) & 1) ids.push_back(id);
  }
  return ids;
}

struct Walked {
  std::vector<int32_t> tokens;
  std::string error;
  bool operator==(const Walked&) const = default;
};

// Samples tokens at random until none is allowed, an error occurs, or there are `most`. With
// `guesses` it also requests the masks after other tokens all the time.
Walked walk(const std::shared_ptr<GrammarConstraint::Format>& format, bool guesses, int64_t steps,
            size_t most) {
  const GrammarConstraint constraint(format);
  std::mt19937 random(5), other(6);
  Walked walked;
  TokenConstraint::State state = constraint.start();
  while (walked.tokens.size() < most) {
    if (wait_for(constraint, state, steps) == MaskState::kFailed) {
      walked.error = constraint.error(state).message();
      break;
    }
    const std::vector<int32_t> ids = allowed(constraint, state);
    if (ids.empty()) break;
    if (guesses) {
      TokenConstraint::State guess = state;
      for (int depth = 0; depth < 3 && guess != nullptr; ++depth) {
        guess = constraint.after(guess, static_cast<int32_t>(other() % 400) + 2);
        int64_t left = steps;
        if (guess != nullptr) constraint.prepare(guess, left);
      }
    }
    walked.tokens.push_back(ids[random() % ids.size()]);
    state = constraint.after(state, walked.tokens.back());
  }
  return walked;
}

TEST(GrammarConstraint, AMaskIsTheSameWhoeverMakesIt) {
  for (const auto& greedy : grammar::greedy_grammars()) {
    SCOPED_TRACE(greedy.name);
    if (greedy.always_costly) continue;
    const auto format = format_of(greedy.text);
    const Walked at_once = walk(format, false, 1'000'000'000, 12);
    EXPECT_EQ(walk(format_of(greedy.text), true, 0, 12), at_once);
    EXPECT_TRUE(at_once.error.empty()) << at_once.error;
    // Each mask must agree with the grammar for each token.
    const GrammarConstraint constraint(format);
    TokenConstraint::State state = constraint.start();
    grammar::GrammarState expected = format->grammar.start();
    for (const int32_t token : at_once.tokens) {
      std::vector<uint32_t> words(vocabulary()->mask_words());
      constraint.allow(state, words);  // the first request for this state's mask
      std::vector<uint32_t> bits = brute_force_mask(expected, *vocabulary());
      if (expected.is_complete()) bits[0] |= 2;
      EXPECT_EQ(words, bits);
      state = constraint.after(state, token);
      ASSERT_TRUE(expected.accept(vocabulary()->token(token)));
    }
  }
}

// The error and the tokens before it are the same with guesses and without, for any inline budget
// and any cached masks.
TEST(GrammarConstraint, AnEndTokenThatIsTextEndsOnlyWholeOutputs) {
  int32_t letter = 0;  // a one-letter token: text, and here also an end token
  while (vocabulary()->token(letter) != "e") ASSERT_LT(++letter, vocabulary()->vocab_size());
  auto format = format_of("root ::= [a-z]{2,9}");
  format->end_tokens = {letter};
  const GrammarConstraint constraint(format);
  std::vector<uint32_t> words(vocabulary()->mask_words());
  const auto allows = [&](const TokenConstraint::State& state) {
    EXPECT_EQ(wait_for(constraint, state), MaskState::kReady);
    constraint.allow(state, words);
    return (words[static_cast<size_t>(letter) / 32] >> (letter % 32) & 1) != 0;
  };
  EXPECT_FALSE(allows(constraint.begin("")));
  EXPECT_FALSE(allows(constraint.begin("a")));
  EXPECT_TRUE(allows(constraint.begin("ab")));
}

TEST(GrammarConstraint, ARequestExceedsItsBudgetByItsOwnTokensAlone) {
  int failed = 0;
  auto grammars = grammar::greedy_grammars();
  if (kThreadSanitized) grammars.resize(2);
  const auto budgets =
      kSanitized ? std::vector<uint64_t>{3'000} : std::vector<uint64_t>{3'000, 12'000};
  for (const auto& greedy : grammars) {
    SCOPED_TRACE(greedy.name);
    for (const uint64_t request : budgets) {
      const MaskBudget budget{.request = request, .per_token = 10};
      const auto format = format_of(greedy.text, budget);
      const Walked expected = walk(format, false, 1'000'000'000, 40);
      failed += !expected.error.empty();
      EXPECT_EQ(walk(format, true, 0, 40), expected);  // all masks are cached by now
      EXPECT_EQ(walk(format_of(greedy.text, budget), true, 500, 40), expected);
    }
  }
  EXPECT_GE(failed, kThreadSanitized ? 1 : kSanitized ? 3 : 8);
}

TEST(GrammarConstraint, TheErrorSaysWhatWasExceeded) {
  const auto format =
      format_of(grammar::greedy_grammars()[0].text, {.request = 3'000, .per_token = 10});
  const Walked walked = walk(format, false, 1'000'000'000, 400);
  EXPECT_NE(walked.error.find("output_format: after " + std::to_string(walked.tokens.size()) +
                              " tokens of output"),
            std::string::npos)
      << walked.error;
  EXPECT_NE(walked.error.find("more than 3000 and 10 a token; accepted: grammars"),
            std::string::npos)
      << walked.error;
}

// Resumes a text of thirty thousand tokens without requests for the states between.
TEST(GrammarConstraint, LongTextsMayBeAskedForOrForgotten) {
  const auto format = format_of("root ::= [a-z ]*");
  const GrammarConstraint constraint(format);
  for (const bool asked : {false, true}) {
    TokenConstraint::State state = constraint.start();
    for (int i = 0; i < 30'000; ++i) state = constraint.after(state, 'a');
    if (asked) {
      EXPECT_EQ(wait_for(constraint, state, 0), MaskState::kReady);
    }
  }
}

// begin() accepts any bytes.
TEST(GrammarConstraint, AnOutputMayBeginInTheMiddleOfAToken) {
  const GrammarConstraint constraint(format_of("root ::= \"ab\" [0-9]"));
  EXPECT_EQ(constraint.begin("b"), nullptr);
  const auto begun = constraint.begin("a");
  ASSERT_NE(begun, nullptr);
  EXPECT_EQ(wait_for(constraint, begun), MaskState::kReady);
  for (const int32_t id : allowed(constraint, begun)) {
    EXPECT_EQ(vocabulary()->token(id)[0], 'b');
  }
  EXPECT_EQ(allowed(constraint, constraint.after(begun, 'b')).size(), 10u);
}

// A guess that no output leads to masks nothing, and is not an error.
TEST(GrammarConstraint, NothingIsMaskedWhereNoOutputLeads) {
  const GrammarConstraint constraint(format_of("root ::= [a-z]*"));
  const auto state = constraint.after(constraint.start(), '!');
  EXPECT_EQ(wait_for(constraint, state), MaskState::kReady);
  EXPECT_TRUE(constraint.error(state).ok());
  EXPECT_EQ(allowed(constraint, state).size(), static_cast<size_t>(vocabulary()->vocab_size()) - 2);
  EXPECT_EQ(constraint.after(state, -1), nullptr);
}

// One request's work never ends; another's is still done soon.
TEST(MaskThreads, CheapWorkOvertakesExpensiveWork) {
  std::atomic<bool> stop{false};
  std::atomic<int> expensive_pieces{0}, with_all_bounds{0};
  MaskThreads threads;
  const auto expensive = threads.new_account();
  for (int piece = 0; piece < 50; ++piece) {
    threads.add(expensive, [&](uint64_t max_steps, uint64_t& steps) {
      ++expensive_pieces;
      if (max_steps == UINT64_MAX) {  // blocks its thread until the test ends
        ++with_all_bounds;
        while (!stop) std::this_thread::yield();
        return true;
      }
      steps += max_steps;
      return false;
    });
  }
  while (with_all_bounds == 0) std::this_thread::yield();
  std::promise<void> done;
  int cheap = 0;
  const auto account = threads.new_account();
  for (int piece = 0; piece < 20; ++piece) {
    threads.add(account, [&](uint64_t, uint64_t& steps) {
      steps += 100;
      if (++cheap == 20) done.set_value();
      return true;
    });
  }
  EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(with_all_bounds, 1);
  stop = true;
}

// The request that has been served less comes first, and work that runs out of memory is tried
// again.
TEST(MaskThreads, TimeIsSharedBySteps) {
  MaskThreads threads;
  std::atomic<int> left{60};
  std::atomic<int64_t> served[2] = {0, 0};
  std::vector<std::shared_ptr<MaskThreads::Account>> accounts = {threads.new_account(),
                                                                 threads.new_account()};
  std::atomic<bool> thrown{false};
  for (int piece = 0; piece < 30; ++piece) {
    for (int who = 0; who < 2; ++who) {
      threads.add(accounts[static_cast<size_t>(who)], [&, who](uint64_t, uint64_t& steps) {
        if (!thrown.exchange(true)) throw std::bad_alloc();
        steps += who == 0 ? 10 : 1000;
        served[who] += who == 0 ? 10 : 1000;
        --left;
        return true;
      });
    }
  }
  while (left > 0) std::this_thread::yield();
  EXPECT_EQ(served[0], 300);
  EXPECT_EQ(served[1], 30'000);
}

}  // namespace
}  // namespace forerun
