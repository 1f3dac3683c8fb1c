// A pipeline with ranks of a launch as stages, here threads that exchange messages, must give the
// output of a single decoder.
#include "hosts/remote_stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "exec/decoder_step_runner.h"
#include "exec/stages/one_row_rig.h"
#include "exec/stages/stage_pipeline.h"
#include "hosts/local_transport.h"
#include "hosts/slow_links.h"
#include "hosts/stage_server.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;

constexpr auto kStagesTimeout = std::chrono::seconds(20);
constexpr int64_t kBlocks = 16;

// A launch of fake stages, and the pipeline over them.
struct Launch {
  explicit Launch(int32_t num_stages, const LinkSpeed& speed = {},
                  const StepDeadlineOptions& deadlines = {})
      : network(num_stages + 1) {
    for (int32_t stage = 0; stage < num_stages; ++stage) {
      decoders.push_back(std::make_unique<FakeDecoder>(kVocab, kBlocks, 1));
      decoders.back()->set_stage(stage, num_stages);
    }
    served.resize(static_cast<size_t>(num_stages));
    for (int32_t stage = 0; stage < num_stages; ++stage) {
      threads.emplace_back([this, stage, speed] { serve(stage, speed); });
    }
    auto joined = Hosts::join(links(0, speed), options());
    EXPECT_TRUE(joined.ok()) << joined.status().message();
    hosts = std::move(*joined);
    const PipelineFacts facts{.config = &decoders.front()->config(),
                              .live_vocab = kVocab,
                              .kv_blocks = kBlocks,
                              .kv_block_bytes = 1000 * num_stages,
                              .num_stages = num_stages};
    pipeline = std::make_unique<StagePipeline>(
        std::make_unique<RemoteStages>(hosts.get(), facts, deadlines));
  }
  ~Launch() { stop(); }

  void stop() {
    pipeline.reset();
    hosts.reset();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  static HostsOptions options() {
    HostsOptions made;
    made.messenger = {.ping_every = milliseconds(20), .longest_silence = milliseconds(1000)};
    return made;
  }
  std::unique_ptr<Transport> links(int32_t rank, const LinkSpeed& speed) {
    return std::make_unique<SlowLinks>(network.transport(rank), speed);
  }
  void serve(int32_t stage, const LinkSpeed& speed) {
    const auto idx = static_cast<size_t>(stage);
    auto joined = Hosts::join(links(stage + 1, speed), options());
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    auto devices = CpuDeviceGroup::create_unpinned({1});
    ASSERT_TRUE(devices.ok());
    StageWorker worker({decoders[idx].get(), devices->get()}, stage, (*joined)->num_stages(),
                       kVocab);
    served[idx] = serve_stage(**joined, worker, kVocab);
  }

  LocalNetwork network;
  std::vector<std::unique_ptr<FakeDecoder>> decoders;
  std::vector<Status> served;
  std::vector<std::thread> threads;
  std::unique_ptr<Hosts> hosts;
  std::unique_ptr<StagePipeline> pipeline;
};

TEST(RemoteStages, OneStepAtATime) {
  for (const int32_t stages : {1, 2, 3, 8}) {
    Launch launch(stages);
    EXPECT_EQ(launch.pipeline->num_stages(), stages);
    std::vector<TokenId> text = {7};
    for (int32_t position = 0; position < 20; ++position) {
      OneRow row(5, text.back(), position);
      const Status ran = launch.pipeline->run(row.step, {&row.task, 1}, {}, {});
      ASSERT_TRUE(ran.ok()) << ran.message();
      EXPECT_EQ(row.result.token, greedy(text));
      text.push_back(row.result.token);
    }
    launch.stop();
    for (const auto& decoder : launch.decoders) EXPECT_EQ(decoder->violations, 0);
    for (const Status& status : launch.served) EXPECT_TRUE(status.ok()) << status.message();
  }
}

// Collects the events of a pipeline, so that a test can wait for them.
struct Told {
  std::function<void(PipelineEvent)> tell = [this](const PipelineEvent& event) {
    const std::lock_guard lock(mutex);
    const bool is_end = event.kind == PipelineEvent::Kind::kRetired;
    (is_end ? retired : entered).push_back(event.step);
    if (is_end) statuses.push_back(event.status);
    if (is_end && (entered.empty() || entered.back() < event.step)) ++out_of_order;
    changed.notify_all();
  };
  bool wait_for(size_t steps) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kStagesTimeout, [&] { return retired.size() >= steps; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<uint64_t> entered, retired;
  std::vector<Status> statuses;
  int out_of_order = 0;
};

// Blocks are reassigned to other sequences while the Steps that used them are still in flight, with
// moves between; links are slow, so many Steps are in flight and notices arrive late.
TEST(RemoteStages, StepsAndMovesTakeEffectInOrder) {
  Launch launch(3, {.delay = milliseconds(1), .bytes_per_second = 1e7});
  Told told;
  std::vector<std::unique_ptr<OneRow>> rows;
  std::vector<TokenId> expected;
  const auto issue = [&](std::unique_ptr<OneRow> row, const std::vector<TokenId>& history) {
    launch.pipeline->issue(row->step, {&row->task, 1}, {}, {}, &told.tell);
    rows.push_back(std::move(row));
    expected.push_back(greedy(history));
  };
  for (TokenId round = 0; round < 20; ++round) {
    issue(std::make_unique<OneRow>(4, round, 0), {round});
    // A tree row at slot 2, which then becomes the prefix's second token.
    auto tree = std::make_unique<OneRow>(4, round + 1, 1);
    tree->step.rows[0].slot = 2;
    tree->step.rows[0].boundary = 1;
    tree->step.ancestors = {2};
    issue(std::move(tree), {round, round + 1});
    const int32_t block = 4;
    const std::vector<KvMove> moves = {{2, 1}};
    ASSERT_TRUE(launch.pipeline->move_kv({&block}, moves).ok());
    issue(std::make_unique<OneRow>(4, round + 2, 2), {round, round + 1, round + 2});
  }
  ASSERT_TRUE(told.wait_for(rows.size()));
  EXPECT_TRUE(std::is_sorted(told.retired.begin(), told.retired.end()));
  EXPECT_EQ(told.entered.size(), rows.size());
  EXPECT_EQ(told.out_of_order, 0);
  for (size_t idx = 0; idx < rows.size(); ++idx) {
    EXPECT_TRUE(told.statuses[idx].ok());
    EXPECT_EQ(rows[idx]->result.token, expected[idx]) << idx;
  }
  launch.stop();
}

// Stages that a dropped row has not reached skip it, and its task comes back skipped.
TEST(RemoteStages, DroppedRowsAreLeftOut) {
  Launch launch(3, {.delay = milliseconds(30)});
  Told told;
  OneRow row(1, 3, 0), dead(2, 4, 0);
  launch.pipeline->issue(row.step, {&row.task, 1}, {}, {}, &told.tell);
  const uint64_t number = launch.pipeline->issue(dead.step, {&dead.task, 1}, {}, {}, &told.tell);
  const IssuedRow dropped{number, 0};
  launch.pipeline->drop({&dropped, 1});
  ASSERT_TRUE(told.wait_for(2));
  EXPECT_EQ(row.result.token, greedy({3}));
  EXPECT_FALSE(row.task.skipped);
  EXPECT_TRUE(dead.task.skipped);
  launch.stop();
  EXPECT_EQ(launch.decoders.back()->rows_run, 1);
}

TEST(RemoteStages, AStageThatFailsFailsThatStepAlone) {
  for (const size_t broken : {0, 1, 2}) {
    Launch launch(3);
    OneRow good(1, 3, 0), bad(2, 4, 0), again(3, 5, 0);
    EXPECT_TRUE(launch.pipeline->run(good.step, {&good.task, 1}, {}, {}).ok());
    launch.decoders[broken]->fail = true;
    const Status failed = launch.pipeline->run(bad.step, {&bad.task, 1}, {}, {});
    EXPECT_NE(failed.message().find("stage " + std::to_string(broken + 1) + " of 3"),
              std::string::npos)
        << failed.message();
    launch.decoders[broken]->fail = false;
    EXPECT_TRUE(launch.pipeline->run(again.step, {&again.task, 1}, {}, {}).ok());
    EXPECT_EQ(again.result.token, greedy({5}));
  }
}

// The hung stage still answers pings.
TEST(RemoteStages, AStageThatHangsEndsThePipelineByName) {
  for (const size_t hung : {0, 1}) {
    Launch launch(3, {}, {.floor = milliseconds(2000), .weight_bytes = {}});
    OneRow good(1, 3, 0), stuck(2, 4, 0), late(3, 5, 0);
    EXPECT_TRUE(launch.pipeline->run(good.step, {&good.task, 1}, {}, {}).ok());
    std::atomic<bool> hangs = true;
    launch.decoders[hung]->while_running = [&hangs] { hangs.wait(true); };
    const Status failed = launch.pipeline->run(stuck.step, {&stuck.task, 1}, {}, {});
    EXPECT_EQ(failed.code(), StatusCode::kDeadlineExceeded);
    const std::string number = std::to_string(hung + 1);
    EXPECT_TRUE(failed.message().starts_with("rank " + number + " (stage " + number +
                                             " of 3): has worked on Step 2 (1 rows) for 2."))
        << failed.message();
    EXPECT_EQ(launch.hosts->failure().message(), failed.message());
    EXPECT_FALSE(launch.pipeline->run(late.step, {&late.task, 1}, {}, {}).ok());
    hangs = false;
    hangs.notify_all();
    launch.stop();
  }
}

// Many Steps wait for a slow stage, each for longer than one may take; none is late.
TEST(RemoteStages, StepsThatWaitAreNotLate) {
  Launch launch(2, {.delay = milliseconds(50)}, {.floor = milliseconds(2000), .weight_bytes = {}});
  launch.decoders[0]->while_running = [] { std::this_thread::sleep_for(milliseconds(150)); };
  Told told;
  std::vector<std::unique_ptr<OneRow>> rows;
  for (int32_t idx = 0; idx < 20; ++idx) {
    rows.push_back(std::make_unique<OneRow>(1, idx, idx));
    launch.pipeline->issue(rows.back()->step, {&rows.back()->task, 1}, {}, {}, &told.tell);
  }
  ASSERT_TRUE(told.wait_for(rows.size()));
  for (const Status& status : told.statuses) EXPECT_TRUE(status.ok()) << status.message();
  launch.stop();
}

// Links are cut between the coordinator and a stage, and between two stages: Steps in flight fail
// with the rank's name, later ones fail at once, and every stage ends by itself.
TEST(RemoteStages, ALostRankEndsThePipelineByName) {
  const std::pair<int32_t, int32_t> links[] = {{0, 2}, {2, 3}, {0, 1}, {0, 3}};
  for (const auto& [rank_a, rank_b] : links) {
    Launch launch(3);
    Told told;
    OneRow good(1, 3, 0), lost(2, 4, 0), late(3, 5, 0);
    EXPECT_TRUE(launch.pipeline->run(good.step, {&good.task, 1}, {}, {}).ok());
    launch.network.cut(rank_a, rank_b);
    launch.pipeline->issue(lost.step, {&lost.task, 1}, {}, {}, &told.tell);
    // Cut off from the coordinator, the middle stage still works, so a Step may get through.
    ASSERT_TRUE(told.wait_for(1));
    Status failed = told.statuses[0];
    const auto deadline = std::chrono::steady_clock::now() + kStagesTimeout;
    while (failed.ok() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(20));
      failed = launch.pipeline->run(late.step, {&late.task, 1}, {}, {});
    }
    EXPECT_NE(failed.message().find("rank " + std::to_string(rank_b) + " (stage"),
              std::string::npos)
        << failed.message();
    EXPECT_FALSE(launch.pipeline->run(late.step, {&late.task, 1}, {}, {}).ok());
    const std::optional<int32_t> rank = launch.hosts->failed_rank();
    ASSERT_TRUE(rank.has_value());
    EXPECT_TRUE(*rank == rank_a || *rank == rank_b) << *rank;
    launch.stop();
    EXPECT_FALSE(std::all_of(launch.served.begin(), launch.served.end(),
                             [](const Status& status) { return status.ok(); }));
  }
}

}  // namespace
}  // namespace forerun
