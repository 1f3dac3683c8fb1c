#include "strategies/acceptance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace forerun {
namespace {

using Origin = Guess::Origin;

TEST(Acceptance, TrustsTheDraftUntilItHasSeenOtherwise) {
  Acceptance acceptance(nullptr);
  for (float p : {0.001f, 0.1f, 0.5f, 0.9f}) {
    EXPECT_NEAR(acceptance.calibrated(Acceptance::make_note(Origin::kModel, p)), p, 1e-3f);
  }
  EXPECT_LT(acceptance.calibrated(Acceptance::make_note(Origin::kModel, 1.0f)), 1.0f);
  EXPECT_GE(acceptance.calibrated(Acceptance::make_note(Origin::kModel, 0.0f)), 0.0f);
}

TEST(Acceptance, LearnsWhatAnOriginsGuessesAreWorth) {
  const uint32_t model = Acceptance::make_note(Origin::kModel, 0.8f);
  const uint32_t source = Acceptance::make_note(Origin::kSource, 0.4f);
  const uint32_t unseen = Acceptance::make_note(Origin::kModel, 0.1f);
  // One request's estimate has a standard deviation of 0.04; the mean of 50 has 0.006.
  float of_model = 0.0f;
  float of_source = 0.0f;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 rng(seed);
    auto shared = std::make_shared<SharedAcceptance>();
    Acceptance acceptance(shared);
    for (int i = 0; i < 400; ++i) {
      acceptance.observe(model, rng() % 10 < 4);   // the origin says 0.8, the truth is 0.4
      acceptance.observe(source, rng() % 10 < 6);  // the origin says 0.4, the truth is 0.6
    }
    of_model += acceptance.calibrated(model) / 50.0f;
    of_source += acceptance.calibrated(source) / 50.0f;
    // Other probabilities stay unchanged.
    EXPECT_NEAR(acceptance.calibrated(unseen), 0.1f, 1e-3f);
    // The next request starts from it; one without shared experience does not.
    EXPECT_NEAR(Acceptance(shared).calibrated(model), 0.4f, 0.1f);
    EXPECT_NEAR(Acceptance(nullptr).calibrated(model), 0.8f, 1e-3f);
  }
  EXPECT_NEAR(of_model, 0.4f, 0.025f);
  EXPECT_NEAR(of_source, 0.6f, 0.035f);
}

TEST(Acceptance, ForgetsOldText) {
  Acceptance acceptance(nullptr);
  const uint32_t note = Acceptance::make_note(Origin::kModel, 0.7f);
  for (int i = 0; i < 300; ++i) acceptance.observe(note, false);
  EXPECT_LT(acceptance.calibrated(note), 0.1f);
  for (int i = 0; i < 300; ++i) acceptance.observe(note, true);
  EXPECT_GT(acceptance.calibrated(note), 0.85f);
}

TEST(Acceptance, WeighsTheGuessesForOneToken) {
  Acceptance acceptance(nullptr);
  const uint32_t sure = Acceptance::make_note(Origin::kModel, 0.7f);
  for (int i = 0; i < 300; ++i) acceptance.observe(sure, false);
  std::vector<Guess> guesses = {{.token = 1, .logprob = std::log(0.7f)},
                                {.token = 2, .logprob = std::log(0.2f)},
                                {.token = 3, .logprob = std::log(0.2f)}};
  acceptance.weigh(guesses);
  EXPECT_EQ(guesses[0].token, 2);  // equal guesses keep their order
  EXPECT_EQ(guesses[1].token, 3);
  EXPECT_EQ(guesses[2].token, 1);
  EXPECT_EQ(guesses[2].note, sure);
  EXPECT_NEAR(std::exp(guesses[0].logprob), 0.2f, 1e-3f);
  // Chances with too large a sum are scaled.
  guesses = {{.token = 1, .logprob = std::log(0.9f)}, {.token = 2, .logprob = std::log(0.9f)}};
  Acceptance(nullptr).weigh(guesses);
  EXPECT_NEAR(std::exp(guesses[0].logprob) + std::exp(guesses[1].logprob), 0.99f, 1e-3f);
  guesses.clear();
  acceptance.weigh(guesses);
  EXPECT_TRUE(guesses.empty());
}

TEST(DraftProfile, ConvergesFastAtFirstAndStaysPutLater) {
  DraftProfile profile;
  const std::array<float, DraftProfile::kRanks> seen = {0.9f, 0.05f, 0.0f, 0.0f};
  for (int i = 0; i < 12; ++i) profile.observe(0, seen, 24.0f);
  EXPECT_GT(profile.chances(0)[0], 0.8f);
  EXPECT_NEAR(profile.chances(1)[0], DraftProfile().chances(1)[0], 1e-6f);
  for (int i = 0; i < 200; ++i) profile.observe(0, seen, 24.0f);
  profile.observe(0, {}, 24.0f);
  EXPECT_GT(profile.chances(0)[0], 0.85f);
  profile.weaken();
  profile.observe(0, {}, 24.0f);
  EXPECT_LT(profile.chances(0)[0], 0.75f);
}

}  // namespace
}  // namespace forerun
