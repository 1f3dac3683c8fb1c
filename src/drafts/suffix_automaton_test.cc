#include "drafts/suffix_automaton.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>
#include <set>
#include <vector>

#include "drafts/suffix_automaton_source.h"

namespace forerun {
namespace {

using Tokens = std::vector<TokenId>;

// Returns the tokens in `text` right after each occurrence of `what` that is not at its end.
std::set<TokenId> followers(const Tokens& text, const Tokens& what) {
  std::set<TokenId> result;
  for (size_t at = 0; at + what.size() < text.size(); ++at) {
    if (std::equal(what.begin(), what.end(), text.begin() + static_cast<std::ptrdiff_t>(at))) {
      result.insert(text[at + what.size()]);
    }
  }
  return result;
}

bool occurs(const Tokens& text, const Tokens& what) {
  return std::search(text.begin(), text.end(), what.begin(), what.end()) != text.end();
}

Tokens suffix(const Tokens& tokens, size_t length) {
  return Tokens(tokens.end() - static_cast<std::ptrdiff_t>(length), tokens.end());
}

TEST(SuffixAutomaton, LongestMatchesAndFollowersAgreeWithBruteForce) {
  std::mt19937 rng(17);
  for (int trial = 0; trial < 300; ++trial) {
    const auto alphabet = 1 + rng() % 4;
    SuffixAutomaton automaton;
    Tokens text;
    for (auto i = rng() % 60; i > 0; --i) {
      text.push_back(static_cast<TokenId>(rng() % alphabet));
      automaton.append(text.back());
    }
    // The longest suffix that also occurs earlier is the longest one that is followed by a token.
    SuffixAutomaton::Match match = automaton.end();
    size_t longest = 0;
    for (size_t length = 1; length < text.size(); ++length) {
      if (!followers(text, suffix(text, length)).empty()) longest = length;
    }
    ASSERT_EQ(match.length, static_cast<int32_t>(longest));
    Tokens read = suffix(text, longest);
    for (auto i = rng() % 8; i > 0; --i) {
      read.push_back(static_cast<TokenId>(rng() % (alphabet + 1)));
      match = automaton.step(match, read.back());
      size_t expected = 0;
      for (size_t length = 1; length <= read.size(); ++length) {
        if (occurs(text, suffix(read, length))) expected = length;
      }
      ASSERT_EQ(match.length, static_cast<int32_t>(expected));
      std::set<TokenId> edges;
      for (int32_t e = automaton.first_edge(match.state); e >= 0; e = automaton.edge(e).next) {
        ASSERT_TRUE(edges.insert(automaton.edge(e).token).second);
        ASSERT_GE(automaton.edge(e).count, 1);
      }
      ASSERT_EQ(edges, followers(text, suffix(read, expected)));
    }
  }
}

TEST(SuffixAutomaton, PathologicalInputStaysLinear) {
  SuffixAutomaton automaton;
  const std::clock_t begin = std::clock();
  for (int i = 0; i < 200000; ++i) automaton.append(5);              // aaaa...
  for (int i = 0; i < 100000; ++i) automaton.append(i % 2 ? 5 : 6);  // abab...
  for (int i = 0; i < 50000; ++i) automaton.append(i % 317 ? i % 7 : i);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10.0);
  EXPECT_LE(automaton.num_states(), 2 * 350000);
  EXPECT_LE(automaton.num_edges(), 3 * 350000);
}

TEST(SuffixAutomatonSource, ProposesOnlyWhatFollowedAndTrustsLongMatches) {
  std::mt19937 rng(23);
  for (int trial = 0; trial < 200; ++trial) {
    SuffixAutomatonSource source(1);
    Tokens text;
    for (auto i = rng() % 60; i > 0; --i) text.push_back(static_cast<TokenId>(rng() % 4));
    source.observe(text);
    Tokens path;
    for (auto i = rng() % 5; i > 0; --i) path.push_back(static_cast<TokenId>(rng() % 4));
    std::vector<Candidate> out;
    source.propose(path, 10, out);
    double sum = 0.0;
    float before = 0.0f;
    Tokens read = text;
    read.insert(read.end(), path.begin(), path.end());
    for (const Candidate& candidate : out) {
      ASSERT_TRUE(followers(text, {read.back()}).contains(candidate.token));
      EXPECT_LE(candidate.logprob, before);
      before = candidate.logprob;
      sum += std::exp(candidate.logprob);
    }
    EXPECT_LE(sum, 1.0 + 1e-5);
  }
  SuffixAutomatonSource source;
  const Tokens text = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2};
  source.observe(text);
  std::vector<Candidate> out;
  source.propose({}, 3, out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].token, 3);
  const float at_two = out[0].logprob;
  const Tokens path = {3, 4, 5, 6};
  source.propose(path, 3, out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].token, 7);
  EXPECT_GT(out[0].logprob, at_two);
}

}  // namespace
}  // namespace forerun
