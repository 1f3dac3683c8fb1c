// A row in parts gives the same results as the whole row, bit for bit: for every degree, sampling
// parameter and function.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "device/cpu/device_group.h"
#include "sampling/rejection.h"
#include "sampling/same_candidates_rig.h"
#include "sampling/sampler.h"
#include "sampling/seeded_logits_rig.h"

namespace forerun {
namespace {

// Returns cuts of `vocab` at multiples of 16; some parts are empty.
std::vector<int32_t> cuts_of(int32_t vocab, int32_t degree, uint64_t seed) {
  std::vector<int32_t> cuts = {0, vocab};
  for (int32_t cut = 1; cut < degree; ++cut) {
    const auto units = static_cast<uint32_t>(vocab / 16 + 1);
    const uint32_t unit = random_word(seed + 1000, static_cast<uint32_t>(cut)) % units;
    cuts.push_back(std::min(vocab, static_cast<int32_t>(unit) * 16));
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

SamplingParams random_params(uint64_t seed) {
  SamplingParams params;
  params.seed = seed;
  const float temperatures[] = {0.0f, 0.7f, 1.0f, 1.6f};
  params.temperature = temperatures[seed % 4];
  if (seed % 3 == 1) params.top_k = seed % 2 == 0 ? 5 : 300;
  const float top_ps[] = {1.0f, 0.5f, 0.97f, 0.9999f, 0.0f};
  params.top_p = top_ps[seed / 4 % 5];
  if (seed % 5 == 2) params.min_p = 0.05f;
  if (seed % 6 == 1) params.repetition_penalty = 1.3f;
  if (seed % 6 == 3) params.presence_penalty = 0.6f;
  if (seed % 7 == 4) params.frequency_penalty = 0.4f;
  if (seed % 4 == 3) params.logit_bias = {{3, 2.5f}, {40, -100.0f}};
  params.logprobs = seed % 2 == 0 ? 4 : (seed % 3 == 0 ? 0 : -1);
  return params;
}

// The results of every function for one row.
struct Answers {
  Status status;
  SampledToken sampled;
  std::vector<Candidate> alternatives, top, top_by_noise, drawn;
  RejectionOutcome outcome;
};

struct Question {
  std::vector<float> logits;
  SamplingParams params;
  RowContext context;
  std::vector<TokenId> children;
  const DraftDistribution* draft = nullptr;
};

void answer(const Question& question, const LogitsRow& logits, SamplerScratch& scratch,
            DraftDistribution* distribution, Answers* out) {
  const RowContext& context = question.context;
  out->status = sample_token(logits, context, scratch, &out->sampled, &out->alternatives);
  if (!out->status.ok()) {
    // Every reader of a faulty row gets the error: drafts, and rule `rejection`.
    const std::string& message = out->status.message();
    EXPECT_EQ(top_candidates(logits, context, 7, false, scratch, &out->top).message(), message);
    EXPECT_EQ(top_candidates(logits, context, 7, true, scratch, &out->top).message(), message);
    EXPECT_EQ(draw_candidates(logits, context, 3, scratch, &out->drawn, distribution).message(),
              message);
    const Status walked =
        accept_child(logits, context, question.children, question.draft, scratch, &out->outcome);
    EXPECT_EQ(walked.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(walked.message(), message);
    return;
  }
  EXPECT_TRUE(top_candidates(logits, context, 7, false, scratch, &out->top).ok());
  EXPECT_TRUE(top_candidates(logits, context, 7, true, scratch, &out->top_by_noise).ok());
  EXPECT_TRUE(draw_candidates(logits, context, 3, scratch, &out->drawn, distribution).ok());
  EXPECT_TRUE(
      accept_child(logits, context, question.children, question.draft, scratch, &out->outcome)
          .ok());
}

class VocabParts : public testing::TestWithParam<int32_t> {
 protected:
  VocabParts()
      : group_(CpuDeviceGroup::create_unpinned(
                   std::vector<int32_t>(static_cast<size_t>(GetParam()), 1))
                   .value()) {}
  // Returns the answers of all devices on the parts between `cuts`.
  std::vector<Answers> answers_of_parts(const Question& question, const std::vector<int32_t>& cuts,
                                        DraftDistribution* distribution) {
    std::vector<Answers> answers(static_cast<size_t>(GetParam()));
    const Status status = group_->run([&](const GroupMember& member) {
      const auto rank = static_cast<size_t>(member.peers.rank());
      const auto first = static_cast<size_t>(cuts[rank]);
      const std::span<const float> part =
          std::span(question.logits).subspan(first, static_cast<size_t>(cuts[rank + 1]) - first);
      SamplerScratch scratch;
      answer(question,
             {part, cuts[rank], static_cast<int32_t>(question.logits.size()), &member.peers},
             scratch, distribution, &answers[rank]);
    });
    EXPECT_TRUE(status.ok()) << status.message();
    return answers;
  }

  std::unique_ptr<CpuDeviceGroup> group_;
};

TEST_P(VocabParts, GiveWhatTheWholeRowGives) {
  SamplerScratch scratch;
  int filtered = 0;
  for (uint64_t seed = 1; seed <= 160; ++seed) {
    const int32_t vocabs[] = {100, 1000, 4099, 3};
    const int32_t vocab = vocabs[seed % 7 == 0 ? 3 : seed % 3];
    Question question;
    // Flat rows use the histograms of top-p.
    question.logits = random_logits(vocab, seed, seed % 4 == 1 ? 1.0f : 14.0f);
    question.params = random_params(seed);
    filtered += question.params.top_p < 1.0f || question.params.top_k > 0 ? 1 : 0;
    question.context.params = &question.params;
    question.context.position = static_cast<int32_t>(seed) + 20;
    question.context.prompt_tokens = 6;
    TokenCounts counts;
    std::vector<TokenId> path;
    for (uint32_t index = 0; index < 12; ++index) {
      const auto token = static_cast<TokenId>(random_word(seed + 5, index) % 90u);
      if (index < 8) {
        counts.add(token, index < 6);
      } else {
        path.push_back(token);
      }
    }
    question.context.history = &counts;
    question.context.path = path;
    // A draft from which the children are sampled.
    DraftDistribution draft;
    std::vector<Candidate> children;
    RowContext draft_context = question.context;
    ASSERT_TRUE(draw_candidates(random_logits(vocab, seed + 7777, 9.0f), draft_context, 3, scratch,
                                &children, &draft)
                    .ok());
    for (const Candidate& child : children) question.children.push_back(child.token);
    question.draft = &draft;

    Answers expected;
    DraftDistribution whole, parts;
    answer(question, question.logits, scratch, &whole, &expected);
    ASSERT_TRUE(expected.status.ok()) << expected.status.message();
    const std::vector<int32_t> cuts = cuts_of(vocab, GetParam(), seed);
    int32_t rank = 0;
    for (const Answers& found : answers_of_parts(question, cuts, &parts)) {
      const std::string what = "seed " + std::to_string(seed) + " rank " + std::to_string(rank++);
      ASSERT_TRUE(found.status.ok()) << what << found.status.message();
      EXPECT_EQ(found.sampled.token, expected.sampled.token) << what;
      EXPECT_EQ(found.sampled.logprob, expected.sampled.logprob) << what;
      expect_same(found.alternatives, expected.alternatives, what + " alternatives");
      expect_same(found.top, expected.top, what + " top");
      expect_same(found.top_by_noise, expected.top_by_noise, what + " top by noise");
      expect_same(found.drawn, expected.drawn, what + " drawn");
      EXPECT_EQ(found.outcome.child_idx, expected.outcome.child_idx) << what;
      EXPECT_EQ(found.outcome.token, expected.outcome.token) << what;
    }
    EXPECT_EQ(parts.weights, whole.weights) << seed;
    EXPECT_EQ(parts.total, whole.total) << seed;
    if (HasFailure()) return;
  }
  EXPECT_GT(filtered, 80);
}

TEST_P(VocabParts, WhatOneDeviceFindsWrongAllReport) {
  const int32_t degree = GetParam();
  std::vector<int32_t> cuts;
  for (int32_t rank = 0; rank <= degree; ++rank) cuts.push_back(rank * 32);
  Question question;
  question.params.temperature = 0.8f;
  question.context.params = &question.params;
  question.context.position = 12;
  for (int32_t rank = 0; rank < degree; ++rank) {
    question.logits = random_logits(degree * 32, 1, 5.0f);
    question.logits[static_cast<size_t>(rank * 32 + 3)] = std::numeric_limits<float>::quiet_NaN();
    DraftDistribution distribution;
    for (const Answers& found : answers_of_parts(question, cuts, &distribution)) {
      EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument);
      EXPECT_NE(found.status.message().find("position 12"), std::string::npos);
    }
  }
  std::fill(question.logits.begin(), question.logits.end(),
            -std::numeric_limits<float>::infinity());
  DraftDistribution distribution;
  for (const Answers& found : answers_of_parts(question, cuts, &distribution)) {
    EXPECT_NE(found.status.message().find("of " + std::to_string(degree * 32)), std::string::npos)
        << found.status.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Degrees, VocabParts,
                         testing::ValuesIn(kThreadSanitized ? std::vector<int32_t>{2, 5}
                                                            : std::vector<int32_t>{1, 2, 3, 5, 8}));

}  // namespace
}  // namespace forerun
