#include "exec/real_executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "exec/exec_rig.h"
#include "exec/guarded.h"

namespace forerun {
namespace {

TEST(RealExecutor, ItemsOfSeveralSequencesShareAStep) {
  std::vector<StepRecord> records;
  Rig rig({.on_step = [&](const StepRecord& record) { records.push_back(record); }});
  for (SequenceId id = 1; id <= 3; ++id) {
    ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
    rig.executor->submit(prefix_item(id, Role::kTarget, {1, 2, 3}));
  }
  for (int result = 0; result < 3; ++result) ASSERT_TRUE(rig.next().has_value());
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].rows, 9);
  EXPECT_EQ(records[0].sequences, 3);
  EXPECT_EQ(records[0].context_tokens, 3);
  EXPECT_GT(records[0].seconds, 0.0);
  EXPECT_FALSE(rig.next().has_value());
}

// A draft item that does not pay off is answered without a Step: its edits are applied, and none of
// its rows has KV.
TEST(RealExecutor, DraftsThatDoNotPayAreLeftOut) {
  StepCosts known;
  known.add(Role::kTarget, {.rows = 1}, 10e-3);
  known.add(Role::kDraft, {.rows = 1}, 5e-3);
  LiveCosts costs;
  costs.set(std::move(known));
  std::vector<StepRecord> drafts;
  Rig rig({.costs = &costs, .on_step = [&](const StepRecord& record) {
             if (record.role == Role::kDraft) drafts.push_back(record);
           }});
  for (SequenceId id = 1; id <= 2; ++id) {
    ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
    rig.executor->submit(prefix_item(id, Role::kTarget, {1, 2, 3}));
    ASSERT_TRUE(rig.next().has_value());
  }
  const auto offer = [&](SequenceId id, uint64_t tag, float gain) {
    WorkItem item = prefix_item(id, Role::kDraft, {1, 2});
    item.rows.back().want = Want::kNothing;
    item.rows.push_back({.token = 3, .position = 2, .node = 7, .want = Want::kTopK, .count = 1});
    item.tag = tag;
    item.gain = gain;
    rig.executor->submit(std::move(item));
  };
  offer(1, 11, 0.1f);
  offer(2, 12, 0.1f);
  for (const uint64_t tag : {11u, 12u}) {
    const auto result = rig.next();
    ASSERT_TRUE(result.has_value());
    EXPECT_TRUE(result->status.ok()) << result->status.message();
    EXPECT_EQ(result->tag, tag);
    EXPECT_TRUE(result->left_out);
    EXPECT_TRUE(result->rows.empty());
  }
  EXPECT_TRUE(drafts.empty());
  // The same rows come again, and one of them pays for both.
  offer(1, 13, 0.1f);
  offer(2, 14, 2.0f);
  for (int results = 0; results < 2; ++results) {
    const auto result = rig.next();
    ASSERT_TRUE(result.has_value());
    EXPECT_TRUE(result->status.ok()) << result->status.message();
    EXPECT_FALSE(result->left_out);
    EXPECT_EQ(result->rows.size(), 1u);
  }
  ASSERT_EQ(drafts.size(), 1u);
  EXPECT_EQ(drafts[0].sequences, 2);
  EXPECT_EQ(rig.draft.violations, 0);
}

// The caller's timeout ends next() after a Step, although the prompt is not read yet.
TEST(RealExecutor, NextReturnsAfterAStepOnceTimeIsUp) {
  int32_t steps = 0;
  Rig rig({.row_budget = 16, .on_step = [&](const StepRecord&) { ++steps; }});
  ASSERT_TRUE(rig.executor->open(1, plain_spec()).ok());
  rig.executor->submit(prefix_item(1, Role::kTarget, std::vector<TokenId>(300, 5)));
  EXPECT_FALSE(rig.executor->next(std::chrono::microseconds(0)).has_value());
  EXPECT_EQ(steps, 1);
  rig.executor->close(1);
  EXPECT_FALSE(rig.executor->next(std::chrono::microseconds(0)).has_value());
  EXPECT_EQ(steps, 1) << "what was closed does not go on";
}

class WaitsForMemory : public ::testing::TestWithParam<bool> {};

TEST_P(WaitsForMemory, AnItemWithoutBlocksRunsOnceOthersHaveGivenSomeBack) {
  Rig rig({.threaded = GetParam(), .blocks = 4, .on_step = {}});
  for (SequenceId id = 1; id <= 3; ++id) ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
  rig.executor->submit(prefix_item(1, Role::kTarget, std::vector<TokenId>(150, 5)));
  const auto first = rig.next();
  ASSERT_TRUE(first.has_value() && first->status.ok());
  rig.executor->submit(prefix_item(2, Role::kTarget, std::vector<TokenId>(200, 6)));
  const auto notice = rig.next();
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->sequence, 2u);
  EXPECT_TRUE(notice->waits_for_memory);
  EXPECT_EQ(notice->status.code(), StatusCode::kResourceExhausted);
  // Sequences that find room continue meanwhile.
  rig.executor->submit(prefix_item(3, Role::kTarget, {1, 2}));
  const auto other = rig.next();
  ASSERT_TRUE(other.has_value() && other->status.ok());
  EXPECT_EQ(other->sequence, 3u);
  rig.executor->close(3);  // frees too few blocks
  const auto again = rig.next();
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->waits_for_memory);
  rig.executor->close(1);
  const auto second = rig.next();
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(second->status.ok()) << second->status.message();
  EXPECT_FALSE(second->waits_for_memory);
  rig.executor->close(2);
  rig.wait_until_kv_is_free();
}

INSTANTIATE_TEST_SUITE_P(InlineAndThreaded, WaitsForMemory, ::testing::Bool());

TEST(RealExecutor, FailuresStayWithTheirSequence) {
  Rig rig({.blocks = 3, .on_step = {}});
  ASSERT_TRUE(rig.executor->open(1, plain_spec()).ok());
  ASSERT_TRUE(rig.executor->open(2, plain_spec(10)).ok());
  ASSERT_TRUE(rig.executor->open(3, plain_spec()).ok());
  ASSERT_TRUE(rig.executor->open(4, plain_spec()).ok());
  ASSERT_TRUE(rig.executor->open(5, plain_spec()).ok());
  EXPECT_EQ(rig.executor->open(5, plain_spec()).code(), StatusCode::kInvalidArgument);
  rig.executor->submit(prefix_item(1, Role::kTarget, std::vector<TokenId>(300, 5)));
  rig.executor->submit(prefix_item(2, Role::kTarget, std::vector<TokenId>(11, 5)));
  rig.executor->submit(prefix_item(3, Role::kTarget, {1, 2}));
  WorkItem unknown = prefix_item(4, Role::kTarget, {1, 2});
  unknown.rows[1].node = 7;
  unknown.rows[1].parent = 6;
  rig.executor->submit(unknown);
  WorkItem edit;
  edit.sequence = 5;
  edit.edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {9}});
  rig.executor->submit(edit);  // has no rows, and fails with the next item
  rig.executor->submit(prefix_item(5, Role::kTarget, {1}));
  std::map<SequenceId, Status> statuses;
  for (int result = 0; result < 5; ++result) {
    const auto next = rig.next();
    ASSERT_TRUE(next.has_value());
    statuses[next->sequence] = next->status;
  }
  EXPECT_EQ(statuses[1].code(), StatusCode::kResourceExhausted);
  EXPECT_NE(statuses[1].message().find("of 3 are free"), std::string::npos)
      << statuses[1].message();
  EXPECT_EQ(statuses[2].code(), StatusCode::kResourceExhausted);
  EXPECT_NE(statuses[2].message().find("limit of 10"), std::string::npos);
  EXPECT_TRUE(statuses[3].ok());
  EXPECT_EQ(statuses[4].code(), StatusCode::kInternal);
  EXPECT_NE(statuses[4].message().find("node 6"), std::string::npos) << statuses[4].message();
  EXPECT_EQ(statuses[5].code(), StatusCode::kInternal);
  // A failed sequence fails again, and the others continue.
  rig.executor->submit(prefix_item(2, Role::kTarget, {1}));
  EXPECT_EQ(rig.next()->status.code(), StatusCode::kResourceExhausted);
  rig.executor->submit(prefix_item(3, Role::kTarget, {1}, 2));
  EXPECT_TRUE(rig.next()->status.ok());
  for (SequenceId id = 1; id <= 5; ++id) rig.executor->close(id);
  EXPECT_EQ(rig.executor->kv_usage(Role::kTarget).used_blocks, 0);
}

TEST(RealExecutor, NanLogitsAreTheirRowsAlone) {
  Rig rig({.on_step = {}});
  rig.target.poison_position = 4;
  // Tokens beyond the common vocabulary are never read, so this poisons a model whose whole row is
  // live.
  rig.draft.poison_position = 4;
  ASSERT_TRUE(rig.executor->open(1, plain_spec()).ok());
  ASSERT_TRUE(rig.executor->open(2, plain_spec()).ok());
  rig.executor->submit(prefix_item(1, Role::kDraft, {1, 2, 3, 4, 5}));
  rig.executor->submit(prefix_item(2, Role::kDraft, {1, 2, 3}));
  rig.executor->submit(prefix_item(2, Role::kTarget, {1, 2, 3, 4, 5}));
  for (int index = 0; index < 3; ++index) {
    const auto result = rig.next();
    ASSERT_TRUE(result.has_value());
    EXPECT_TRUE(result->status.ok()) << result->status.message();
    ASSERT_EQ(result->rows.size(), 1u);
    const RowResult& row = result->rows[0];
    EXPECT_EQ(row.status.ok(), result->sequence == 2u);
    if (row.status.ok()) continue;
    EXPECT_EQ(row.status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(row.status.message().find(role_name(result->role)), std::string::npos);
    EXPECT_NE(row.status.message().find("position 5"), std::string::npos) << row.status.message();
    EXPECT_EQ(row.token, -1);
    EXPECT_TRUE(row.top.empty());
  }
}

// A Step's failure must never be reported as a request's own fault.
TEST(RealExecutor, AStepsFailureIsNoRequestsFault) {
  for (const StatusCode code : {StatusCode::kInvalidArgument, StatusCode::kResourceExhausted,
                                StatusCode::kUnsupported, StatusCode::kNotFound}) {
    EXPECT_EQ(guarded([&] { return Status(code, "row 3: no such slot"); }).code(),
              StatusCode::kInternal);
  }
  EXPECT_EQ(guarded([] { return Status(StatusCode::kDeadlineExceeded, "late"); }).code(),
            StatusCode::kDeadlineExceeded);
}

TEST(RealExecutor, ADeviceErrorReachesEveryItemOfTheStep) {
  Rig rig({.on_step = {}});
  rig.target.fail = true;
  for (SequenceId id = 1; id <= 2; ++id) {
    ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
    rig.executor->submit(prefix_item(id, Role::kTarget, {1, 2}));
  }
  for (int index = 0; index < 2; ++index) {
    const auto result = rig.next();
    ASSERT_TRUE(result.has_value());
    EXPECT_NE(result->status.message().find("the device is gone"), std::string::npos);
  }
}

TEST(RealExecutor, ARoleWithoutAModelFailsItsItems) {
  FakeDecoder target(kVocab, 4, 1);
  auto device = CpuDeviceGroup::create_unpinned({1});
  ASSERT_TRUE(device.ok());
  RealExecutorOptions options;
  options.runners[0] = std::make_unique<DecoderStepRunner>(&target, device.value().get(), kVocab);
  RealExecutor executor(std::move(options));
  ASSERT_TRUE(executor.open(1, plain_spec()).ok());
  executor.submit(prefix_item(1, Role::kDraft, {1}));
  const auto result = executor.next(kTimeout);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.code(), StatusCode::kInternal);
  EXPECT_EQ(executor.kv_usage(Role::kDraft).total_blocks, 0);
  executor.close(1);
  EXPECT_EQ(executor.profile(Role::kDraft, 1, 0).status().code(), StatusCode::kNotFound);
}

TEST(RealExecutor, ProfileMeasuresAndLeavesNothingBehind) {
  for (bool threaded : {false, true}) {
    Rig rig({.threaded = threaded, .on_step = {}});
    for (Role role : {Role::kTarget, Role::kDraft}) {
      const auto record = rig.executor->profile(role, 8, 100);
      ASSERT_TRUE(record.ok()) << record.status().message();
      EXPECT_EQ(record->rows, 8);
      EXPECT_EQ(record->role, role);
      EXPECT_GT(record->seconds, 0.0);
      EXPECT_GT(record->host_seconds, 0.0);
    }
    EXPECT_EQ(rig.executor->profile(Role::kTarget, 8, 100000).status().code(),
              StatusCode::kResourceExhausted);
    rig.wait_until_kv_is_free();
    ASSERT_TRUE(rig.executor->open(1, plain_spec()).ok());
    EXPECT_EQ(rig.executor->profile(Role::kTarget, 1, 1).status().code(),
              StatusCode::kInvalidArgument);
  }
}

// On a GPU, moves would run within the measured Step.
TEST(RealExecutor, ProfileWritesTheContextInHostMemoryAlone) {
  for (const bool host : {false, true}) {
    Rig rig({});
    rig.target.host_kv = host;
    ASSERT_TRUE(rig.executor->profile(Role::kTarget, 2, 100, 3).ok());
    EXPECT_EQ(rig.target.slots_moved, host ? 3 * 99 : 0);
  }
}

// Both roles' threads must run at the same time: each Step waits for the other role's.
TEST(RealExecutor, ThreadedRolesOverlap) {
  class Meeting : public FakeDecoder {
   public:
    Meeting(uint64_t seed, std::atomic<int>* arrived)
        : FakeDecoder(kVocab, 8, seed), arrived_(arrived) {}
    Status forward(const Step& step) override {
      arrived_->fetch_add(1);
      for (int tries = 0; tries < 100000 && arrived_->load() < 2; ++tries) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      met = arrived_->load() >= 2;
      return FakeDecoder::forward(step);
    }
    bool met = false;

   private:
    std::atomic<int>* arrived_;
  };
  std::atomic<int> arrived{0};
  Meeting target(1, &arrived), draft(2, &arrived);
  auto device0 = CpuDeviceGroup::create_unpinned({1});
  auto device1 = CpuDeviceGroup::create_unpinned({1});
  ASSERT_TRUE(device0.ok() && device1.ok());
  RealExecutorOptions options;
  options.runners[0] = std::make_unique<DecoderStepRunner>(&target, device0.value().get(), kVocab);
  options.runners[1] = std::make_unique<DecoderStepRunner>(&draft, device1.value().get(), kVocab);
  options.threaded = {true, true};
  {
    RealExecutor executor(std::move(options));
    ASSERT_TRUE(executor.open(1, plain_spec()).ok());
    executor.submit(prefix_item(1, Role::kTarget, {1, 2}));
    executor.submit(prefix_item(1, Role::kDraft, {1, 2}));
    ASSERT_TRUE(executor.next(kTimeout).has_value());
    ASSERT_TRUE(executor.next(kTimeout).has_value());
    EXPECT_FALSE(executor.next(std::chrono::microseconds(0)).has_value());
    // In flight when the executor is destroyed.
    executor.submit(prefix_item(1, Role::kTarget, {3}, 2));
  }
  EXPECT_TRUE(target.met && draft.met);
}

TEST(RealExecutor, ThreadsThatPollBeforeTheySleepMissNothing) {
  Rig rig({.threaded = true, .spin = std::chrono::microseconds(200)});
  ASSERT_TRUE(rig.executor->open(1, plain_spec()).ok());
  for (int32_t round = 0; round < 200; ++round) {
    for (const Role role : {Role::kTarget, Role::kDraft}) {
      WorkItem item = prefix_item(1, role, {7}, round);
      item.tag = static_cast<uint64_t>(round) + 1;
      rig.executor->submit(std::move(item));
    }
    // Lets the threads fall asleep now and then.
    if (round % 20 == 19) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (int results = 0; results < 2; ++results) {
      const auto result = rig.next();
      ASSERT_TRUE(result.has_value());
      EXPECT_TRUE(result->status.ok()) << result->status.message();
      EXPECT_EQ(result->tag, static_cast<uint64_t>(round) + 1);
    }
  }
  EXPECT_FALSE(rig.executor->next(std::chrono::microseconds(100)).has_value());
}

// The follow-up work of one Step's results must reach a polling thread all at once, not in pieces.
TEST(RealExecutor, SequencesThatSharedAStepShareTheNextOneToo) {
  std::atomic<int> steps{0};
  Rig rig({.threaded = true, .spin = kTimeout, .on_step = [&](const StepRecord&) { ++steps; }});
  const auto submit = [&](SequenceId id, int32_t position) {
    rig.executor->submit(prefix_item(id, Role::kTarget, {7}, position));
  };
  for (SequenceId id = 1; id <= 2; ++id) {
    ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
    submit(id, 0);
  }
  for (int result = 0; result < 2; ++result) ASSERT_TRUE(rig.next().has_value());
  steps = 0;
  for (SequenceId id = 1; id <= 2; ++id) submit(id, 1);
  for (int32_t position = 2; position < 30; ++position) {
    for (int result = 0; result < 2; ++result) {
      const auto found = rig.next();
      ASSERT_TRUE(found.has_value());
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // the time of a strategy's turn
      submit(found->sequence, position);
    }
    ASSERT_EQ(steps.load(), position - 1);
  }
}

// A request may end while its draft still runs a Step, and the next request may take its id.
TEST(RealExecutor, AResultOfAClosedSequenceIsNotTheNextOnesOfItsId) {
  std::promise<void> has_run, may_report;
  bool is_first = true;  // only the draft's thread uses it
  Rig rig({.threaded = true, .on_step = [&](const StepRecord& record) {
             if (record.role != Role::kDraft || !std::exchange(is_first, false)) return;
             has_run.set_value();
             may_report.get_future().wait_for(kTimeout);
           }});
  const auto submit = [&](Role role, uint64_t tag) {
    WorkItem item = prefix_item(1, role, {1, 2, 3});
    item.tag = tag;
    rig.executor->submit(std::move(item));
  };
  ASSERT_TRUE(rig.executor->open(1, plain_spec()).ok());
  submit(Role::kDraft, 7);
  EXPECT_FALSE(rig.executor->next(std::chrono::microseconds(0)).has_value());
  ASSERT_EQ(has_run.get_future().wait_for(kTimeout), std::future_status::ready);
  rig.executor->close(1);
  ASSERT_TRUE(rig.executor->open(1, plain_spec()).ok());
  submit(Role::kDraft, 8);
  may_report.set_value();
  const auto drafted = rig.next();
  ASSERT_TRUE(drafted.has_value());
  EXPECT_EQ(drafted->tag, 8u);
  // The former sequence's counts must not affect the new one.
  submit(Role::kTarget, 9);
  const auto verified = rig.next();
  ASSERT_TRUE(verified.has_value());
  EXPECT_EQ(verified->tag, 9u);
}

TEST(CommonLiveVocab, IsTheSmallerOne) {
  ModelConfig target, draft;
  target.vocab_size = 152064;
  draft.vocab_size = 151936;
  EXPECT_EQ(common_live_vocab(target, nullptr), 152064);
  EXPECT_EQ(common_live_vocab(target, &draft), 151936);
  target.live_vocab_size = 8000;
  EXPECT_EQ(common_live_vocab(target, &draft), 8000);
}

}  // namespace
}  // namespace forerun
