// Checks that a draft with memory answers like one without, and runs less.
#include "runner/remembering_runner.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "exec/exec_rig.h"

namespace forerun::bench {
namespace {

struct Said {
  std::vector<std::vector<Candidate>> guesses;
  int64_t rows_run = 0;
};

// Runs a prompt, two levels of a tree, and a level below one path of it that ends with the token
// `last`.
Said say(RememberedGuesses* memory, TokenId last) {
  FakeDecoder decoder(kVocab, 16, 2);
  const auto device = CpuDeviceGroup::create_unpinned({1}).value();
  std::unique_ptr<StepRunner> runner =
      std::make_unique<DecoderStepRunner>(&decoder, device.get(), kVocab);
  if (memory != nullptr) runner = std::make_unique<RememberingRunner>(std::move(runner), memory);
  RealExecutorOptions options;
  options.runners[static_cast<size_t>(Role::kDraft)] = std::move(runner);
  RealExecutor executor(std::move(options));
  EXPECT_TRUE(executor.open(1, plain_spec()).ok());
  Said said;
  const auto run = [&](WorkItem item) {
    item.sequence = 1;
    item.role = Role::kDraft;
    for (WorkRow& row : item.rows) {
      row.want = Want::kTopK;
      row.count = 3;
    }
    executor.submit(std::move(item));
    const auto result = executor.next(kTimeout);
    ASSERT_TRUE(result && result->status.ok());
    for (const RowResult& row : result->rows) said.guesses.push_back(row.top);
  };
  run(prefix_item(1, Role::kDraft, {4, 8}));
  WorkItem tree;
  tree.rows = {{.token = 15, .position = 2, .node = 0},
               {.token = 16, .position = 2, .node = 1},
               {.token = 17, .position = 3, .node = 2, .parent = 0},
               {.token = 18, .position = 3, .node = 3, .parent = 1}};
  run(std::move(tree));
  WorkItem below;
  below.edits.push_back({.kind = Edit::Kind::kCommit, .nodes = {0}});
  below.edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {2}});
  below.rows = {{.token = last, .position = 4, .node = 4, .parent = 2}};
  run(std::move(below));
  EXPECT_EQ(decoder.violations, 0);
  said.rows_run = decoder.rows_run;
  return said;
}

void expect_same(const Said& said, const Said& expected) {
  ASSERT_EQ(said.guesses.size(), expected.guesses.size());
  for (size_t row = 0; row < said.guesses.size(); ++row) {
    ASSERT_EQ(said.guesses[row].size(), expected.guesses[row].size());
    for (size_t rank = 0; rank < said.guesses[row].size(); ++rank) {
      EXPECT_EQ(said.guesses[row][rank].token, expected.guesses[row][rank].token);
      EXPECT_EQ(said.guesses[row][rank].logprob, expected.guesses[row][rank].logprob);
    }
  }
}

TEST(RememberingRunner, SaysTheSameAndRunsWhatIsNewAlone) {
  const Said plain = say(nullptr, 19);
  const Said other = say(nullptr, 20);
  RememberedGuesses memory;
  const Said first = say(&memory, 19);
  expect_same(first, plain);
  EXPECT_EQ(first.rows_run, plain.rows_run);
  const Said second = say(&memory, 19);
  expect_same(second, plain);
  EXPECT_EQ(second.rows_run, 0);
  // The new row, and the path above it, since its KV is needed.
  const Said third = say(&memory, 20);
  expect_same(third, other);
  EXPECT_EQ(third.rows_run, 5);
}

}  // namespace
}  // namespace forerun::bench
