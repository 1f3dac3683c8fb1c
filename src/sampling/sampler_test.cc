#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/noise.h"
#include "base/sanitized.h"
#include "sampling/sampler_ref_rig.h"

namespace forerun {
namespace {

// Half of the shapes round the logits, so that ties are frequent.
std::vector<float> normal_logits(int32_t count, uint32_t seed, float spread, bool rounded) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> logits(static_cast<size_t>(count));
  for (float& logit : logits) {
    logit = normal(rng);
    if (rounded) logit = std::round(logit * 2.0f) / 2.0f;
    if (rng() % 50 == 0) logit = -INFINITY;
  }
  logits[rng() % logits.size()] = spread;
  return logits;
}

SamplingParams random_params(std::mt19937& rng, int32_t vocab) {
  SamplingParams params;
  const float temperatures[] = {0.0f, 0.2f, 0.8f, 1.0f, 1.7f, 5.0f};
  params.temperature = temperatures[rng() % 6];
  if (rng() % 3 == 0) params.top_k = static_cast<int32_t>(rng() % 302) - 1;
  if (rng() % 3 == 0) params.top_p = std::array{0.0f, 0.001f, 0.3f, 0.9f, 0.99f}[rng() % 5];
  if (rng() % 3 == 0) params.min_p = std::array{0.001f, 0.05f, 0.5f, 1.0f}[rng() % 4];
  if (rng() % 3 == 0) params.repetition_penalty = 1.3f;
  if (rng() % 3 == 0) params.presence_penalty = 0.7f;
  if (rng() % 3 == 0) params.frequency_penalty = -0.2f;
  if (rng() % 3 == 0) {
    for (int entry = 0; entry < 5; ++entry) {
      params.logit_bias.emplace_back(static_cast<int32_t>(rng()) % vocab, 3.0f);
      params.logit_bias.back().first = std::abs(params.logit_bias.back().first);
    }
  }
  params.seed = (static_cast<uint64_t>(rng()) << 32) | rng();
  return params;
}

TEST(Sampler, EqualsThePlainReferenceOverAllTokens) {
  std::mt19937 rng(4);
  SamplerScratch scratch;
  std::vector<Candidate> none;
  const int32_t vocabs[] = {1, 2, 17, 255, 256, 300, 2049, 8000, 32001};
  const float spreads[] = {0.0f, 0.5f, 3.0f, 12.0f};
  int filtered_cases = 0;
  for (int round = 0; round < (kSanitized ? 300 : 600); ++round) {
    const int32_t vocab = vocabs[rng() % 9];
    const auto logits =
        normal_logits(vocab, static_cast<uint32_t>(rng()), spreads[rng() % 4], rng() % 2 == 0);
    const SamplingParams params = random_params(rng, vocab);
    std::vector<TokenId> sequence(rng() % 60);
    for (TokenId& token : sequence) {
      token = static_cast<TokenId>(rng() % static_cast<uint32_t>(std::min(vocab, 40)));
    }
    const auto split = static_cast<size_t>(rng() % (sequence.size() + 1));
    RowContext context;
    context.params = &params;
    context.position = static_cast<int32_t>(sequence.size());
    context.prompt_tokens = static_cast<int32_t>(rng() % (sequence.size() + 1));
    TokenCounts counts;
    for (size_t index = 0; index < split; ++index) {
      counts.add(sequence[index], static_cast<int32_t>(index) < context.prompt_tokens);
    }
    context.history = &counts;
    context.path = std::span(sequence).subspan(split);

    const ReferenceRow reference =
        reference_process(logits, params, sequence, context.prompt_tokens);
    ProcessedRow row;
    ASSERT_TRUE(process_logits(logits, context, scratch, &row).ok());
    for (size_t token = 0; token < logits.size(); ++token) {
      ASSERT_EQ(row.scan.logits().values[token], reference.logits[token]) << "round " << round;
    }
    if (row.filtered) {
      ++filtered_cases;
      std::vector<TokenId> kept;
      for (const RankedToken& ranked : row.kept) kept.push_back(ranked.token);
      std::vector<TokenId> expected = reference.kept_ranked;
      std::sort(kept.begin(), kept.end());
      std::sort(expected.begin(), expected.end());
      ASSERT_EQ(kept, expected) << "round " << round;
    }
    for (int repeat = 0; repeat < 4; ++repeat) {
      SampledToken sampled;
      ASSERT_TRUE(sample_token(logits, context, scratch, &sampled, &none).ok());
      ASSERT_EQ(sampled.token, reference_sample(reference, params, context.position))
          << "round " << round << " vocab " << vocab << " temperature " << params.temperature;
      if (needs_history(params)) break;  // the history ends at the position
      ++context.position;
    }
  }
  EXPECT_GT(filtered_cases, 100);
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  const std::vector<float> logits = {1.0f, 0.0f, -1.0f, 2.0f, 0.5f};
  SamplingParams params;
  params.temperature = 0.7f;
  params.seed = 99;
  std::vector<double> counts(5);
  SamplerScratch scratch;
  constexpr int kDraws = 20000;
  for (int position = 0; position < kDraws; ++position) {
    RowContext context;
    context.params = &params;
    context.position = position;
    SampledToken sampled;
    ASSERT_TRUE(sample_token(logits, context, scratch, &sampled, nullptr).ok());
    counts[static_cast<size_t>(sampled.token)] += 1;
  }
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit) / 0.7);
  double chi_square = 0;
  for (size_t token = 0; token < 5; ++token) {
    const double expected = kDraws * std::exp(static_cast<double>(logits[token]) / 0.7) / sum;
    chi_square += (counts[token] - expected) * (counts[token] - expected) / expected;
  }
  EXPECT_LT(chi_square, 18.47);  // 4 degrees of freedom, p = 0.001
}

TEST(Sampler, GreedyTakesTheLowestIdAmongEquals) {
  std::vector<float> logits(1000, -1.0f);
  for (size_t token : {300u, 301u, 280u, 999u}) logits[token] = 5.0f;
  SamplingParams params;
  params.temperature = 0.0f;
  RowContext context;
  context.params = &params;
  SamplerScratch scratch;
  SampledToken sampled;
  ASSERT_TRUE(sample_token(logits, context, scratch, &sampled, nullptr).ok());
  EXPECT_EQ(sampled.token, 280);
}

TEST(Sampler, LogprobsAreThoseOfTheRawLogits) {
  const auto logits = normal_logits(5000, 8, 3.0f, false);
  SamplingParams params;
  params.temperature = 0.3f;
  params.top_k = 3;
  params.logprobs = 4;
  params.logit_bias = {{17, 50.0f}};
  RowContext context;
  context.params = &params;
  SamplerScratch scratch;
  SampledToken sampled;
  std::vector<Candidate> alternatives;
  ASSERT_TRUE(sample_token(logits, context, scratch, &sampled, &alternatives).ok());
  EXPECT_EQ(sampled.token, 17);
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit));
  EXPECT_NEAR(sampled.logprob, static_cast<double>(logits[17]) - std::log(sum), 1e-5);
  const ReferenceRow reference = reference_process(logits, {}, {}, 0);
  ASSERT_EQ(alternatives.size(), 4u);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(alternatives[rank].token, reference.kept_ranked[rank]);
    EXPECT_NEAR(
        alternatives[rank].logprob,
        static_cast<double>(logits[static_cast<size_t>(alternatives[rank].token)]) - std::log(sum),
        1e-5);
  }
}

TEST(Sampler, BadLogitsAreReportedWithTheirPosition) {
  SamplingParams params;
  RowContext context;
  context.params = &params;
  context.position = 321;
  SamplerScratch scratch;
  SampledToken sampled;
  for (float bad : {NAN, INFINITY}) {
    std::vector<float> logits(700, 0.0f);
    logits[650] = bad;
    const Status status = sample_token(logits, context, scratch, &sampled, nullptr);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("321"), std::string::npos) << status.message();
  }
  const std::vector<float> masked(700, -INFINITY);
  EXPECT_EQ(sample_token(masked, context, scratch, &sampled, nullptr).code(),
            StatusCode::kInvalidArgument);
}

// Uses parameters that would fail validation: biases and penalties that overflow, and temperatures
// at the limits of floats. Finite logits must still give a token; others are the row's error.
TEST(Sampler, FiniteLogitsStayFiniteBehindEveryProcessor) {
  constexpr float kMax = std::numeric_limits<float>::max();
  SamplerScratch scratch;
  TokenCounts history;
  history.add(100, /*is_prompt=*/true);
  history.add(200, /*is_prompt=*/false);
  history.add(200, /*is_prompt=*/false);
  std::vector<float> logits = normal_logits(700, 5, 8.0f, false);
  logits[100] = 12.0f;
  logits[200] = -12.0f;
  logits[300] = kMax;
  logits[301] = -kMax;
  logits[302] = -INFINITY;
  const std::vector<TokenId> path = {100, 300, 301};
  for (const float bias : {0.0f, 3e38f, -3e38f, kMax, -kMax, INFINITY}) {
    for (const float repetition : {1.0f, 1e-3f, 1e-42f, 1e30f}) {
      for (const float other : {0.0f, kMax, -kMax}) {
        for (const float temperature : {0.0f, 1e-5f, 1.0f, kMax}) {
          SamplingParams params;
          for (const int32_t token : {100, 200, 300, 301}) {
            params.logit_bias.emplace_back(token, bias);
          }
          params.repetition_penalty = repetition;
          params.presence_penalty = other;
          params.frequency_penalty = -other;
          params.temperature = temperature;
          params.top_p = repetition < 1.0f ? 0.9f : 1.0f;
          params.min_p = bias > 0.0f ? 0.1f : 0.0f;
          params.logprobs = 2;
          RowContext context;
          context.params = &params;
          context.position = 9;
          context.history = &history;
          context.path = path;
          const std::span<const float> edited = edited_logits(logits, context, scratch);
          for (size_t token = 0; token < edited.size(); ++token) {
            ASSERT_EQ(std::isfinite(edited[token]), std::isfinite(logits[token])) << token;
          }
          SampledToken sampled;
          std::vector<Candidate> top;
          Status status = sample_token(logits, context, scratch, &sampled, &top);
          EXPECT_TRUE(status.ok()) << status.message();
          EXPECT_TRUE(std::isfinite(sampled.logprob));
          for (const bool shared : {true, false}) {
            status = top_candidates(logits, context, 20, shared, scratch, &top);
            EXPECT_TRUE(status.ok()) << status.message();
            for (const Candidate& candidate : top) EXPECT_TRUE(std::isfinite(candidate.logprob));
          }
          DraftDistribution drawn;
          status = draw_candidates(logits, context, 3, scratch, &top, &drawn);
          EXPECT_TRUE(status.ok()) << status.message();
        }
      }
    }
  }
}

TEST(Sampler, NanBiasesAreTheRowsFault) {
  SamplerScratch scratch;
  SamplingParams params;
  params.logit_bias = {{3, NAN}};
  RowContext context;
  context.params = &params;
  SampledToken sampled;
  const std::vector<float> logits(700, 0.0f);
  EXPECT_EQ(sample_token(logits, context, scratch, &sampled, nullptr).code(),
            StatusCode::kInvalidArgument);
}

TEST(TopCandidates, RankAndWeighTheProcessedDistribution) {
  SamplerScratch scratch;
  std::vector<Candidate> top;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto logits = normal_logits(9000, seed, 3.0f, seed % 2 == 0);
    SamplingParams params;
    params.temperature = seed % 4 == 0 ? 0.0f : 0.8f;
    if (seed % 3 == 1) params.top_p = 0.7f;
    RowContext context;
    context.params = &params;
    context.position = 5;
    ASSERT_TRUE(top_candidates(logits, context, 10, false, scratch, &top).ok());
    const ReferenceRow reference = reference_process(logits, params, {}, 0);
    const double temperature = params.temperature == 0.0f ? 1.0 : 0.8;
    double sum = 0;
    const bool greedy = params.temperature == 0.0f;
    for (int32_t token : reference.kept_ranked) {
      sum += std::exp(static_cast<double>(logits[static_cast<size_t>(token)]) / temperature);
    }
    ASSERT_EQ(top.size(), std::min<size_t>(10, reference.kept_ranked.size())) << greedy;
    for (size_t rank = 0; rank < top.size(); ++rank) {
      EXPECT_EQ(top[rank].token, reference.kept_ranked[rank]);
      const auto logit = static_cast<double>(logits[static_cast<size_t>(top[rank].token)]);
      EXPECT_NEAR(top[rank].logprob, logit / temperature - std::log(sum), 2e-5);
    }
  }
}

// Tokens that rank high only by their noise are included, at every rank.
TEST(TopCandidates, SharedNoiseRanksAllTokens) {
  SamplerScratch scratch;
  std::vector<Candidate> top;
  int32_t unlikely = 0;  // candidates beyond the 200 most likely tokens
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const auto logits = normal_logits(seed % 2 == 0 ? 9000 : 40, seed, 3.0f, seed % 4 == 3);
    SamplingParams params;
    params.temperature = seed % 3 == 0 ? 0.1f : 1.3f;
    params.seed = seed;
    if (seed % 5 == 1) params.top_p = 0.7f;
    if (seed % 5 == 3) params.min_p = 1e-6f;
    RowContext context;
    context.params = &params;
    context.position = 11;
    const int32_t count = seed % 7 == 0 ? 100 : 8;
    ASSERT_TRUE(top_candidates(logits, context, count, true, scratch, &top).ok());
    const ReferenceRow reference = reference_process(logits, params, {}, 0);
    const float best = logits[static_cast<size_t>(reference.kept_ranked[0])];
    std::vector<std::pair<float, int32_t>> sums;
    for (const int32_t token : reference.kept_ranked) {
      const float score = (logits[static_cast<size_t>(token)] - best) * (1.0f / params.temperature);
      const uint32_t bits =
          noise_bits(params.seed, NoiseStream::kTarget, 11, static_cast<uint32_t>(token));
      sums.emplace_back(-(score + gumbel_noise(bits)), token);
    }
    std::sort(sums.begin(), sums.end());
    ASSERT_EQ(top.size(), std::min(sums.size(), static_cast<size_t>(count))) << seed;
    for (size_t rank = 0; rank < top.size(); ++rank) {
      EXPECT_EQ(top[rank].token, sums[rank].second) << "seed " << seed << " rank " << rank;
      const auto place =
          std::find(reference.kept_ranked.begin(), reference.kept_ranked.end(), top[rank].token);
      unlikely += place - reference.kept_ranked.begin() >= 200 ? 1 : 0;
    }
  }
  EXPECT_GT(unlikely, 50);
}

// If the draft's logits equal the target's, the first candidate is the token that the target
// samples.
TEST(TopCandidates, SharedNoiseFindsTheTargetsOwnDraw) {
  SamplerScratch scratch;
  std::vector<Candidate> top;
  int agreed = 0;
  for (int32_t position = 0; position < 300; ++position) {
    const auto logits = normal_logits(4000, static_cast<uint32_t>(position), 4.0f, false);
    SamplingParams params;
    params.temperature = 0.8f;
    params.seed = 5;
    if (position % 3 == 0) params.top_k = 40;
    RowContext context;
    context.params = &params;
    context.position = position;
    SampledToken sampled;
    ASSERT_TRUE(sample_token(logits, context, scratch, &sampled, nullptr).ok());
    ASSERT_TRUE(top_candidates(logits, context, 8, true, scratch, &top).ok());
    ASSERT_EQ(top.size(), 8u);
    agreed += top[0].token == sampled.token ? 1 : 0;
    double sum = 0;
    for (size_t rank = 0; rank < top.size(); ++rank) {
      if (rank > 0) {
        EXPECT_GE(top[rank - 1].logprob, top[rank].logprob);
      }
      sum += std::exp(static_cast<double>(top[rank].logprob));
    }
    EXPECT_LE(sum, 1.0 + 1e-5);
  }
  EXPECT_GT(agreed, 290);  // the sampled token may be beyond the 128 most likely
}

TEST(DrawCandidates, FollowTheProcessedDistribution) {
  const std::vector<float> logits = {0.0f, 1.0f, -0.5f, 0.3f, -9.0f, 2.0f};
  SamplingParams params;
  params.temperature = 1.3f;
  params.top_k = 4;
  params.seed = 31;
  SamplerScratch scratch;
  std::vector<Candidate> drawn;
  DraftDistribution distribution;
  std::vector<double> counts(6);
  constexpr int kRows = 5000;
  for (int position = 0; position < kRows; ++position) {
    RowContext context;
    context.params = &params;
    context.position = position;
    ASSERT_TRUE(draw_candidates(logits, context, 3, scratch, &drawn, &distribution).ok());
    ASSERT_EQ(drawn.size(), 3u);
    for (const Candidate& candidate : drawn) counts[static_cast<size_t>(candidate.token)] += 1;
  }
  EXPECT_EQ(counts[2], 0);
  EXPECT_EQ(counts[4], 0);
  double sum = 0;
  for (size_t token : {0u, 1u, 3u, 5u}) sum += std::exp(static_cast<double>(logits[token]) / 1.3);
  double chi_square = 0;
  for (size_t token : {0u, 1u, 3u, 5u}) {
    const double p = std::exp(static_cast<double>(logits[token]) / 1.3) / sum;
    EXPECT_NEAR(static_cast<double>(distribution.weights[token]) /
                    (static_cast<double>(distribution.total) / kFixedWeightScale),
                p, 1e-6);
    const double expected = 3 * kRows * p;
    chi_square += (counts[token] - expected) * (counts[token] - expected) / expected;
  }
  EXPECT_LT(chi_square, 16.27);  // 3 degrees of freedom, p = 0.001
}

TEST(TokenCounts, CountsOutputAndRemembersThePrompt) {
  TokenCounts counts;
  std::map<TokenId, int32_t> expected;
  std::mt19937 rng(2);
  for (int index = 0; index < 5000; ++index) {
    const auto token = static_cast<TokenId>(rng() % 700 * 64);
    const bool is_prompt = index < 300;
    counts.add(token, is_prompt);
    expected[token] += is_prompt ? 0 : 1;
  }
  EXPECT_EQ(counts.entries().size(), expected.size());
  for (const auto& [token, count] : expected) {
    ASSERT_NE(counts.find(token), nullptr);
    EXPECT_EQ(counts.find(token)->output_count, count);
  }
  EXPECT_EQ(counts.find(1), nullptr);
}

}  // namespace
}  // namespace forerun
