#include "engine/loop/reasoning_constraint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace forerun {
namespace {

const std::vector<std::string> kBytes = {
    "a",        "<",    "/",      "t>",    ">",   "\n", "\n\n",         ">1",  ">\n\n1",
    ">\n\n\n1", "</t>", "</t>12", "1",     "2",   "12", "</t>2",        "<t>", "<t",
    ">a</t>1",  "<</",  "",       "<end>", "\n1", "t",  "<t></t>\n\n12"};
constexpr TokenId kEnd = 21;

class ReasoningConstraintTest : public ::testing::Test {
 protected:
  // The format is "12".
  static ReasoningConstraint make(std::string open) {
    // The format's grammar reads no special tokens.
    std::vector<std::string> without_special = kBytes;
    without_special[kEnd] = "";
    auto masks = std::make_shared<grammar::TokenMasks>(
        std::make_shared<const grammar::VocabularyTrie>(without_special));
    const auto grammar = grammar::Grammar::from_text("root ::= \"12\"").value();
    const auto format =
        std::make_shared<const GrammarConstraint>(std::make_shared<GrammarConstraint::Format>(
            GrammarConstraint::Format{.grammar = grammar,
                                      .prepared = masks->prepare(grammar).value(),
                                      .masks = masks,
                                      .end_tokens = {kEnd},
                                      .threads = std::make_shared<MaskThreads>()}));
    auto tokens = std::make_shared<const ReasoningTokens>(
        OutputReasoning{.close = "</t>", .open = std::move(open)},
        std::make_shared<const std::vector<std::string>>(kBytes));
    return ReasoningConstraint(ReasoningConstraint::find_edges(std::move(tokens), *format, {kEnd}),
                               format);
  }
  // Returns whether an output leads to the state: the mask of any other state allows everything.
  static bool is_reached(const ReasoningConstraint& constraint,
                         const TokenConstraint::State& state) {
    std::vector<uint32_t> words(1);
    if (state != nullptr) constraint.allow(state, words);
    return state != nullptr && words[0] != ~0u;
  }
  // Returns the allowed tokens, and "end" if the output may end.
  static std::set<std::string> allowed(const ReasoningConstraint& constraint,
                                       const TokenConstraint::State& state) {
    std::vector<uint32_t> words(1);
    constraint.allow(state, words);
    std::set<std::string> found;
    for (size_t token = 0; token < kBytes.size(); ++token) {
      if ((words[0] >> token & 1) != 0) found.insert(kBytes[token]);
    }
    return found;
  }
  static TokenConstraint::State after(const ReasoningConstraint& constraint,
                                      std::initializer_list<const char*> texts) {
    TokenConstraint::State state = constraint.start();
    for (const char* const text : texts) {
      if (state == nullptr) return nullptr;
      const auto found = std::find(kBytes.begin(), kBytes.end(), text);
      state = constraint.after(state, static_cast<TokenId>(found - kBytes.begin()));
    }
    return state;
  }
};

// After any text, exactly the tokens with which an output continues are allowed, end tokens aside.
TEST_F(ReasoningConstraintTest, MasksAndStepsAgreeWhereverTagsAreCut) {
  for (const char* const open : {"", "<t>"}) {
    const ReasoningConstraint constraint = make(open);
    std::vector<TokenConstraint::State> states = {constraint.start()};
    for (size_t idx = 0; idx < states.size() && idx < 2'000; ++idx) {
      const auto may = allowed(constraint, states[idx]);
      for (size_t token = 0; token < kBytes.size(); ++token) {
        if (static_cast<TokenId>(token) == kEnd) continue;
        const auto next = constraint.after(states[idx], static_cast<TokenId>(token));
        const bool leads = is_reached(constraint, next);
        EXPECT_EQ(leads, may.count(kBytes[token]) > 0) << kBytes[token];
        if (leads && states.size() < 2'000) states.push_back(next);
      }
    }
  }
}

TEST_F(ReasoningConstraintTest, ReasoningIsFreeUpToItsEnd) {
  const ReasoningConstraint constraint = make("");
  std::set<std::string> all(kBytes.begin(), kBytes.end());
  all.erase("<end>");
  all.erase("</t>2");  // the format does not continue like this
  EXPECT_EQ(allowed(constraint, constraint.start()), all);
  EXPECT_EQ(allowed(constraint, after(constraint, {"a", "12", "2"})), all);
  // If the tag is in pieces, its last bytes may be followed by line breaks and the format's
  // beginning.
  auto within = all;
  within.erase(">\n\n\n1");
  within.erase(">a</t>1");
  EXPECT_EQ(allowed(constraint, after(constraint, {"a", "<</", "t"})), within);
  const std::set<std::string> begins = {"1", "12", "\n", "\n\n", "\n1"};
  EXPECT_EQ(allowed(constraint, after(constraint, {"</t>"})), begins);
  EXPECT_EQ(allowed(constraint, after(constraint, {"<</", "t", ">"})), begins);
  EXPECT_EQ(allowed(constraint, after(constraint, {"</t>", "\n"})),
            (std::set<std::string>{"1", "12", "\n", "\n1"}));
  EXPECT_EQ(allowed(constraint, after(constraint, {"</t>", "\n", "\n"})),
            (std::set<std::string>{"1", "12"}));
  for (const auto& begun :
       {after(constraint, {"</t>", "\n\n", "1"}), after(constraint, {"<", "/", "t", ">\n\n1"}),
        after(constraint, {"</t>", "\n1"})}) {
    EXPECT_EQ(allowed(constraint, begun), std::set<std::string>{"2"});
  }
  EXPECT_EQ(allowed(constraint, after(constraint, {"</t>12"})), std::set<std::string>{"<end>"});
}

TEST_F(ReasoningConstraintTest, AnOutputMayOpenItsReasoningItself) {
  const ReasoningConstraint constraint = make("<t>");
  EXPECT_EQ(allowed(constraint, constraint.start()),
            (std::set<std::string>{"1", "12", "<", "<t", "<t>", "<t></t>\n\n12"}));
  // Once the output has begun with one of the two, it must continue with that one.
  EXPECT_EQ(allowed(constraint, after(constraint, {"1"})), std::set<std::string>{"2"});
  EXPECT_EQ(allowed(constraint, after(constraint, {"<t"})),
            (std::set<std::string>{">", ">1", ">\n\n1", ">\n\n\n1", ">a</t>1"}));
  const auto reasoning = after(constraint, {"<", "t", ">"});
  EXPECT_EQ(allowed(constraint, reasoning), allowed(make(""), make("").start()));
  EXPECT_EQ(allowed(constraint, after(constraint, {"<t>", "a", "</t>", "12"})),
            std::set<std::string>{"<end>"});
  EXPECT_EQ(allowed(constraint, after(constraint, {"<t></t>\n\n12"})),
            std::set<std::string>{"<end>"});
}

// Masks of the format are prepared where they decide; reasoning needs none.
TEST_F(ReasoningConstraintTest, TheFormatsMasksAreAskedFor) {
  const ReasoningConstraint constraint = make("");
  int64_t steps = 0;
  EXPECT_EQ(constraint.prepare(constraint.start(), steps), MaskState::kReady);
  const auto behind = after(constraint, {"a", "</t>"});
  EXPECT_EQ(constraint.prepare(behind, steps), MaskState::kLate);
  steps = 1'000'000;
  const auto begun = after(constraint, {"a", "</t>", "1"});
  EXPECT_EQ(constraint.prepare(begun, steps), MaskState::kReady);
  EXPECT_LT(steps, 1'000'000);
  EXPECT_FALSE(constraint.is_late(begun));
  EXPECT_TRUE(constraint.error(begun).ok());
}

}  // namespace
}  // namespace forerun
