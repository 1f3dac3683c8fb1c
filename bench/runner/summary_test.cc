#include "runner/summary.h"

#include <gtest/gtest.h>

namespace forerun::bench {
namespace {

// Makes a request with `tokens` after its first one, in `seconds` and the given steps of both
// models.
RunnerSample sample(int tokens, double seconds, int steps, int draft_steps, double first_s) {
  RunnerSample made;
  made.tokens = {tokens};
  made.stats.strategy = "serial_tree";
  made.stats.output_tokens = tokens + 1;
  made.stats.decode_s = seconds;
  made.stats.target_steps = steps;
  made.stats.draft_steps = draft_steps;
  made.stats.target_step_s = 0.004;
  made.stats.draft_step_s = 0.001;
  made.stats.drafted_tokens = 4 * steps;
  made.stats.accepted_tokens = tokens - steps;
  made.stats.time_to_first_token_s = first_s;
  return made;
}

TEST(Summary, RatesAreOfTotals) {
  // 1,000 and 100 tokens per second: the total is not 550, nor either prompt's rate.
  const std::vector<RunnerSample> fast_and_slow = {sample(100, 0.1, 20, 40, 0.010),
                                                   sample(100, 1.0, 80, 80, 0.030)};
  const std::vector<RunnerSample> plain = {sample(100, 1.0, 100, 0, 0.010),
                                           sample(100, 1.2, 100, 0, 0.010)};
  const RunnerRow row = summarize(fast_and_slow, plain);
  EXPECT_NEAR(row.tokens_per_s, 200 / 1.1, 1e-9);
  EXPECT_NEAR(row.tokens_per_step, 2.0, 1e-9);
  EXPECT_NEAR(row.step_ms, 11.0, 1e-9);
  EXPECT_NEAR(row.target_ms, 4.0, 1e-9);
  EXPECT_NEAR(row.draft_ms, 1.0, 1e-9);
  EXPECT_NEAR(row.draft_steps_per_step, 1.2, 1e-9);
  EXPECT_NEAR(row.acceptance, 0.25, 1e-9);
  EXPECT_NEAR(row.ratio_to_baseline, 2.0, 1e-9);
  EXPECT_NEAR(row.ratio_worst, 1.2, 1e-9);
  EXPECT_EQ(row.identical, 2);
  EXPECT_EQ(row.prompts, 2);
}

TEST(Summary, TheTimeToTheFirstTokenIsTheMedianPrompts) {
  std::vector<RunnerSample> four;
  for (const double first_s : {0.040, 0.010, 0.020, 0.100}) {
    four.push_back(sample(10, 0.1, 5, 5, first_s));
  }
  EXPECT_NEAR(summarize(four, four).time_to_first_token_ms, 30.0, 1e-9);
  four.pop_back();
  EXPECT_NEAR(summarize(four, four).time_to_first_token_ms, 20.0, 1e-9);
}

TEST(Summary, RequestsOfOneTokenHaveNoRate) {
  const std::vector<RunnerSample> samples = {sample(0, 0.0, 0, 0, 0.010)};
  const RunnerRow row = summarize(samples, samples);
  EXPECT_EQ(row.tokens_per_s, 0.0);
  EXPECT_EQ(row.ratio_worst, 0.0);
  EXPECT_EQ(row.time_to_first_token_ms, 10.0);
}

}  // namespace
}  // namespace forerun::bench
