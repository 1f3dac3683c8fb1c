// Tests the order of tasks, and which of them run beside large ones.
#include "server/task_queue.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "server/http/body_budget.h"
#include "server/worker_pool.h"

namespace forerun::server {
namespace {

constexpr int64_t kUnit = TaskQueue::kUnitBytes;

TEST(TaskQueue, EqualTasksRunInTheirOrder) {
  TaskQueue queue;
  std::string order;
  for (const char name : {'a', 'b', 'c', 'd'}) {
    queue.push(100, [&order, name] { order += name; });
  }
  while (queue.size() > 0) queue.pop()();
  EXPECT_EQ(order, "abcd");
}

TEST(TaskQueue, SmallOnesOvertakeAndALargeOneIsNotStarved) {
  TaskQueue queue;
  int large_after = -1, done = 0;
  queue.push(20 * kUnit, [&] { large_after = done; });
  // A small task arrives whenever one has been taken: without ageing the large task would never
  // run.
  for (int turn = 0; turn < 100 && large_after < 0; ++turn) {
    queue.push(10, [&] { ++done; });
    queue.pop()();
  }
  EXPECT_EQ(large_after, 19);
}

TEST(TaskQueue, NoTaskIsOvertakenByMoreThanItsUnits) {
  TaskQueue queue;
  struct Ran {
    int64_t arrival, units;
  };
  std::vector<Ran> ran;
  uint64_t state = 7;
  const auto random = [&state] { return (state = state * 6364136223846793005u + 1) >> 33; };
  int64_t arrivals = 0;
  for (int round = 0; round < 2000; ++round) {
    for (uint64_t count = random() % 3; count > 0; --count) {
      const auto units = static_cast<int64_t>(random() % 50);
      queue.push(units * kUnit, [&ran, arrival = arrivals++, units] {
        ran.push_back({arrival, units});
      });
    }
    if (queue.size() > 0) queue.pop()();
  }
  while (queue.size() > 0) queue.pop()();
  ASSERT_EQ(static_cast<int64_t>(ran.size()), arrivals);
  bool some_overtook = false;
  for (size_t idx = 0; idx < ran.size(); ++idx) {
    int64_t overtaken_by = 0;
    for (size_t before = 0; before < idx; ++before) {
      overtaken_by += ran[before].arrival > ran[idx].arrival ? 1 : 0;
    }
    EXPECT_LE(overtaken_by, ran[idx].units);
    some_overtook = some_overtook || overtaken_by > 0;
  }
  EXPECT_TRUE(some_overtook);
}

TEST(WorkerPool, LargeTasksHoldUpNoSmallOne) {
  std::mutex mutex;
  std::condition_variable changed;
  bool large_may_end = false;
  int small_done = 0, large_done = 0;
  {
    WorkerPool pool({.threads = 1, .max_waiting = 20, .large_bytes = 1000});
    for (int idx = 0; idx < 3; ++idx) {
      ASSERT_TRUE(pool.try_post(1001, [&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return large_may_end; });
        ++large_done;
        changed.notify_all();
      }));
    }
    for (int idx = 0; idx < 10; ++idx) {
      ASSERT_TRUE(pool.try_post(1000, [&] {
        const std::lock_guard lock(mutex);
        ++small_done;
        changed.notify_all();
      }));
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return small_done == 10; });
    EXPECT_EQ(large_done, 0);
    large_may_end = true;
    changed.notify_all();
    changed.wait(lock, [&] { return large_done == 3; });
  }
}

TEST(BodyBudget, CountsWhatHasComeAndGivesItBack) {
  const auto budget = std::make_shared<BodyBudget>(8 << 20);
  {
    BodyMemory first(budget), second(budget);
    EXPECT_TRUE(first.grow_to(4 << 20));
    EXPECT_TRUE(first.grow_to(4 << 20));
    EXPECT_TRUE(second.grow_to(3 << 20));
    EXPECT_EQ(budget->used(), 7 << 20);
    EXPECT_FALSE(second.grow_to((3 << 20) + 1));
    EXPECT_EQ(budget->used(), 7 << 20);
  }
  EXPECT_EQ(budget->used(), 0);
}

TEST(BodyBudget, TheLastEighthIsForSmallBodies) {
  const auto budget = std::make_shared<BodyBudget>(8 << 20);
  BodyMemory large(budget);
  EXPECT_TRUE(large.grow_to(7 << 20));
  EXPECT_FALSE(budget->has_room(BodyBudget::kSmallBody + 1));
  EXPECT_TRUE(budget->has_room(BodyBudget::kSmallBody));
  std::vector<std::unique_ptr<BodyMemory>> small;
  for (int idx = 0; idx < 16; ++idx) {
    small.push_back(std::make_unique<BodyMemory>(budget));
    EXPECT_TRUE(small.back()->grow_to(BodyBudget::kSmallBody));
  }
  BodyMemory one_more(budget);
  EXPECT_FALSE(one_more.grow_to(1));
}

}  // namespace
}  // namespace forerun::server
