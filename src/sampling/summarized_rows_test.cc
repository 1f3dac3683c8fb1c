// A row with logits on a device gives the same results as in host memory, bit for bit: for every
// sampling parameter and every function, whole or in parts that the host merges. Only rows with an
// insufficient summary are fetched.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/noise.h"
#include "base/sanitized.h"
#include "sampling/row_query.h"
#include "sampling/same_candidates_rig.h"
#include "sampling/sampler.h"
#include "sampling/seeded_logits_rig.h"
#include "step/hash_constraint_rig.h"

namespace forerun {
namespace {

// A device with one row, cut at multiples of 16 if there are several parts.
class FakeDevice : public DeviceLogits {
 public:
  // Edits the row by the context. `origins_apart`: every part measures weights from its own best
  // token.
  FakeDevice(const std::vector<float>& logits, const RowContext& context, const RowQuery& query,
             int32_t num_parts, bool origins_apart = false)
      : logits_(logits), query_(query), host_(logits.size(), NAN) {
    if (query.kinds == RowQuery::kLogits) {
      host_ = logits_;
      return;
    }
    const auto vocab = static_cast<int32_t>(logits.size());
    std::vector<float> row = logits_;
    if (is_adjusted(context)) edit(context, num_parts, row);
    float origin = -INFINITY;  // reference of the weights of all parts
    for (const float logit : row) origin = logit > origin ? logit : origin;
    std::vector<LogitsSummary> parts(static_cast<size_t>(num_parts));
    std::vector<const LogitsSummary*> pointers;
    for (int32_t part = 0; part < num_parts; ++part) {
      const int32_t begin = vocab * part / num_parts / 16 * 16;
      const int32_t end = part + 1 == num_parts ? vocab : vocab * (part + 1) / num_parts / 16 * 16;
      LogitsSummary* const summary = &parts[static_cast<size_t>(part)];
      logits_summary_ref(
          std::span(row).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
          begin, query, origins_apart ? nullptr : &origin, summary);
      pointers.push_back(summary);
    }
    if (num_parts == 1) {
      summary_ = parts[0];
    } else {
      merge_logits_summaries(pointers, &summary_);
    }
  }

  const LogitsSummary* summary(int32_t /*logits_row*/) const override {
    return query_.kinds == RowQuery::kLogits ? nullptr : &summary_;
  }
  const RowQuery& query(int32_t /*logits_row*/) const override { return query_; }
  Status fetch(int32_t /*logits_row*/) override {
    ++fetches_;
    if (broken) return {StatusCode::kInternal, "the bus is down"};
    host_ = logits_;
    return {};
  }

  LogitsRow row() {
    LogitsRow row(host_);
    row.on_device = this;
    return row;
  }
  bool fetched() const { return fetches_ > 0; }
  bool broken = false;

 private:
  // Edits every part by itself.
  void edit(const RowContext& context, int32_t num_parts, std::vector<float>& row) {
    EditList list;
    query_.edits = list.add(context);
    const RowEdits& edits = list.row(query_.edits);
    std::vector<uint32_t> mask((row.size() + 31) / 32 + 3, 0xdeadbeef);
    if (edits.mask >= 0) list.write_mask(edits.mask, mask);
    const size_t each =
        (row.size() + static_cast<size_t>(num_parts) - 1) / static_cast<size_t>(num_parts);
    for (size_t begin = 0; begin < row.size(); begin += each) {
      edit_logits(std::span(row).subspan(begin, std::min(each, row.size() - begin)),
                  static_cast<int32_t>(begin), edits, mask);
    }
  }

  std::vector<float> logits_;
  RowQuery query_;
  std::vector<float> host_;
  LogitsSummary summary_;
  int fetches_ = 0;
};

struct Question {
  std::vector<float> logits;
  SamplingParams params;
  RowContext context;
};

SamplingParams random_params(uint64_t seed) {
  SamplingParams params;
  params.seed = seed * 0x9E3779B97F4A7C15u;
  const float temperatures[] = {0.0f, 0.7f, 1.0f, 1.6f, 1e-3f};
  params.temperature = temperatures[seed % 5];
  if (seed % 3 == 1) params.top_k = seed % 2 == 0 ? 5 : 300;
  const float top_ps[] = {1.0f, 0.5f, 0.97f, 0.9999f, 0.0f};
  params.top_p = top_ps[seed / 4 % 5];
  if (seed % 5 == 2) params.min_p = seed % 2 == 0 ? 0.05f : 1e-6f;
  if (seed % 6 == 1) params.repetition_penalty = 1.3f;
  if (seed % 7 == 4) params.frequency_penalty = 0.4f;
  if (seed % 8 == 3) params.logit_bias = {{3, 2.5f}, {40, -100.0f}};
  if (seed % 8 == 6) {
    params.min_tokens = 1 << 20;
    params.end_tokens = {2, 7, 33};
  }
  const int32_t logprobs[] = {-1, 0, 4, 400};
  params.logprobs = logprobs[seed / 2 % 4];
  return params;
}

class SummarizedRows : public testing::TestWithParam<int32_t> {
 protected:
  // Returns whether the row was fetched.
  bool check_sample(const Question& question, const std::string& what) {
    const auto vocab = static_cast<int32_t>(question.logits.size());
    FakeDevice device(question.logits, question.context, sample_query(question.context, vocab),
                      GetParam());
    SampledToken found, expected;
    std::vector<Candidate> found_others, expected_others;
    const Status status =
        sample_token(device.row(), question.context, scratch_, &found, &found_others);
    EXPECT_TRUE(status.ok()) << what << status.message();
    EXPECT_TRUE(
        sample_token(question.logits, question.context, scratch_, &expected, &expected_others)
            .ok());
    EXPECT_EQ(found.token, expected.token) << what;
    EXPECT_EQ(found.logprob, expected.logprob) << what;
    expect_same(found_others, expected_others, what);
    return device.fetched();
  }
  bool check_candidates(const Question& question, int32_t count, bool shared_noise,
                        const std::string& what) {
    const auto vocab = static_cast<int32_t>(question.logits.size());
    FakeDevice device(question.logits, question.context,
                      candidates_query(question.context, count, shared_noise, vocab), GetParam());
    std::vector<Candidate> found, expected;
    const Status status =
        top_candidates(device.row(), question.context, count, shared_noise, scratch_, &found);
    EXPECT_TRUE(status.ok()) << what << status.message();
    EXPECT_TRUE(
        top_candidates(question.logits, question.context, count, shared_noise, scratch_, &expected)
            .ok());
    expect_same(found, expected, what);
    return device.fetched();
  }
  bool check_draws(const Question& question, int32_t count, const std::string& what) {
    const auto vocab = static_cast<int32_t>(question.logits.size());
    FakeDevice device(question.logits, question.context, draw_query(question.context, count, vocab),
                      GetParam());
    std::vector<Candidate> found, expected;
    DraftDistribution found_weights, expected_weights;
    const Status status =
        draw_candidates(device.row(), question.context, count, scratch_, &found, &found_weights);
    EXPECT_TRUE(status.ok()) << what << status.message();
    EXPECT_TRUE(draw_candidates(question.logits, question.context, count, scratch_, &expected,
                                &expected_weights)
                    .ok());
    expect_same(found, expected, what);
    EXPECT_EQ(found_weights.weights, expected_weights.weights) << what;
    EXPECT_EQ(found_weights.total, expected_weights.total) << what;
    return device.fetched();
  }

  SamplerScratch scratch_;
};

TEST_P(SummarizedRows, GiveWhatRowsInMemoryGive) {
  int fetched = 0;
  int answered = 0;
  constexpr uint64_t kSeeds = kSanitized ? 80 : 240;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const int32_t vocabs[] = {100, 1000, 4099, 20001, 3};
    const int32_t vocab = vocabs[seed % 5];
    Question question;
    // Flat rows exceed the lists and the range of top-p.
    question.logits = random_logits(vocab, seed, seed % 4 == 1 ? 1.0f : 40.0f);
    question.params = random_params(seed);
    question.context.params = &question.params;
    question.context.position = static_cast<int32_t>(seed) + 20;
    question.context.prompt_tokens = 4;
    TokenCounts counts;
    for (uint32_t index = 0; index < 8; ++index) {
      counts.add(static_cast<TokenId>(random_word(seed + 5, index) % static_cast<uint32_t>(vocab)),
                 index < 4);
    }
    question.context.history = &counts;
    const std::vector<TokenId> path = {2, static_cast<TokenId>(seed % 3), 2};
    if (seed % 2 == 0) question.context.path = path;
    const HashConstraint constraint(seed);
    const TokenConstraint::State start = constraint.start();
    if (seed % 4 == 2) {
      question.context.constraint = &constraint;
      question.context.constrained = &start;
    }
    const std::string what = "seed " + std::to_string(seed) + " ";
    for (const bool was : {check_sample(question, what + "sample"),
                           check_candidates(question, 7, false, what + "candidates"),
                           check_candidates(question, 7, true, what + "candidates by noise"),
                           check_candidates(question, 500, true, what + "many candidates"),
                           check_draws(question, 3, what + "draws")}) {
      (was ? fetched : answered) += 1;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(answered, kSanitized ? 200 : 600);
  EXPECT_GT(fetched, kSanitized ? 3 : 10);
}

// Logits for the most common parameters stay on the device.
TEST_P(SummarizedRows, AreSeldomFetched) {
  for (uint64_t seed = 1; seed <= (kSanitized ? 7 : 20); ++seed) {
    Question question;
    // Each nat below the best has more tokens than the previous one, as in a model's row.
    question.logits.clear();
    for (uint32_t token = 0; token < 20001; ++token) {
      question.logits.push_back(-2.0f * std::log(noise_uniform(random_word(seed, token))));
    }
    question.context.params = &question.params;
    question.context.position = static_cast<int32_t>(seed);
    question.params.seed = seed;
    question.params.temperature = 0.0f;
    EXPECT_FALSE(check_sample(question, "greedy"));
    EXPECT_FALSE(check_candidates(question, 16, true, "greedy candidates"));
    question.params.temperature = 0.8f;
    EXPECT_FALSE(check_sample(question, "sampled"));
    EXPECT_FALSE(check_candidates(question, 16, true, "candidates"));
    question.params.top_k = 50;
    EXPECT_FALSE(check_sample(question, "top-k"));
    EXPECT_FALSE(check_candidates(question, 16, false, "top-k candidates"));
    question.params.top_p = 0.9f;
    question.params.min_p = 0.02f;
    EXPECT_FALSE(check_sample(question, "all filters"));
    question.params.top_k = 0;
    question.params.top_p = 1.0f;
    EXPECT_FALSE(check_sample(question, "min-p"));
    question.params.top_p = 0.9f;
    EXPECT_FALSE(check_sample(question, "top-p and min-p"));
    question.params.logprobs = 20;
    EXPECT_FALSE(check_sample(question, "log-probabilities"));
    question.params.logprobs = -1;
    question.params.logit_bias = {{5, 3.0f}, {9, -4.0f}};
    question.params.repetition_penalty = 1.2f;
    question.params.frequency_penalty = 0.2f;
    TokenCounts counts;
    for (TokenId token = 0; token < 300; ++token) counts.add(token * 7, token < 100);
    question.context.history = &counts;
    const HashConstraint constraint(2 * seed);
    const TokenConstraint::State start = constraint.start();
    question.context.constraint = &constraint;
    question.context.constrained = &start;
    EXPECT_FALSE(check_sample(question, "edited, top-p and min-p"));
    EXPECT_FALSE(check_candidates(question, 16, true, "edited candidates"));
    question.params.temperature = 0.0f;
    EXPECT_FALSE(check_sample(question, "edited, greedy"));
    EXPECT_FALSE(check_candidates(question, 16, true, "edited greedy candidates"));
  }
}

// Uses parameters that would fail validation.
TEST_P(SummarizedRows, EditsThatOverflowLeaveFiniteLogits) {
  Question question;
  question.logits = random_logits(300, 3, 9.0f);
  TokenCounts counts;
  for (TokenId token = 0; token < 40; ++token) counts.add(token * 7, token < 20);
  question.context.params = &question.params;
  question.context.position = 60;
  question.context.history = &counts;
  question.params.logit_bias = {{5, 3e38f}, {7, 3e38f}, {14, -3e38f}, {290, 3e38f}};
  question.params.repetition_penalty = 1e-3f;
  question.params.presence_penalty = -3e38f;
  for (const float temperature : {0.0f, 0.8f}) {
    question.params.temperature = temperature;
    check_sample(question, "overflowing edits");
    check_candidates(question, 8, true, "candidates behind overflowing edits");
  }
}

TEST_P(SummarizedRows, ErrorsAreThoseOfRowsInMemory) {
  Question question;
  question.context.params = &question.params;
  question.context.position = 12;
  SampledToken token;
  for (const float wrong : {NAN, INFINITY, -INFINITY}) {
    question.logits = random_logits(300, 1, 9.0f);
    if (wrong == -INFINITY) {
      question.logits.assign(300, wrong);
    } else {
      question.logits[250] = wrong;
    }
    FakeDevice device(question.logits, question.context, sample_query(question.context, 300),
                      GetParam());
    const Status found = sample_token(device.row(), question.context, scratch_, &token, nullptr);
    const Status expected =
        sample_token(question.logits, question.context, scratch_, &token, nullptr);
    EXPECT_EQ(found.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(found.message(), expected.message());
    FakeDevice drafting(question.logits, question.context,
                        candidates_query(question.context, 4, true, 300), GetParam());
    std::vector<Candidate> top;
    EXPECT_EQ(top_candidates(drafting.row(), question.context, 4, true, scratch_, &top).message(),
              expected.message());
  }
  // A flat row must be fetched for top-p, and that may fail.
  question.logits.assign(5000, 1.0f);
  question.params.temperature = 0.8f;
  question.params.top_p = 0.9f;
  FakeDevice device(question.logits, question.context, sample_query(question.context, 5000),
                    GetParam());
  device.broken = true;
  const Status found = sample_token(device.row(), question.context, scratch_, &token, nullptr);
  EXPECT_EQ(found.message(), "the bus is down");
}

TEST_P(SummarizedRows, SumsFromSeveralOriginsAreNotUsed) {
  if (GetParam() == 1) return;
  Question question;
  question.logits = random_logits(5000, 7, 9.0f);
  question.logits[4000] = 11.3f;  // in the last part
  question.context.params = &question.params;
  question.params.temperature = 0.0f;
  FakeDevice device(question.logits, question.context,
                    candidates_query(question.context, 5, true, 5000), GetParam(),
                    /*origins_apart=*/true);
  std::vector<Candidate> found, expected;
  ASSERT_TRUE(top_candidates(device.row(), question.context, 5, true, scratch_, &found).ok());
  ASSERT_TRUE(top_candidates(question.logits, question.context, 5, true, scratch_, &expected).ok());
  expect_same(found, expected, "several origins");
  EXPECT_TRUE(device.fetched());
}

// Answers for edited logits must not be used for unedited ones, nor vice versa.
TEST_P(SummarizedRows, AnswersOfOtherLogitsAreNotUsed) {
  Question question;
  question.logits = random_logits(5000, 7, 9.0f);
  question.context.params = &question.params;
  question.params.temperature = 0.8f;
  SamplingParams biased = question.params;
  biased.logit_bias = {{4321, 50.0f}};
  RowContext other = question.context;
  other.params = &biased;
  const RowQuery query = sample_query(question.context, 5000);
  for (const auto& [asked, of] :
       {std::pair(question.context, other), std::pair(other, question.context)}) {
    FakeDevice device(question.logits, of, query, GetParam());
    SampledToken found, expected;
    ASSERT_TRUE(sample_token(device.row(), asked, scratch_, &found, nullptr).ok());
    ASSERT_TRUE(sample_token(question.logits, asked, scratch_, &expected, nullptr).ok());
    EXPECT_TRUE(device.fetched());
    EXPECT_EQ(found.token, expected.token);
    EXPECT_EQ(found.token == 4321, asked.params == &biased);
  }
}

// Answers to another query must not be used for this one.
TEST_P(SummarizedRows, AnswersToOtherQuestionsAreNotUsed) {
  Question question;
  question.logits = random_logits(5000, 7, 9.0f);
  question.context.params = &question.params;
  question.params.temperature = 0.8f;
  RowQuery asked = sample_query(question.context, 5000);
  ++asked.position;
  FakeDevice device(question.logits, question.context, asked, GetParam());
  SampledToken found, expected;
  ASSERT_TRUE(sample_token(device.row(), question.context, scratch_, &found, nullptr).ok());
  ASSERT_TRUE(sample_token(question.logits, question.context, scratch_, &expected, nullptr).ok());
  EXPECT_TRUE(device.fetched());
  EXPECT_EQ(found.token, expected.token);

  // Lists by noise. Those of several parts have more than `top` tokens, but not the next best.
  constexpr int32_t kCount = 20;
  std::vector<Candidate> wanted;
  ASSERT_TRUE(
      top_candidates(question.logits, question.context, kCount, true, scratch_, &wanted).ok());
  const RowQuery right = candidates_query(question.context, kCount, true, 5000);
  RowQuery elsewhere = right, hotter = right, seeded = right, fewer = right;
  ++elsewhere.position;
  hotter.inv_temperature = 1.0f / 0.9f;
  ++seeded.seed_low;
  fewer.top = kCount - 4;
  for (const RowQuery& other : {right, elsewhere, hotter, seeded, fewer}) {
    FakeDevice lister(question.logits, question.context, other, GetParam());
    std::vector<Candidate> candidates;
    ASSERT_TRUE(
        top_candidates(lister.row(), question.context, kCount, true, scratch_, &candidates).ok());
    EXPECT_EQ(lister.fetched(), !(other == right));
    expect_same(candidates, wanted,
                "position " + std::to_string(other.position) + " top " + std::to_string(other.top));
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, SummarizedRows, testing::Values(1, 2, 5));

}  // namespace
}  // namespace forerun
