#include "planner/candidate_acceptance.h"

#include <gtest/gtest.h>

#include <vector>

namespace forerun {
namespace {

std::vector<SpeculationCandidate> two_candidates() {
  return {{.draft = {.budget_tokens = 512}, .view = "snapkv", .acceptance = 0.8},
          {.draft = {.budget_tokens = 1024}, .view = "streaming_llm", .acceptance = 0.6}};
}

TEST(CandidateAcceptance, IsAssumedUntilGuessesAreSeen) {
  const CandidateAcceptance acceptance(two_candidates());
  EXPECT_EQ(acceptance.candidates()[0].acceptance, 0.8);
  EXPECT_EQ(acceptance.candidates()[1].acceptance, 0.6);
}

TEST(CandidateAcceptance, FollowsWhatIsSeenOfEach) {
  CandidateAcceptance acceptance(two_candidates());
  for (int round = 0; round < 400; ++round) acceptance.observe(0, 4, round % 2 == 0 ? 4 : 1);
  // In two rounds, 5 of 6 tokens were accepted.
  EXPECT_NEAR(acceptance.candidates()[0].acceptance, 5.0 / 6.0, 0.03);
  EXPECT_EQ(acceptance.candidates()[1].acceptance, 0.6);
  for (int round = 0; round < 400; ++round) acceptance.observe(0, 4, 0);
  EXPECT_LT(acceptance.candidates()[0].acceptance, 0.3);  // the last 256 count, and the prior
}

TEST(CandidateAcceptance, ReturnsToWhatWasAssumedWhereItDoesNotRun) {
  CandidateAcceptance acceptance(two_candidates());
  for (int round = 0; round < 400; ++round) {
    acceptance.observe(0, 4, 0);
    acceptance.observe(1, 4, 0);
  }
  const double seen = acceptance.candidates()[0].acceptance;
  acceptance.pass(9000.0, 1);
  EXPECT_LT(seen, 0.3);
  EXPECT_NEAR(acceptance.candidates()[0].acceptance, 0.8, 0.01);
  EXPECT_LT(acceptance.candidates()[1].acceptance, 0.3);
}

TEST(CandidateAcceptance, TakesNoHarmFromForeignObservations) {
  CandidateAcceptance acceptance(two_candidates());
  acceptance.observe(-1, 4, 2);
  acceptance.observe(7, 4, 2);
  acceptance.observe(1, 4, 9);
  acceptance.observe(1, 0, 3);
  acceptance.observe(1, -2, -3);
  for (const SpeculationCandidate& each : acceptance.candidates()) {
    EXPECT_GE(each.acceptance, 0.0);
    EXPECT_LE(each.acceptance, 1.0);
  }
}

TEST(CandidateAcceptance, WhatAnEarlierStartSawCountsAsMuchAsWhatIsAssumed) {
  CandidateAcceptance before(two_candidates());
  for (int round = 0; round < 400; ++round) before.observe(0, 4, 0);
  CandidateAcceptance acceptance(two_candidates());
  acceptance.recall(before.measured());
  EXPECT_NEAR(acceptance.candidates()[0].acceptance, 0.4, 0.01);
  EXPECT_EQ(acceptance.candidates()[1].acceptance, 0.6);
}

}  // namespace
}  // namespace forerun
