#include "simulation/recorded_acceptance.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "checkpoint/testing.h"
#include "exec/exec_rig.h"
#include "simulation/recording_runner.h"

namespace forerun {
namespace {

RecordedText small_text() {
  RecordedText text;
  text.tokens = {5, 6, 7, 8};
  text.prompt_tokens = 2;
  text.guesses = {{{7, -0.1f}, {9, -2.5f}}, {{3, -0.5f}}};
  // Token 9 instead of 7, then 4; and 3 instead of 8.
  text.branches = {{-1, 9, {{4, -0.7f}}}, {0, 4, {{1, -0.2f}, {2, -1.7f}}}, {-2, 3, {}}};
  return text;
}

uint64_t history_of(const std::vector<TokenId>& tokens) {
  uint64_t history = 0;
  for (const TokenId token : tokens) history = mix_hash(history, static_cast<uint64_t>(token));
  return history;
}

TEST(RecordedAcceptance, AnswersAlongTheTextWithWhatWasRecorded) {
  RecordedAcceptance recorded(20);
  ASSERT_TRUE(recorded.add(small_text()).ok());
  EXPECT_EQ(recorded.target_token(history_of({5, 6}), 1), 7);
  EXPECT_EQ(recorded.target_token(history_of({5, 6, 7}), 2), 8);
  std::vector<Candidate> guesses;
  recorded.draft_guesses(history_of({5, 6}), 1, 16, &guesses);
  ASSERT_EQ(guesses.size(), 2u);
  EXPECT_EQ(guesses[1].token, 9);
  recorded.draft_guesses(history_of({5, 6}), 1, 1, &guesses);
  EXPECT_EQ(guesses.size(), 1u);
  // Off the text, on a branch.
  recorded.draft_guesses(history_of({5, 6, 9, 4}), 3, 16, &guesses);
  ASSERT_EQ(guesses.size(), 2u);
  EXPECT_EQ(guesses[1].token, 2);
  recorded.draft_guesses(history_of({5, 6, 7, 3}), 3, 16, &guesses);
  EXPECT_TRUE(guesses.empty());
  EXPECT_LT(recorded.target_token(history_of({5, 6, 9}), 2), 20);
  // On an unrecorded history: guesses of some recorded position, always the same.
  std::vector<Candidate> again;
  recorded.draft_guesses(history_of({5, 6, 11}), 2, 16, &guesses);
  recorded.draft_guesses(history_of({5, 6, 11}), 2, 16, &again);
  ASSERT_FALSE(guesses.empty());
  EXPECT_EQ(guesses.size(), again.size());
}

TEST(RecordedAcceptance, SurvivesItsFile) {
  TempDir dir;
  const auto file = dir.path() / "acceptance.json";
  RecordedAcceptance recorded(20);
  ASSERT_TRUE(recorded.add(small_text()).ok());
  ASSERT_TRUE(recorded.save(file).ok());
  const auto loaded = RecordedAcceptance::load(file);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->vocab(), 20);
  ASSERT_EQ(loaded->texts().size(), 1u);
  const RecordedText& text = loaded->texts()[0];
  EXPECT_EQ(text.tokens, small_text().tokens);
  ASSERT_EQ(text.guesses.size(), 2u);
  EXPECT_EQ(text.guesses[0][1].token, 9);
  EXPECT_EQ(text.guesses[0][0].logprob, -0.1f);
  EXPECT_EQ(text.guesses[0][1].logprob, -2.5f);
  ASSERT_EQ(text.branches.size(), 3u);
  EXPECT_EQ(text.branches[2].parent, -2);
  EXPECT_EQ(text.branches[1].token, 4);
  ASSERT_EQ(text.branches[1].guesses.size(), 2u);
  EXPECT_EQ(text.branches[1].guesses[1].token, 2);
  EXPECT_EQ(text.branches[1].guesses[1].logprob, -1.7f);
}

// Reads the file in the comment at the top of recorded_acceptance_file.cc.
TEST(RecordedAcceptance, ReadsPackedIntegers) {
  TempDir dir;
  const auto file = dir.path() / "acceptance.json";
  ASSERT_TRUE(
      write_text(file, R"({"forerun_acceptance": 2, "vocab": 1000, "texts": [{"prompt_tokens": 2,)"
                       R"("tokens": "FJH", "branch_parents": "B", "branch_tokens": "D",)"
                       R"("guess_counts": "CB", "guesses": "HDI", "logprobs": "kDgrC8V"}]})")
          .ok());
  const auto loaded = RecordedAcceptance::load(file);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const RecordedText& text = loaded->texts()[0];
  EXPECT_EQ(text.tokens, (std::vector<TokenId>{5, 9, 7}));
  ASSERT_EQ(text.guesses.size(), 1u);
  ASSERT_EQ(text.guesses[0].size(), 2u);
  EXPECT_EQ(text.guesses[0][0].token, 7);
  EXPECT_EQ(text.guesses[0][1].token, 3);
  EXPECT_EQ(text.guesses[0][1].logprob, -2.5f);
  ASSERT_EQ(text.branches.size(), 1u);
  EXPECT_EQ(text.branches[0].parent, -1);
  EXPECT_EQ(text.branches[0].token, 3);
  ASSERT_EQ(text.branches[0].guesses.size(), 1u);
  EXPECT_EQ(text.branches[0].guesses[0].token, 8);
  EXPECT_EQ(text.branches[0].guesses[0].logprob, -0.7f);
}

TEST(RecordedAcceptance, RefusesWhatDoesNotFit) {
  RecordedAcceptance recorded(8);
  EXPECT_FALSE(recorded.add(small_text()).ok());  // tokens 8 and 9
  RecordedAcceptance larger(20);
  RecordedText text = small_text();
  text.guesses.pop_back();
  EXPECT_FALSE(larger.add(text).ok());
  text = small_text();
  text.prompt_tokens = 4;
  EXPECT_FALSE(larger.add(text).ok());
  for (const int32_t parent : {1, -3}) {
    text = small_text();
    text.branches[1].parent = parent;
    EXPECT_FALSE(larger.add(text).ok()) << parent;
  }

  TempDir dir;
  const auto file = dir.path() / "acceptance.json";
  const auto refusal = [&](const std::string& content) {
    EXPECT_TRUE(write_text(file, content).ok());
    const auto loaded = RecordedAcceptance::load(file);
    EXPECT_FALSE(loaded.ok()) << content;
    return loaded.status().message();
  };
  const std::string head = R"({"forerun_acceptance": 2, "vocab": 20, "texts": [{)";
  const std::string good = R"("prompt_tokens": 1, "tokens": "BC", )";
  const auto names = [&](const std::string& fields, const char* field) {
    return refusal(head + good + fields + "}]}").find(field) != std::string::npos;
  };
  EXPECT_TRUE(
      names(R"("guess_counts": "B", "guesses": "D", "logprobs": "BC")", "texts[0].logprobs"));
  EXPECT_TRUE(names(R"("guess_counts": "B", "guesses": "U", "logprobs": "B")", "texts[0].guesses"));
  EXPECT_TRUE(names(R"("guess_counts": "C", "guesses": "C", "logprobs": "B")", "guess_counts"));
  EXPECT_TRUE(names(R"("branch_parents": "B", "guess_counts": "", "guesses": "", "logprobs": "")",
                    "texts[0].branch_tokens"));
  // An invalid character; an incomplete number; a number with too many digits.
  for (const char* logprobs : {"B!", "k", "kkkkkkkkkkkkkkkkB"}) {
    EXPECT_TRUE(names(
        R"("guess_counts": "B", "guesses": "D", "logprobs": ")" + std::string(logprobs) + "\"",
        "texts[0].logprobs"));
  }
  EXPECT_NE(refusal(R"({"forerun_acceptance": 2, "texts": []})").find("vocab"), std::string::npos);
  EXPECT_NE(refusal(R"({"forerun_acceptance": 1, "vocab": 20, "texts": []})")
                .find("field \"forerun_acceptance\": found 1"),
            std::string::npos);
}

TEST(RecordedAcceptance, ARecordingHoldsWhatTheDraftSays) {
  Rig rig(Rig::Options{});
  const std::vector<TokenId> tokens = {4, 8, 15, 16, 23, 42};
  const auto text = record_acceptance(*rig.executor, 3, plain_spec(), tokens, 2, 5);
  ASSERT_TRUE(text.ok()) << text.status().message();
  ASSERT_EQ(text->guesses.size(), 4u);
  for (size_t output = 0; output < 4; ++output) {
    std::vector<float> logits(kVocab);
    fake_logits(fake_history({tokens.begin(), tokens.begin() + 2 + static_cast<int>(output)}, 2),
                kVocab, logits.data());
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    ASSERT_EQ(text->guesses[output].size(), 5u);
    EXPECT_EQ(text->guesses[output][0].token, static_cast<TokenId>(best));
  }
  EXPECT_EQ(rig.executor->kv_usage(Role::kDraft).used_blocks, 0);
  // The failure must be returned, and no sequence may stay open.
  rig.draft.fail = true;
  EXPECT_FALSE(record_acceptance(*rig.executor, 3, plain_spec(), tokens, 2, 5).ok());
}

// A recorder of a draft passes on its answers, and keeps the branches beside the text.
TEST(RecordingRunner, KeepsTheBranchesOfAText) {
  FakeDecoder decoder(kVocab, 16, 2);
  const auto device = CpuDeviceGroup::create_unpinned({1}).value();
  auto runner = std::make_unique<RecordingRunner>(
      std::make_unique<DecoderStepRunner>(&decoder, device.get(), kVocab));
  RecordingRunner& recording = *runner;
  RealExecutorOptions options;
  options.runners[static_cast<size_t>(Role::kDraft)] = std::move(runner);
  RealExecutor executor(std::move(options));
  ASSERT_TRUE(executor.open(1, plain_spec()).ok());
  const auto run = [&](WorkItem item) {
    item.sequence = 1;
    item.role = Role::kDraft;
    for (WorkRow& row : item.rows) {
      row.want = Want::kTopK;
      row.count = 3;
    }
    executor.submit(std::move(item));
    const auto result = executor.next(kTimeout);
    EXPECT_TRUE(result && result->status.ok());
    return result->rows;
  };
  run(prefix_item(1, Role::kDraft, {4, 8}));
  // 15 is the text's next token, 16 a wrong guess; 17 and 18 are below each.
  WorkItem tree;
  tree.rows = {{.token = 15, .position = 2, .node = 0},
               {.token = 16, .position = 2, .node = 1},
               {.token = 17, .position = 3, .node = 2, .parent = 0},
               {.token = 18, .position = 3, .node = 3, .parent = 1}};
  run(std::move(tree));
  // The path 15, 17 moves down; a branch below it still has the right history.
  WorkItem below;
  below.edits.push_back({.kind = Edit::Kind::kCommit, .nodes = {0}});
  below.edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {2}});
  below.rows = {{.token = 19, .position = 4, .node = 4, .parent = 2}};
  const std::vector<RowResult> last = run(std::move(below));

  RecordedText text;
  text.tokens = {4, 8, 15, 23};
  text.prompt_tokens = 2;
  text.guesses.resize(2);
  recording.take_branches(2, text);
  ASSERT_EQ(text.branches.size(), 4u);
  EXPECT_EQ(text.branches[0].token, 16);
  EXPECT_EQ(text.branches[0].parent, -1);
  EXPECT_EQ(text.branches[1].token, 17);
  EXPECT_EQ(text.branches[1].parent, -2);
  EXPECT_EQ(text.branches[2].token, 18);
  EXPECT_EQ(text.branches[2].parent, 0);
  EXPECT_EQ(text.branches[3].token, 19);
  EXPECT_EQ(text.branches[3].parent, 1);
  ASSERT_EQ(text.branches[3].guesses.size(), 2u);
  EXPECT_EQ(text.branches[3].guesses[0].token, last.at(0).top.at(0).token);
  RecordedAcceptance recorded(kVocab);
  EXPECT_TRUE(recorded.add(text).ok());
}

}  // namespace
}  // namespace forerun
