// Tests a pipeline of fake stages, with one Step at a time and with several in flight.
#include "exec/stages/stage_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exec/exec_rig.h"
#include "exec/stages/one_row_rig.h"
#include "exec/stages/stage_threads.h"
#include "exec/stages/stage_worker.h"

namespace forerun {
namespace {

// Stages over fake decoders, and an uncut decoder that they must agree with.
struct Pipeline {
  explicit Pipeline(int32_t num_stages, std::function<void(int32_t)> in_stage = {}) {
    for (int32_t stage = 0; stage < num_stages; ++stage) {
      decoders.push_back(std::make_unique<FakeDecoder>(kVocab, 16, 1));
      decoders.back()->set_stage(stage, num_stages);
      if (in_stage) decoders.back()->while_running = [stage, in_stage] { in_stage(stage); };
    }
    auto made = CpuDeviceGroup::create_unpinned({1});
    EXPECT_TRUE(made.ok());
    devices = std::move(made).value();
    std::vector<PipelineStage> stages;
    for (const auto& decoder : decoders) stages.push_back({decoder.get(), nullptr});
    stages.back().devices = devices.get();
    pipeline = std::make_unique<StagePipeline>(std::make_unique<StageThreads>(stages, kVocab));
  }

  std::vector<std::unique_ptr<FakeDecoder>> decoders;
  std::unique_ptr<CpuDeviceGroup> devices;
  std::unique_ptr<StagePipeline> pipeline;
};

TEST(StagePipeline, OneStepAtATime) {
  for (const int32_t stages : {2, 3, 8}) {
    Pipeline made(stages);
    EXPECT_EQ(made.pipeline->num_stages(), stages);
    EXPECT_EQ(made.pipeline->kv_block_bytes(), 1000 * stages);
    std::vector<TokenId> text = {7};
    for (int32_t position = 0; position < 20; ++position) {
      OneRow row(5, text.back(), position);
      int called = 0;
      ASSERT_TRUE(made.pipeline->run(row.step, {&row.task, 1}, {}, [&called] { ++called; }).ok());
      EXPECT_EQ(called, 1);
      EXPECT_EQ(row.result.token, greedy(text));
      text.push_back(row.result.token);
    }
    for (const auto& decoder : made.decoders) EXPECT_EQ(decoder->violations, 0);
  }
}

TEST(StagePipeline, RefusesTapsOfStagesThatKeepNoneAndFeatures) {
  Pipeline made(2);
  EXPECT_EQ(made.pipeline->tap_places(), 0);
  OneRow row(5, 7, 0);
  row.step.taps.push_back({.row = 0, .place = 0});
  const Status tapped = made.pipeline->run(row.step, {&row.task, 1}, {}, {});
  EXPECT_EQ(tapped.code(), StatusCode::kUnsupported) << tapped.message();
  row.step.taps.clear();
  row.step.features.push_back({});
  EXPECT_FALSE(made.pipeline->run(row.step, {&row.task, 1}, {}, {}).ok());
  row.step.features.clear();
  EXPECT_TRUE(made.pipeline->run(row.step, {&row.task, 1}, {}, {}).ok());
}

// The stages meet at a gate that opens only when all of them are working: the last one on the first
// Step, the one before it on the second, and so on.
TEST(StagePipeline, EveryStageWorksOnAStepOfItsOwn) {
  constexpr int32_t kStages = 4;
  constexpr int kSteps = 12;
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
  int most = 0;
  bool met = false;
  int steps_of[kStages] = {};
  Pipeline made(kStages, [&](int32_t stage) {
    std::unique_lock lock(mutex);
    if (++steps_of[stage] < kStages - stage) return;
    most = std::max(most, ++inside);
    met = met || inside == kStages;
    changed.notify_all();
    changed.wait_for(lock, kTimeout, [&] { return met; });
    --inside;
  });
  std::vector<uint64_t> entered, retired;
  std::vector<Status> statuses;
  const std::function<void(PipelineEvent)> tell = [&](PipelineEvent event) {
    const std::lock_guard lock(mutex);
    const bool is_end = event.kind == PipelineEvent::Kind::kRetired;
    (is_end ? retired : entered).push_back(event.step);
    if (is_end) statuses.push_back(event.status);
    changed.notify_all();
  };
  std::vector<std::unique_ptr<OneRow>> rows;
  for (int idx = 0; idx < kSteps; ++idx) {
    rows.push_back(std::make_unique<OneRow>(idx, static_cast<TokenId>(idx), 0));
    const uint64_t number =
        made.pipeline->issue(rows.back()->step, {&rows.back()->task, 1}, {}, {}, &tell);
    EXPECT_EQ(number, static_cast<uint64_t>(idx) + 1);
  }
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, kTimeout, [&] { return retired.size() == kSteps; }));
  EXPECT_EQ(most, kStages);
  EXPECT_TRUE(met);
  EXPECT_EQ(entered, retired);
  EXPECT_TRUE(std::is_sorted(retired.begin(), retired.end()));
  for (int idx = 0; idx < kSteps; ++idx) {
    EXPECT_TRUE(statuses[static_cast<size_t>(idx)].ok());
    EXPECT_EQ(rows[static_cast<size_t>(idx)]->result.token, greedy({static_cast<TokenId>(idx)}));
  }
  lock.unlock();
  made.pipeline.reset();  // before the objects of its callbacks
}

// A row that is dropped while the first stage computes must not be sent to the second one.
TEST(StageWorker, SendsNoRowsThatHaveDied) {
  FakeDecoder decoder(kVocab, 16, 1);
  decoder.set_stage(0, 2);
  StageWorker worker({&decoder, nullptr}, 0, 2, kVocab);
  OneRow row(5, 7, 0);
  row.step.rows.push_back(row.step.rows.front());
  row.step.rows.back() = {.token = 9, .position = 1, .slot = 1, .visible = 2, .boundary = 2};
  for (const bool dies : {false, true}) {
    StageMessage message;
    message.step = 1;
    message.add_rows(row.step);
    CancelledRows dropped;
    decoder.while_running = [&] {
      if (dies) dropped.add(std::vector<IssuedRow>{{.step = 1, .row = 1}});
    };
    ASSERT_TRUE(worker.run(message, {}, dropped, {}, {}).ok());
    EXPECT_EQ(worker.rows_run(), 2);
    EXPECT_EQ(message.numbers, dies ? std::vector<int32_t>{0} : std::vector<int32_t>({0, 1}));
    EXPECT_EQ(message.hidden.size(), message.rows.size() * sizeof(TokenId));
  }
}

// A block moves to another sequence while the last Step that used it is still in flight, and moves
// come between the two.
TEST(StagePipeline, MovesAndBlocksTakeEffectInOrder) {
  Pipeline made(3);
  std::mutex mutex;
  std::condition_variable changed;
  size_t retired = 0;
  const std::function<void(PipelineEvent)> tell = [&](const PipelineEvent& event) {
    if (event.kind != PipelineEvent::Kind::kRetired) return;
    EXPECT_TRUE(event.status.ok()) << event.status.message();
    const std::lock_guard lock(mutex);
    ++retired;
    changed.notify_all();
  };
  std::vector<std::unique_ptr<OneRow>> rows;
  std::vector<TokenId> expected;
  const auto issue = [&](TokenId token, int32_t position, const std::vector<TokenId>& history) {
    rows.push_back(std::make_unique<OneRow>(4, token, position));
    made.pipeline->issue(rows.back()->step, {&rows.back()->task, 1}, {}, {}, &tell);
    expected.push_back(greedy(history));
  };
  for (TokenId round = 0; round < 20; ++round) {
    issue(round, 0, {round});
    // Runs a tree row at slot 2, which then becomes the prefix's second token.
    auto tree = std::make_unique<OneRow>(4, round + 1, 1);
    tree->step.rows[0].slot = 2;
    tree->step.rows[0].boundary = 1;
    tree->step.ancestors = {2};
    rows.push_back(std::move(tree));
    made.pipeline->issue(rows.back()->step, {&rows.back()->task, 1}, {}, {}, &tell);
    expected.push_back(greedy({round, round + 1}));
    const int32_t block = 4;
    const std::vector<KvMove> moves = {{2, 1}};
    ASSERT_TRUE(made.pipeline->move_kv({&block}, moves).ok());
    issue(round + 2, 2, {round, round + 1, round + 2});
  }
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, kTimeout, [&] { return retired == rows.size(); }));
  for (size_t idx = 0; idx < rows.size(); ++idx) {
    EXPECT_EQ(rows[idx]->result.token, expected[idx]) << idx;
  }
  lock.unlock();
  made.pipeline.reset();  // before the objects of its callbacks
}

TEST(StagePipeline, AStageThatFailsFailsThatStepAlone) {
  for (const size_t broken : {0, 1, 2}) {
    for (const bool throws : {false, true}) {
      Pipeline made(3);
      OneRow good(1, 3, 0), bad(2, 4, 0), again(3, 5, 0);
      EXPECT_TRUE(made.pipeline->run(good.step, {&good.task, 1}, {}, {}).ok());
      (throws ? made.decoders[broken]->throws : made.decoders[broken]->fail) = true;
      const Status failed = made.pipeline->run(bad.step, {&bad.task, 1}, {}, {});
      EXPECT_EQ(failed.code(), StatusCode::kInternal);
      EXPECT_NE(failed.message().find("stage " + std::to_string(broken + 1) + " of 3"),
                std::string::npos)
          << failed.message();
      made.decoders[broken]->throws = made.decoders[broken]->fail = false;
      EXPECT_TRUE(made.pipeline->run(again.step, {&again.task, 1}, {}, {}).ok());
      EXPECT_EQ(again.result.token, greedy({5}));
    }
  }
}

}  // namespace
}  // namespace forerun
