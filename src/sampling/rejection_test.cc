#include "sampling/rejection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "base/sanitized.h"

namespace forerun {
namespace {

constexpr int kVocab = 8;

struct RejectionCase {
  std::vector<float> target;
  std::vector<float> draft;
  SamplingParams params;
  int32_t children = 1;
};

std::vector<RejectionCase> cases() {
  std::vector<RejectionCase> all;
  const std::vector<float> target = {0.2f, 1.5f, -0.3f, 0.9f, -2.0f, 0.0f, 1.1f, -1.0f};
  const std::vector<std::vector<float>> drafts = {
      {0.1f, 1.2f, 0.3f, 0.5f, -1.0f, 0.2f, 1.4f, -1.5f},   // close
      {2.0f, -1.0f, 1.0f, -2.0f, 2.0f, 0.0f, -1.0f, 1.0f},  // opposite
      target,                                               // the same
      {0, 0, 0, 0, 0, 0, 0, 0}};
  uint64_t seed = 1;
  for (const auto& draft : drafts) {
    for (int32_t children : {0, 1, 2, 4}) {
      for (int filter = 0; filter < 3; ++filter) {
        RejectionCase test;
        test.target = target;
        test.draft = draft;
        test.children = children;
        test.params.temperature = filter == 0 ? 1.0f : 0.7f;
        if (filter == 1) test.params.top_k = 4;
        if (filter == 2) test.params.top_p = 0.8f;
        test.params.seed = seed++;
        all.push_back(test);
      }
    }
  }
  return all;
}

using Rule =
    std::function<TokenId(const RejectionCase&, const RowContext&, std::span<const TokenId>,
                          const DraftDistribution&, SamplerScratch&)>;

TokenId right_rule(const RejectionCase& test, const RowContext& context,
                   std::span<const TokenId> children, const DraftDistribution& draft,
                   SamplerScratch& scratch) {
  RejectionOutcome outcome;
  EXPECT_TRUE(accept_child(test.target, context, children, &draft, scratch, &outcome).ok());
  if (outcome.child_idx >= 0) {
    EXPECT_EQ(children[static_cast<size_t>(outcome.child_idx)], outcome.token);
  }
  return outcome.token;
}

// Regularized upper incomplete gamma Q(a, x): the p-value of chi-square 2x with 2a degrees.
double upper_gamma(double a, double x) {
  if (x <= 0) return 1.0;
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (int n = 1; n < 500; ++n) sum += term *= x / (a + n);
    return 1 - sum * std::exp(-x + a * std::log(x) - std::lgamma(a));
  }
  double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int n = 1; n < 500; ++n) {
    const double an = -n * (n - a);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    h *= d * c;
  }
  return h * std::exp(-x + a * std::log(x) - std::lgamma(a));
}

double p_value(const RejectionCase& test, const Rule& rule) {
  constexpr int kRounds = 6000;
  SamplerScratch scratch, scratch2;
  std::vector<Candidate> drawn;
  DraftDistribution draft;
  std::vector<double> counts(kVocab);
  std::vector<TokenId> children;
  RowContext context;
  context.params = &test.params;
  for (int position = 0; position < kRounds; ++position) {
    context.position = position;
    EXPECT_TRUE(draw_candidates(test.draft, context, test.children, scratch, &drawn, &draft).ok());
    children.clear();
    for (const Candidate& candidate : drawn) children.push_back(candidate.token);
    counts[static_cast<size_t>(rule(test, context, children, draft, scratch2))] += 1;
  }
  ProcessedRow row;
  EXPECT_TRUE(process_logits(test.target, context, scratch, &row).ok());
  std::vector<float> weights(kVocab);
  const double total = static_cast<double>(dense_weights(row, weights)) / kFixedWeightScale;
  double chi_square = 0;
  int cells = 0;
  for (size_t token = 0; token < kVocab; ++token) {
    const double expected = kRounds * static_cast<double>(weights[token]) / total;
    if (expected == 0) {
      EXPECT_EQ(counts[token], 0) << "a filtered token came out";
      continue;
    }
    ++cells;
    chi_square += (counts[token] - expected) * (counts[token] - expected) / expected;
  }
  return cells < 2 ? 1.0 : upper_gamma((cells - 1) / 2.0, chi_square / 2);
}

// Holm's step-down test at 1% over the whole family: returns how many cases it rejects.
int refused(std::vector<double> p_values) {
  std::sort(p_values.begin(), p_values.end());
  int count = 0;
  for (size_t rank = 0; rank < p_values.size(); ++rank) {
    if (p_values[rank] > 0.01 / static_cast<double>(p_values.size() - rank)) break;
    ++count;
  }
  return count;
}

std::vector<double> all_p_values(const Rule& rule) {
  std::vector<double> p_values;
  for (const RejectionCase& test : cases()) p_values.push_back(p_value(test, rule));
  return p_values;
}

TEST(Rejection, ChiSquareKnownAnswers) {
  EXPECT_NEAR(upper_gamma(2, 18.467 / 2), 0.001, 1e-5);  // 4 degrees of freedom
  EXPECT_NEAR(upper_gamma(0.5, 3.841 / 2), 0.05, 1e-4);
}

TEST(Rejection, IsDistributedAsTheTarget) { EXPECT_EQ(refused(all_p_values(right_rule)), 0); }

// Samples a rejected position from p instead of from the residual.
TEST(Rejection, APlantedWrongRuleIsFound) {
  if (kSanitized) GTEST_SKIP() << "says what the statistics are worth";
  const Rule wrong = [](const RejectionCase& test, const RowContext& context,
                        std::span<const TokenId> children, const DraftDistribution& draft,
                        SamplerScratch& scratch) {
    RejectionOutcome outcome;
    EXPECT_TRUE(accept_child(test.target, context, children, &draft, scratch, &outcome).ok());
    if (outcome.child_idx >= 0) return outcome.token;
    EXPECT_TRUE(accept_child(test.target, context, {}, nullptr, scratch, &outcome).ok());
    return outcome.token;
  };
  EXPECT_GT(refused(all_p_values(wrong)), 5);
}

// Tries repeated children only once: the subtle mistake that the header warns of.
TEST(Rejection, DroppingRepeatedChildrenIsFound) {
  if (kSanitized) GTEST_SKIP() << "says what the statistics are worth";
  const Rule wrong = [](const RejectionCase& test, const RowContext& context,
                        std::span<const TokenId> children, const DraftDistribution& draft,
                        SamplerScratch& scratch) {
    std::vector<TokenId> distinct;
    for (TokenId child : children) {
      if (std::find(distinct.begin(), distinct.end(), child) == distinct.end()) {
        distinct.push_back(child);
      }
    }
    return right_rule(test, context, distinct, draft, scratch);
  };
  EXPECT_GT(refused(all_p_values(wrong)), 0);
}

TEST(Rejection, TheSameDistributionIsAlwaysAccepted) {
  const RejectionCase test = cases()[2 * 12 + 3];  // the draft equals the target, one child
  SamplerScratch scratch;
  std::vector<Candidate> drawn;
  DraftDistribution draft;
  for (int position = 0; position < 500; ++position) {
    RowContext context;
    context.params = &test.params;
    context.position = position;
    ASSERT_TRUE(draw_candidates(test.target, context, 1, scratch, &drawn, &draft).ok());
    const TokenId child = drawn[0].token;
    RejectionOutcome outcome;
    ASSERT_TRUE(accept_child(test.target, context, {&child, 1}, &draft, scratch, &outcome).ok());
    EXPECT_EQ(outcome.child_idx, 0);
  }
}

TEST(Rejection, GreedyAcceptsTheArgMaxOnly) {
  RejectionCase test = cases()[0];
  test.params.temperature = 0.0f;
  RowContext context;
  context.params = &test.params;
  SamplerScratch scratch;
  RejectionOutcome outcome;
  const std::vector<TokenId> with = {6, 1, 3};
  ASSERT_TRUE(accept_child(test.target, context, with, nullptr, scratch, &outcome).ok());
  EXPECT_EQ(outcome.child_idx, 1);
  EXPECT_EQ(outcome.token, 1);
  const std::vector<TokenId> without = {6, 3};
  ASSERT_TRUE(accept_child(test.target, context, without, nullptr, scratch, &outcome).ok());
  EXPECT_EQ(outcome.child_idx, -1);
  EXPECT_EQ(outcome.token, 1);
}

TEST(Rejection, BadLogitsAreTheRowsFault) {
  for (const float temperature : {0.0f, 1.0f}) {
    RejectionCase test = cases()[0];
    test.params.temperature = temperature;
    test.target[3] = NAN;
    RowContext context;
    context.params = &test.params;
    SamplerScratch scratch;
    RejectionOutcome outcome;
    EXPECT_EQ(accept_child(test.target, context, {}, nullptr, scratch, &outcome).code(),
              StatusCode::kInvalidArgument);
  }
}

TEST(Rejection, AMissingDistributionIsReported) {
  const RejectionCase test = cases()[0];
  RowContext context;
  context.params = &test.params;
  SamplerScratch scratch;
  RejectionOutcome outcome;
  const TokenId child = 2;
  EXPECT_EQ(accept_child(test.target, context, {&child, 1}, nullptr, scratch, &outcome).code(),
            StatusCode::kInternal);
}

}  // namespace
}  // namespace forerun
