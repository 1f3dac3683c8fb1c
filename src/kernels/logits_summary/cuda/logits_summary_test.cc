// Tests that a GPU's summaries are exact where they must be, and always contain the token that the
// host's sampler draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/noise.h"
#include "device/cuda/cuda_testing.h"
#include "device/cuda/peer_group.h"
#include "kernels/logits_summary/cuda/logits_summary_rig.h"
#include "sampling/sampler.h"

namespace forerun {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

enum class Pattern { kNormal, kPeaked, kSteps, kFlat, kMasked, kOneToken, kAllMasked, kWide };
constexpr Pattern kPatterns[] = {Pattern::kNormal, Pattern::kPeaked,   Pattern::kSteps,
                                 Pattern::kFlat,   Pattern::kMasked,   Pattern::kOneToken,
                                 Pattern::kWide,   Pattern::kAllMasked};

std::vector<float> row_of(Pattern pattern, int32_t vocab, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0f, pattern == Pattern::kWide ? 3000.0f : 2.5f);
  std::vector<float> row(static_cast<size_t>(vocab));
  for (float& logit : row) {
    logit = normal(rng);
    if (pattern == Pattern::kSteps) logit = std::round(logit * 4.0f) / 4.0f;  // includes -0
    if (pattern == Pattern::kFlat) logit = 1.5f;
    if (pattern == Pattern::kMasked && rng() % 3 != 0) logit = -kInfinity;
    if (pattern == Pattern::kOneToken || pattern == Pattern::kAllMasked) logit = -kInfinity;
  }
  if (pattern == Pattern::kPeaked) {
    for (int peak = 0; peak < 6; ++peak)
      row[rng() % row.size()] = 14.0f + 0.5f * static_cast<float>(peak % 3);
  }
  if (pattern == Pattern::kOneToken) row[rng() % row.size()] = -7.0f;
  return row;
}

struct Row {
  std::vector<float> logits;  // logits of the part
  std::string what;
};

// The number of tokens that the kernel lists by its rule: those at most k eighths, rounded down,
// below the largest logit, with the smallest k for which `top` threads have such a token; k = 255
// lists all. -1 if there are more than a list holds.
struct ListLength {
  int32_t num_listed = 0;
  bool lists_all = false;
};
ListLength list_length(const Row& row, const RowQuery& query, const TokenLogit& best) {
  if (best.token < 0) return {.num_listed = 0, .lists_all = true};
  if (query.top <= 0) return {};
  constexpr size_t kThreads = 8 * 1024;  // threads per row; they take quads of tokens round-robin
  constexpr int kLast = 255;
  const auto eighths_below = [&best](float logit) {
    const float depth = (best.logit - logit) * 8.0f;
    return depth < static_cast<float>(kLast) ? static_cast<int>(depth) : kLast;
  };
  std::vector<float> best_of_thread(kThreads, -kInfinity);
  for (size_t index = 0; index < row.logits.size(); ++index) {
    float& thread = best_of_thread[index / 4 % kThreads];
    thread = std::max(thread, row.logits[index]);
  }
  std::vector<int32_t> threads(kLast + 1);
  for (const float logit : best_of_thread) {
    if (logit > -kInfinity) ++threads[static_cast<size_t>(eighths_below(logit))];
  }
  int last = 0;
  for (int32_t reached = threads[0]; reached < query.top && last < kLast;) {
    reached += threads[static_cast<size_t>(++last)];
  }
  int32_t length = 0;
  for (const float logit : row.logits) {
    length += logit > -kInfinity && eighths_below(logit) <= last ? 1 : 0;
  }
  if (length > LogitsSummary::kMaxListed) return {.num_listed = -1};
  return {.num_listed = length, .lists_all = last == kLast};
}

// Checks that a list of kNoisyTop contains the best tokens by the host's arithmetic.
void check_list_by_noise(const Row& row, int32_t first_token, const RowQuery& query,
                         const LogitsSummary& summary) {
  const auto unmasked =
      std::count_if(row.logits.begin(), row.logits.end(), [](float l) { return l > -kInfinity; });
  if (summary.num_listed < 0) {
    EXPECT_GT(unmasked, LogitsSummary::kMaxListed) << row.what;
    return;
  }
  std::set<int32_t> listed;
  for (int32_t i = 0; i < summary.num_listed; ++i) {
    const TokenLogit& token = summary.listed[i];
    const int32_t index = token.token - first_token;
    ASSERT_TRUE(index >= 0 && index < static_cast<int32_t>(row.logits.size())) << row.what;
    EXPECT_EQ(token.logit, row.logits[static_cast<size_t>(index)]) << row.what;
    EXPECT_TRUE(listed.insert(token.token).second) << row.what << ": twice " << token.token;
  }
  if (summary.lists_all != 0) {
    EXPECT_EQ(summary.num_listed, unmasked) << row.what;
  }
  LogitsSummary best;
  logits_summary_ref(row.logits, first_token, query, nullptr, &best);
  const auto wanted = std::min<int64_t>(query.top, unmasked);
  for (int32_t i = 0; i < wanted; ++i) {
    EXPECT_TRUE(listed.contains(best.listed[i].token)) << row.what << ": number " << i;
  }
}

// Compares a summary with the host's result for the same part.
void check(const Row& row, int32_t first_token, const RowQuery& query,
           const LogitsSummary& summary) {
  LogitsSummary expected;
  logits_summary_ref(row.logits, first_token, query, nullptr, &expected);
  ASSERT_EQ(summary.bad, expected.bad) << row.what;
  if (expected.bad != 0) return;
  ASSERT_EQ(summary.best.token, expected.best.token) << row.what;
  ASSERT_EQ(summary.best.logit, expected.best.logit) << row.what;
  EXPECT_EQ(summary.has_weights, 1) << row.what;
  EXPECT_EQ(summary.weight_origin, expected.weight_origin) << row.what;
  EXPECT_EQ(summary.weights, expected.weights) << row.what;
  EXPECT_EQ(summary.raw_weights, expected.raw_weights) << row.what;
  const auto logit_of = [&](int32_t token) {
    return row.logits[static_cast<size_t>(token - first_token)];
  };

  const bool by_noise = (query.kinds & RowQuery::kNoisyTop) != 0 && query.top > 0;
  const ListLength length = list_length(row, query, expected.best);
  EXPECT_EQ(summary.by_noise != 0, by_noise && expected.best.token >= 0) << row.what;
  if (by_noise) {
    ASSERT_NO_FATAL_FAILURE(check_list_by_noise(row, first_token, query, summary));
  } else {
    ASSERT_EQ(summary.num_listed, length.num_listed) << row.what;
    EXPECT_EQ(summary.lists_all != 0, length.lists_all) << row.what;
  }
  if (!by_noise && summary.num_listed >= 0) {
    ASSERT_GE(expected.num_listed, 0) << row.what;
    std::set<int32_t> listed;
    float lowest = kInfinity;
    for (int32_t i = 0; i < summary.num_listed; ++i) {
      const TokenLogit& token = summary.listed[i];
      ASSERT_GE(token.token, first_token) << row.what;
      ASSERT_LT(token.token, first_token + static_cast<int32_t>(row.logits.size())) << row.what;
      EXPECT_EQ(token.logit, logit_of(token.token)) << row.what;
      EXPECT_TRUE(listed.insert(token.token).second) << row.what << ": twice " << token.token;
      lowest = std::min(lowest, token.logit);
    }
    for (int32_t i = 0; i < expected.num_listed; ++i) {
      EXPECT_TRUE(listed.contains(expected.listed[i].token)) << row.what;
    }
    size_t unmasked = 0;
    size_t as_good = 0;
    for (const float logit : row.logits) {
      unmasked += logit > -kInfinity ? 1 : 0;
      as_good += logit >= lowest && logit > -kInfinity ? 1 : 0;
    }
    EXPECT_EQ(as_good, listed.size()) << row.what;
    if (summary.lists_all != 0 && query.top > 0) {
      EXPECT_EQ(unmasked, listed.size()) << row.what;
    }
  }

  if ((query.kinds & RowQuery::kNoise) == 0 || expected.best.token < 0) {
    EXPECT_EQ(summary.num_candidates, 0) << row.what;
    return;
  }
  if (summary.num_candidates < 0) {
    EXPECT_TRUE(expected.num_candidates < 0 || expected.num_candidates > 2) << row.what;
    return;
  }
  // Candidates must include all tokens within half of the margin and none beyond twice the margin.
  ASSERT_GT(summary.num_candidates, 0) << row.what;
  SamplingParams params;
  params.seed = uint64_t{query.seed_high} << 32 | query.seed_low;
  double largest = -1e30;
  const auto sum_of = [&](int32_t token) {
    const auto bits =
        noise_bits(params.seed, NoiseStream::kTarget, query.position, static_cast<uint32_t>(token));
    return (static_cast<double>(logit_of(token)) - static_cast<double>(expected.best.logit)) *
               static_cast<double>(query.inv_temperature) +
           static_cast<double>(gumbel_noise(bits));
  };
  std::vector<int32_t> tokens;
  for (size_t index = 0; index < row.logits.size(); ++index) {
    if (row.logits[index] == -kInfinity) continue;
    tokens.push_back(first_token + static_cast<int32_t>(index));
    largest = std::max(largest, sum_of(tokens.back()));
  }
  std::set<int32_t> nominated;
  for (int32_t i = 0; i < summary.num_candidates; ++i) {
    const TokenLogit& token = summary.candidates[i];
    nominated.insert(token.token);
    EXPECT_EQ(token.logit, logit_of(token.token)) << row.what;
    EXPECT_GE(sum_of(token.token), largest - 2e-4) << row.what;
  }
  for (const int32_t token : tokens) {
    if (sum_of(token) >= largest - 5e-5) {
      EXPECT_TRUE(nominated.contains(token)) << row.what;
    }
  }
}

RowQuery query_of(uint32_t seed) {
  RowQuery query;
  const uint32_t kinds[] = {0,
                            RowQuery::kNoise,
                            RowQuery::kNoise | RowQuery::kRawWeights,
                            RowQuery::kWeights,
                            RowQuery::kWeights | RowQuery::kRawWeights,
                            RowQuery::kNoisyTop,
                            RowQuery::kNoisyTop | RowQuery::kNoise | RowQuery::kWeights};
  query.kinds = kinds[seed % 7];
  const int32_t tops[] = {0, 1, 7, 128, 256};
  query.top = tops[seed / 5 % 5];
  const float temperatures[] = {1.0f, 0.8f, 0.2f, 2.5f, 1e-4f, 1e4f};
  query.inv_temperature = 1.0f / temperatures[seed / 3 % 6];
  query.seed_low = 77 + seed;
  query.seed_high = seed / 2;
  query.position = static_cast<int32_t>(seed * 31);
  return query;
}

// Random edits of a row, with the memory of their lists.
struct Edited {
  std::vector<TokenBias> biases;
  std::vector<TokenCount> history, path;
  std::vector<uint32_t> mask;
  RowEdits edits;
};

// Returns edits of every kind, alone and together, of tokens inside and outside of the part.
std::unique_ptr<Edited> edits_of(uint32_t seed, int32_t vocab) {
  std::mt19937 rng(seed);
  auto edited = std::make_unique<Edited>();
  const auto distinct = [&](size_t count) {
    std::set<int32_t> tokens;
    for (size_t i = 0; i < count; ++i) {
      tokens.insert(static_cast<int32_t>(rng() % static_cast<uint32_t>(vocab)));
    }
    std::vector<int32_t> shuffled(tokens.begin(), tokens.end());
    std::shuffle(shuffled.begin(), shuffled.end(), rng);
    return shuffled;
  };
  const size_t lengths[] = {1, 7, 300, 3000};
  if (seed % 2 == 0) {
    const float biases[] = {2.5f, -100.0f, -kInfinity, 0.3f, 8.0f};
    for (const int32_t token : distinct(lengths[seed / 2 % 3])) {
      edited->biases.push_back({token, biases[rng() % 5]});
    }
  }
  if (seed % 3 != 1) {
    edited->edits.penalties = {.repetition = seed % 4 == 1 ? 1.0f : 1.3f,
                               .presence = seed % 5 == 1 ? 0.0f : 0.7f,
                               .frequency = seed % 5 == 2 ? 0.0f : 0.31f};
    for (const int32_t token : distinct(lengths[seed / 3 % 4])) {
      edited->history.push_back({token, static_cast<int32_t>(rng() % 4)});
    }
    const size_t paths[] = {0, 1, 9, 1024};
    for (const int32_t token : distinct(paths[seed / 12 % 4])) {
      edited->path.push_back({token, static_cast<int32_t>(rng() % 5)});
    }
    // This token is in both lists.
    const int32_t again = edited->history.front().token;
    if (!edited->path.empty()) {
      std::erase_if(edited->path, [&](const TokenCount& other) { return other.token == again; });
      edited->path.push_back({again, edited->history.front().output_count + 1});
    }
  }
  edited->mask.assign(static_cast<size_t>(cuda::mask_words_cuda(vocab)), 0);
  if (seed % 5 != 3) {
    edited->edits.mask = 0;
    const auto allow = [&](uint32_t token) { edited->mask[token / 32] |= 1u << (token % 32); };
    const uint32_t one_in[] = {2, 1000, 1, 0};  // 0 for one token, and for none in one row of 28
    const uint32_t drawn = one_in[seed / 7 % 4];
    for (uint32_t token = 0; drawn > 0 && token < static_cast<uint32_t>(vocab); ++token) {
      if (rng() % drawn == 0) allow(token);
    }
    if (drawn == 0 && seed % 7 != 0)
      allow(static_cast<uint32_t>(rng()) % static_cast<uint32_t>(vocab));
  }
  edited->edits.biases = edited->biases;
  edited->edits.history = edited->history;
  edited->edits.path = edited->path;
  return edited;
}

class LogitsSummaryCuda : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPUS(1);
    auto stream = cuda::Stream::create();
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    stream_ = std::make_unique<cuda::Stream>(std::move(*stream));
  }
  // Computes summaries of rows of one width, with NaNs after them. `live` is query.vocab, at most
  // the width.
  void run(const std::vector<Row>& rows, int32_t first_token, int32_t live,
           std::vector<RowQuery> queries, std::vector<LogitsSummary>* summaries,
           std::span<const RowEdits> edits = {}, std::span<const uint32_t> masks = {}) {
    const auto tokens = static_cast<int32_t>(rows.front().logits.size());
    const int64_t stride = (tokens + 31) / 32 * 32;
    std::vector<float> logits(rows.size() * static_cast<size_t>(stride), NAN);
    for (size_t index = 0; index < rows.size(); ++index) {
      std::copy(rows[index].logits.begin(), rows[index].logits.end(),
                logits.begin() + static_cast<ptrdiff_t>(index) * stride);
      queries[index].vocab = first_token + live;
    }
    auto rig = cuda::LogitsSummaryRigCuda::create(logits, stride, tokens, first_token, queries,
                                                  edits, masks);
    ASSERT_TRUE(rig.ok()) << rig.status().message();
    const Status submitted = cuda::logits_summary_cuda(rig->call(), stream_->get());
    ASSERT_TRUE(submitted.ok()) << submitted.message();
    const Status ran = stream_->synchronize();
    ASSERT_TRUE(ran.ok()) << ran.message();
    summaries->assign(rig->summaries().begin(), rig->summaries().end());
  }

  // Checks summaries of `count` random rows, most of them edited, each from its own seed.
  void check_edited(int32_t tokens, int32_t first_token, int32_t count, uint32_t* seed,
                    int* all_masked) {
    std::vector<Row> rows;
    std::vector<RowQuery> queries;
    std::vector<std::unique_ptr<Edited>> edited;
    std::vector<RowEdits> edits;
    std::vector<uint32_t> masks;
    for (int32_t row = 0; row < count; ++row, ++*seed) {
      rows.push_back({row_of(kPatterns[*seed % 6], tokens, *seed),
                      std::to_string(tokens) + " tokens from " + std::to_string(first_token) +
                          " seed " + std::to_string(*seed)});
      queries.push_back(query_of(*seed));
      if (row % 8 != 5) queries.back().edits = row;  // the other rows must not be edited
      edited.push_back(edits_of(*seed, first_token + tokens));
      edits.push_back(edited.back()->edits);
      masks.insert(masks.end(), edited.back()->mask.begin(), edited.back()->mask.end());
    }
    std::vector<LogitsSummary> summaries;
    ASSERT_NO_FATAL_FAILURE(run(rows, first_token, tokens, queries, &summaries, edits, masks));
    for (size_t index = 0; index < rows.size(); ++index) {
      if (queries[index].edits != RowQuery::kNone) {
        edit_logits(rows[index].logits, first_token, edits[index], edited[index]->mask);
      }
      ASSERT_NO_FATAL_FAILURE(check(rows[index], first_token, queries[index], summaries[index]));
      *all_masked += summaries[index].best.token < 0 ? 1 : 0;
    }
  }

  std::unique_ptr<cuda::Stream> stream_;
};

TEST_F(LogitsSummaryCuda, EveryKindOfRowAndQuery) {
  uint32_t seed = 0;
  for (const int32_t vocab : {1, 3, 31, 96, 1000, 8190, 32001, 128256, 270001}) {
    for (const int32_t first_token : {0, 32064}) {
      std::vector<Row> rows;
      std::vector<RowQuery> queries;
      for (const Pattern pattern : kPatterns) {
        for (int repeat = 0; repeat < 3; ++repeat, ++seed) {
          rows.push_back(
              {row_of(pattern, vocab, seed), "vocabulary " + std::to_string(vocab) + " pattern " +
                                                 std::to_string(static_cast<int>(pattern)) +
                                                 " seed " + std::to_string(seed)});
          queries.push_back(query_of(seed));
        }
      }
      // The last token may lie past the live vocabulary.
      const int32_t live = vocab > 3 ? vocab - 1 : vocab;
      std::vector<LogitsSummary> summaries;
      ASSERT_NO_FATAL_FAILURE(run(rows, first_token, live, queries, &summaries));
      for (size_t index = 0; index < rows.size(); ++index) {
        rows[index].logits.resize(static_cast<size_t>(live));
        ASSERT_NO_FATAL_FAILURE(check(rows[index], first_token, queries[index], summaries[index]));
      }
    }
  }
}

TEST_F(LogitsSummaryCuda, ListsWhatIsAskedForWhereLogitsDiffer) {
  std::vector<Row> rows;
  std::vector<RowQuery> queries;
  for (uint32_t seed = 0; seed < 64; ++seed) {
    rows.push_back({row_of(seed % 2 == 0 ? Pattern::kNormal : Pattern::kPeaked, 32000, seed), ""});
    queries.push_back({.kinds = 0, .top = 256});
  }
  std::vector<LogitsSummary> summaries;
  ASSERT_NO_FATAL_FAILURE(run(rows, 0, 32000, queries, &summaries));
  for (const LogitsSummary& summary : summaries) {
    EXPECT_GE(summary.num_listed, 256);
    EXPECT_LE(summary.num_listed, 512);
    EXPECT_EQ(summary.lists_all, 0);
  }
}

// A draft model's lists are short at every temperature, even if one token is certain.
TEST_F(LogitsSummaryCuda, ListsTheBestByNoise) {
  std::vector<Row> rows;
  std::vector<RowQuery> queries;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Pattern pattern = seed % 4 == 1 ? Pattern::kPeaked : Pattern::kNormal;
    const float temperatures[] = {0.05f, 0.3f, 0.8f, 1.0f, 1.5f};
    rows.push_back({row_of(pattern, 128256, seed), "seed " + std::to_string(seed)});
    if (seed % 4 >= 2) rows.back().logits[seed * 2003] = seed % 4 == 2 ? 30.0f : 45.0f;
    queries.push_back({.kinds = RowQuery::kNoisyTop,
                       .top = 16,
                       .inv_temperature = 1.0f / temperatures[seed % 5],
                       .seed_low = seed,
                       .position = static_cast<int32_t>(seed)});
  }
  std::vector<LogitsSummary> summaries;
  ASSERT_NO_FATAL_FAILURE(run(rows, 0, 128256, queries, &summaries));
  for (size_t index = 0; index < rows.size(); ++index) {
    const LogitsSummary& summary = summaries[index];
    ASSERT_EQ(summary.by_noise, 1);
    EXPECT_GE(summary.num_listed, 16) << rows[index].what;
    EXPECT_LE(summary.num_listed, 64) << rows[index].what;
    ASSERT_NO_FATAL_FAILURE(check_list_by_noise(rows[index], 0, queries[index], summary));
  }
}

// There is a seed for every position that a token may have among the threads.
TEST_F(LogitsSummaryCuda, NamesWhatTheSamplerDraws) {
  constexpr int32_t kVocab = 128256;
  constexpr uint32_t kRows = 64;
  for (uint32_t round = 0; round < 3; ++round) {
    std::vector<Row> rows;
    std::vector<RowQuery> queries;
    const Pattern pattern = kPatterns[round];
    for (uint32_t index = 0; index < kRows; ++index) {
      rows.push_back({row_of(pattern, kVocab, round * kRows + index), ""});
      RowQuery query = query_of(index);
      query.kinds = RowQuery::kNoise;
      query.top = 0;
      query.inv_temperature = 1.0f / (0.5f + 0.05f * static_cast<float>(index));
      queries.push_back(query);
    }
    std::vector<LogitsSummary> summaries;
    ASSERT_NO_FATAL_FAILURE(run(rows, 0, kVocab, queries, &summaries));
    SamplerScratch scratch;
    std::set<int32_t> drawn;
    for (uint32_t index = 0; index < kRows; ++index) {
      SamplingParams params;
      params.temperature = 0.5f + 0.05f * static_cast<float>(index);
      params.seed = uint64_t{queries[index].seed_high} << 32 | queries[index].seed_low;
      RowContext context;
      context.params = &params;
      context.position = queries[index].position;
      SampledToken token;
      ASSERT_TRUE(sample_token(rows[index].logits, context, scratch, &token, nullptr).ok());
      drawn.insert(token.token);
      const LogitsSummary& summary = summaries[index];
      ASSERT_GT(summary.num_candidates, 0);
      EXPECT_TRUE(
          std::any_of(summary.candidates, summary.candidates + summary.num_candidates,
                      [&](const TokenLogit& candidate) { return candidate.token == token.token; }))
          << "row " << index;
    }
    EXPECT_GT(drawn.size(), 8u);
  }
}

// Rows that the kernel edits must have the same summaries as rows that the host has edited. This
// includes the parts of ranks of a group, which may begin anywhere in a mask.
TEST_F(LogitsSummaryCuda, OfEditedRows) {
  uint32_t seed = 0;
  int all_masked = 0;
  for (const int32_t tokens : {1, 31, 1000, 8190, 32001, 128256, 270001}) {
    for (const int32_t first_token : {0, 16, 32064, 100 * 16}) {
      ASSERT_NO_FATAL_FAILURE(check_edited(tokens, first_token, 12, &seed, &all_masked));
    }
  }
  EXPECT_GT(all_masked, 0);
}

// A small test for compute-sanitizer, under which each row takes long.
TEST_F(LogitsSummaryCuda, OfAFewEditedRows) {
  uint32_t seed = 5;
  int all_masked = 0;
  ASSERT_NO_FATAL_FAILURE(check_edited(40001, 48, 12, &seed, &all_masked));
}

// NaN and +infinity in tokens that the mask forbids are not errors.
TEST_F(LogitsSummaryCuda, MasksHideErrors) {
  Row row{row_of(Pattern::kNormal, 5000, 1), "hidden"};
  row.logits[77] = NAN;
  row.logits[4001] = kInfinity;
  std::vector<uint32_t> mask(static_cast<size_t>(cuda::mask_words_cuda(5000)), 0x1u);
  RowQuery query = query_of(3);
  query.edits = 0;
  std::vector<LogitsSummary> summaries;
  RowEdits edits;
  edits.mask = 0;
  ASSERT_NO_FATAL_FAILURE(run({row}, 0, 5000, {query}, &summaries, std::span(&edits, 1), mask));
  edit_logits(row.logits, 0, edits, mask);
  ASSERT_EQ(summaries[0].bad, 0);
  ASSERT_NO_FATAL_FAILURE(check(row, 0, query, summaries[0]));
  row.logits[77] = NAN;
  mask[77 / 32] |= 1u << (77 % 32);
  ASSERT_NO_FATAL_FAILURE(run({row}, 0, 5000, {query}, &summaries, std::span(&edits, 1), mask));
  EXPECT_EQ(summaries[0].bad, 1);
}

// Two GPUs, each with a part of every row, exchange the rows' largest logits.
TEST_F(LogitsSummaryCuda, WeightsOfPartsHaveOneOrigin) {
  SKIP_WITHOUT_GPUS(2);
  constexpr int32_t kCut = 4096;
  constexpr int32_t kTokens = 9000;
  constexpr uint32_t kRows = 41;
  const int gpus[] = {0, 1};
  auto group = cuda::PeerGroup::create(gpus, cuda::row_maxima_group(kRows));
  ASSERT_TRUE(group.ok()) << group.status().message();
  std::vector<Row> rows;
  std::vector<RowQuery> queries;
  for (uint32_t seed = 0; seed < kRows; ++seed) {
    rows.push_back({row_of(kPatterns[seed % 8], kTokens, seed), "row " + std::to_string(seed)});
    // All tokens of this part are masked.
    if (seed % 7 == 3) std::fill_n(rows.back().logits.begin(), kCut, -kInfinity);
    queries.push_back(query_of(seed));
    queries.back().vocab = kTokens;
  }
  std::vector<LogitsSummary> parts[2];
  for (int launch = 0; launch < 3; ++launch) {
    std::vector<cuda::LogitsSummaryRigCuda> rigs;
    std::vector<cuda::Stream> streams;
    for (const int gpu : gpus) {
      ASSERT_TRUE(cuda::use_device(gpu).ok());
      const int32_t first = gpu == 0 ? 0 : kCut;
      const int32_t count = gpu == 0 ? kCut : kTokens - kCut;
      const int64_t stride = (count + 31) / 32 * 32;
      std::vector<float> logits(kRows * static_cast<size_t>(stride), NAN);
      for (size_t row = 0; row < kRows; ++row) {
        std::copy_n(rows[row].logits.begin() + first, count,
                    logits.begin() + static_cast<ptrdiff_t>(row) * stride);
      }
      auto rig = cuda::LogitsSummaryRigCuda::create(logits, stride, count, first, queries);
      ASSERT_TRUE(rig.ok()) << rig.status().message();
      rigs.push_back(std::move(*rig));
      auto stream = cuda::Stream::create();
      ASSERT_TRUE(stream.ok());
      streams.push_back(std::move(*stream));
    }
    for (const int gpu : gpus) {
      ASSERT_TRUE(cuda::use_device(gpu).ok());
      cuda::LogitsSummaryCallCuda call = rigs[static_cast<size_t>(gpu)].call();
      call.peers = &group->rank(gpu);
      call.senders = 3;
      const Status submitted =
          cuda::logits_summary_cuda(call, streams[static_cast<size_t>(gpu)].get());
      ASSERT_TRUE(submitted.ok()) << submitted.message();
    }
    for (const int gpu : gpus) {
      ASSERT_TRUE(cuda::use_device(gpu).ok());
      ASSERT_TRUE(streams[static_cast<size_t>(gpu)].synchronize().ok());
      const auto summaries = rigs[static_cast<size_t>(gpu)].summaries();
      parts[gpu].assign(summaries.begin(), summaries.end());
    }
    const Status met = group->check();
    ASSERT_TRUE(met.ok()) << met.message();
  }
  ASSERT_TRUE(cuda::use_device(0).ok());
  for (size_t row = 0; row < kRows; ++row) {
    const LogitsSummary* const both[] = {&parts[0][row], &parts[1][row]};
    LogitsSummary whole;
    merge_logits_summaries(both, &whole);
    LogitsSummary expected;
    logits_summary_ref(rows[row].logits, 0, queries[row], nullptr, &expected);
    ASSERT_EQ(whole.best.token, expected.best.token) << rows[row].what;
    if (expected.best.token < 0) continue;
    if ((queries[row].kinds & (RowQuery::kWeights | RowQuery::kRawWeights)) == 0) continue;
    EXPECT_EQ(whole.has_weights, 1) << rows[row].what;
    EXPECT_EQ(whole.weights, expected.weights) << rows[row].what;
    EXPECT_EQ(whole.raw_weights, expected.raw_weights) << rows[row].what;
  }
}

TEST_F(LogitsSummaryCuda, TellsErrorsAndTooMuch) {
  constexpr int32_t kVocab = 5000;
  std::vector<Row> rows(7);
  std::vector<RowQuery> queries(rows.size(), {.kinds = RowQuery::kNoise, .top = 4});
  for (Row& row : rows) row.logits = row_of(Pattern::kNormal, kVocab, 5);
  rows[0].logits[4999] = NAN;
  rows[1].logits[0] = kInfinity;
  rows[2].logits.assign(kVocab, 2.0f);  // more best tokens than a list holds
  queries[3].kinds = RowQuery::kLogits;
  // There are fewer threads with best tokens than a list holds.
  rows[6].logits.assign(kVocab, -kInfinity);
  std::fill_n(rows[6].logits.begin(), 3000, 2.0f);
  std::vector<LogitsSummary> summaries;
  ASSERT_NO_FATAL_FAILURE(run(rows, 0, kVocab, queries, &summaries));
  EXPECT_EQ(summaries[0].bad, 1);
  EXPECT_EQ(summaries[1].bad, 1);
  for (const size_t row : {2, 6}) {
    EXPECT_EQ(summaries[row].bad, 0);
    EXPECT_EQ(summaries[row].num_listed, -1);
    EXPECT_EQ(summaries[row].lists_all, 0);
    EXPECT_EQ(summaries[row].best.token, 0);
    EXPECT_GT(summaries[row].num_candidates, 0);
  }
  // A row that is not summarized keeps its old contents.
  LogitsSummary untouched;
  std::memset(static_cast<void*>(&untouched), cuda::LogitsSummaryRigCuda::kUnwritten,
              sizeof(untouched));
  EXPECT_EQ(std::memcmp(&summaries[3], &untouched, sizeof(untouched)), 0);
  for (const size_t row : {4, 5}) check(rows[row], 0, queries[row], summaries[row]);
}

}  // namespace
}  // namespace forerun
