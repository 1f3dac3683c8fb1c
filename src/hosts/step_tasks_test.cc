#include "hosts/step_tasks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace forerun {
namespace {

constexpr int32_t kVocab = 50;

// Rows of two requests, one with penalties, and a verification by rejection.
struct Asked {
  SamplingParams plain, penalized;
  TokenCounts counts;
  std::vector<TokenId> path = {3, 9};
  DraftDistribution draft;
  std::vector<RowResult> results{3};
  DraftDistribution drawn;
  std::vector<RowTask> tasks{3};
  std::vector<RejectionRow> rejection_rows{2};
  WorkResult verified;
  std::vector<RejectionTask> rejections{1};

  Asked() {
    plain.seed = uint64_t{1} << 60;
    plain.min_tokens = 33;
    plain.end_tokens = {1, 3};
    plain.logit_bias = {{4, -1.5f}, {5, 30.0f}};
    penalized.frequency_penalty = 0.5f;
    penalized.temperature = 0.7f;
    penalized.top_k = 11;
    penalized.logprobs = 2;
    for (const TokenId token : {7, 8, 7}) counts.add(token, /*is_prompt=*/false);
    counts.add(2, /*is_prompt=*/true);
    draft.weights = {0.25f, 0.5f};
    draft.total = 12345;
    for (size_t idx = 0; idx < tasks.size(); ++idx) {
      tasks[idx].want = idx == 1 ? Want::kDraw : Want::kSample;
      tasks[idx].count = static_cast<int32_t>(idx);
      tasks[idx].token = 21;
      tasks[idx].shared_noise = idx == 0;
      tasks[idx].step_row = static_cast<int32_t>(2 * idx);
      tasks[idx].result = &results[idx];
      tasks[idx].context = {.params = idx == 2 ? &penalized : &plain,
                            .position = 20 + static_cast<int32_t>(idx),
                            .prompt_tokens = 6,
                            .history = idx == 2 ? &counts : nullptr,
                            .path = path};
    }
    tasks[1].distribution = &drawn;
    for (RejectionRow& row : rejection_rows) {
      row.context = tasks[2].context;
      row.draft = &draft;
    }
    rejection_rows[1].parent_idx = 0;
    rejection_rows[1].node = 99;
    rejection_rows[1].token = 12;
    rejection_rows[1].logits_row = 1;
    rejections[0].rows = rejection_rows;
    rejections[0].result = &verified;
  }

  Bytes bytes() const {
    Bytes to;
    WireWriter writer(&to);
    write_tasks(tasks, rejections, writer);
    return to;
  }
};

Status read(const Bytes& bytes, StepTasks& tasks) {
  WireReader from(bytes);
  tasks.read(from);
  return from.finish();
}

TEST(StepTasks, HoldAllThatTheyPointTo) {
  StepTasks read_back;
  {
    const Asked asked;
    ASSERT_TRUE(read(asked.bytes(), read_back).ok());
  }
  ASSERT_TRUE(read_back.check(kVocab).ok()) << read_back.check(kVocab).message();
  ASSERT_EQ(read_back.tasks().size(), 3u);
  const RowTask& first = read_back.tasks()[0];
  EXPECT_EQ(first.want, Want::kSample);
  EXPECT_EQ(first.token, 21);
  EXPECT_TRUE(first.shared_noise);
  EXPECT_EQ(first.context.params->seed, uint64_t{1} << 60);
  EXPECT_EQ(first.context.params->logit_bias[0], (std::pair<int32_t, float>{4, -1.5f}));
  EXPECT_EQ(first.context.params->min_tokens, 33);
  EXPECT_EQ(first.context.params->end_tokens, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(first.context.history, nullptr);
  EXPECT_NE(read_back.tasks()[1].distribution, nullptr);
  const RowTask& third = read_back.tasks()[2];
  EXPECT_EQ(third.step_row, 4);
  EXPECT_EQ(third.count, 2);
  EXPECT_EQ(third.context.position, 22);
  EXPECT_EQ(third.context.prompt_tokens, 6);
  EXPECT_EQ(third.context.params->top_k, 11);
  EXPECT_EQ(third.context.params->logprobs, 2);
  ASSERT_NE(third.context.history, nullptr);
  EXPECT_EQ(third.context.history->entries().size(), 3u);
  EXPECT_EQ(third.context.history->find(7)->output_count, 2);
  EXPECT_EQ(third.context.history->find(2)->output_count, 0);
  EXPECT_EQ(third.context.path[1], 9);
  ASSERT_EQ(read_back.rejections().size(), 1u);
  const RejectionRow& row = read_back.rejections()[0].rows[1];
  EXPECT_EQ(row.node, 99u);
  EXPECT_EQ(row.parent_idx, 0);
  EXPECT_EQ(row.draft->total, 12345u);
  EXPECT_EQ(row.draft, read_back.rejections()[0].rows[0].draft);
}

TEST(StepTasks, NumbersComeBitForBit) {
  Asked asked;
  asked.plain.seed = UINT64_MAX;
  asked.plain.temperature = std::bit_cast<float>(0x7fa00001u);
  asked.penalized.seed = uint64_t{1} << 63;
  asked.penalized.min_p = -0.0f;
  asked.penalized.logit_bias = {{INT32_MIN, INFINITY}, {INT32_MAX, -INFINITY}};
  asked.draft.weights = {NAN, INFINITY, std::numeric_limits<float>::denorm_min()};
  asked.draft.total = UINT64_MAX;
  StepTasks back;
  ASSERT_TRUE(read(asked.bytes(), back).ok());
  EXPECT_EQ(std::bit_cast<uint32_t>(back.tasks()[0].context.params->temperature), 0x7fa00001u);
  EXPECT_EQ(back.tasks()[2].context.params->seed, uint64_t{1} << 63);
  Bytes again;
  WireWriter to(&again);
  write_tasks(back.tasks(), back.rejections(), to);
  EXPECT_TRUE(again == asked.bytes());
}

TEST(StepTasks, EveryBeginningIsRefused) {
  const Bytes bytes = Asked().bytes();
  for (size_t length = 0; length < bytes.size(); ++length) {
    StepTasks tasks;
    EXPECT_FALSE(
        read(Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length)), tasks).ok());
    EXPECT_TRUE(tasks.tasks().empty() && tasks.rejections().empty());
  }
}

TEST(StepTasks, WhatIsOutOfRangeIsRefused) {
  const auto why = [](const Asked& asked) {
    StepTasks tasks;
    EXPECT_TRUE(read(asked.bytes(), tasks).ok());
    return tasks.check(kVocab).message();
  };
  Asked asked;
  asked.path[0] = kVocab;
  EXPECT_NE(why(asked).find("token 50"), std::string::npos);
  Asked counted;
  counted.counts.add(-1, true);
  EXPECT_NE(why(counted).find("token -1"), std::string::npos);
  Asked many;
  many.tasks[0].count = kVocab + 1;
  EXPECT_NE(why(many).find("candidates wanted 51"), std::string::npos);
  Asked scored;
  scored.tasks[0].want = Want::kScore;
  scored.tasks[0].token = kVocab + 2;
  EXPECT_NE(why(scored).find("token 52"), std::string::npos);
  Asked negative;
  negative.tasks[0].context.position = -1;
  EXPECT_NE(why(negative).find("position -1"), std::string::npos);
  Asked unordered;
  unordered.plain.end_tokens = {7, 3};
  EXPECT_NE(why(unordered).find("out of order"), std::string::npos);
  Asked strange;
  strange.plain.temperature = NAN;
  EXPECT_NE(why(strange).find("temperature"), std::string::npos);

  StepTasks tasks;
  ASSERT_TRUE(read(Asked().bytes(), tasks).ok());
  StageMessage message;
  message.whole = true;
  message.rows.resize(2);
  for (StepRow& row : message.rows) row.wants_logits = true;
  EXPECT_TRUE(tasks.check_rows(message).ok());
  message.whole = false;
  EXPECT_FALSE(tasks.check_rows(message).ok());
  message.whole = true;
  message.rows[0].wants_logits = false;
  EXPECT_FALSE(tasks.check_rows(message).ok());
}

TEST(StepTasks, AnswersComeBackToWhoHasAsked) {
  Asked there;
  there.results[0].token = 17;
  there.results[0].logprob = -0.5f;
  there.results[0].top = {{17, -0.5f}, {18, -1.0f}};
  there.tasks[2].skipped = true;
  there.tasks[1].status = Status(StatusCode::kInvalidArgument, "broken");
  there.drawn = there.draft;
  there.verified.accepted = {99};
  there.verified.bonus = 5;
  there.verified.walked.resize(1);
  there.verified.walked[0].position = 21;
  there.verified.walked[0].token = 5;
  Bytes bytes;
  WireWriter to(&bytes);
  write_answers(there.tasks, there.rejections, to);

  Asked here;
  WireReader from(bytes);
  ASSERT_TRUE(read_answers(from, here.tasks, here.rejections).ok());
  EXPECT_EQ(here.results[0].token, 17);
  EXPECT_EQ(here.results[0].logprob, -0.5f);
  ASSERT_EQ(here.results[0].top.size(), 2u);
  EXPECT_EQ(here.results[0].top[1].token, 18);
  EXPECT_TRUE(here.tasks[2].skipped);
  EXPECT_EQ(here.tasks[1].status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(here.tasks[1].status.message(), "broken");
  EXPECT_EQ(here.drawn.total, 12345u);
  EXPECT_EQ(here.verified.accepted, std::vector<NodeId>{99});
  EXPECT_EQ(here.verified.bonus, 5);
  EXPECT_EQ(here.verified.walked[0].position, 21);

  // Answers to other tasks are refused.
  WireReader again(bytes);
  EXPECT_EQ(read_answers(again, std::span(here.tasks).first(2), here.rejections).code(),
            StatusCode::kCorrupt);
  for (size_t length = 0; length < bytes.size(); ++length) {
    WireReader part(std::span<const std::byte>(bytes).first(length));
    EXPECT_FALSE(read_answers(part, here.tasks, here.rejections).ok());
  }
}

}  // namespace
}  // namespace forerun
