#include "engine/load/memory_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace forerun {
namespace {

constexpr int64_t kMegabyte = 1'000'000;

// Returns a host memory of `megabytes`, of which KV may take half, with a part for each entry of
// `token_bytes`.
DeviceMemory memory(const std::string& name, int64_t megabytes,
                    const std::vector<int64_t>& token_bytes) {
  DeviceMemory memory{.name = name, .available_bytes = megabytes * kMegabyte, .is_host = true};
  for (const int64_t bytes : token_bytes) {
    memory.needs.push_back({.kv_block_bytes = bytes * kKvBlockTokens});
  }
  return memory;
}

TEST(MemoryPlan, TheTightestMemoryDecides) {
  EngineOptions options;
  options.max_active_requests = 1000;
  const std::vector<DeviceMemory> even = {memory("cuda:0", 100, {1000}),
                                          memory("cuda:1", 100, {1000})};
  const auto both = plan_memory(options, 4096, false, even);
  ASSERT_TRUE(both.ok()) << both.status().message();
  EXPECT_EQ(both->target_blocks, 50 * kMegabyte / (1000 * 64));
  EXPECT_EQ(both->draft_blocks, 0);
  // One memory has less room, or more KV heads, or also a draft's part.
  for (const DeviceMemory& tight : {memory("cuda:1", 50, {1000}), memory("cuda:1", 100, {2000}),
                                    memory("cuda:1", 100, {1000, 1000})}) {
    const auto plan = plan_memory(options, 4096, true,
                                  std::vector<DeviceMemory>{memory("cuda:0", 100, {1000}), tight});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(plan->target_blocks, 25 * kMegabyte / (1000 * 64));
    EXPECT_EQ(plan->draft_blocks, plan->target_blocks);
  }
}

// A draft with a window has a KV cache of constant size, and the target gets the rest.
TEST(MemoryPlan, ADraftThatKeepsAWindowHasNoSecondCache) {
  DeviceMemory both = memory("cuda:0", 1000, {1000, 1000});
  both.needs[1].role = Role::kDraft;
  EngineOptions options;
  options.max_active_requests = 8;
  const auto blocks_of = [&](int32_t context, int32_t window) {
    options.max_context_tokens = context;
    options.draft_window = window;
    const auto plan = plan_memory(options, 1'000'000, true, {both});
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(plan->draft_window, window);
    EXPECT_LE(plan->kv_bytes(), 500 * kMegabyte);
    return std::pair(plan->target_blocks, plan->draft_blocks);
  };
  const auto whole = blocks_of(200'000, 0);
  EXPECT_EQ(whole.first, 250 * kMegabyte / (1000 * 64));
  EXPECT_EQ(whole.second, whole.first);
  // Eight windows of 16 blocks, each with the block in which it ends and four of a tree, and the
  // eight of a Step's prompt rows.
  const auto window = blocks_of(200'000, 1024);
  EXPECT_EQ(window.second, 8 * (16 + 1 + 4) + 8);
  EXPECT_EQ(window.first, 500 * kMegabyte / (1000 * 64) - window.second);
  EXPECT_EQ(blocks_of(400'000, 1024).second, window.second);
  // A window never takes more than the whole text would.
  EXPECT_EQ(blocks_of(256, 1024).second, 8 * 8);
  options.kv_memory_bytes = 4 * kMegabyte;
  const auto refused = plan_memory(options, 1'000'000, true, {both});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("4 MB for the draft's windows"), std::string::npos)
      << refused.status().message();
}

TEST(MemoryPlan, ADeviceWithoutHeadsLimitsNothing) {
  EngineOptions options;
  const std::vector<DeviceMemory> memories = {memory("cuda:0", 100, {1000}),
                                              memory("cuda:1", 0, {0})};
  const auto plan = plan_memory(options, 4096, false, memories);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->max_context_tokens, 4096);
}

TEST(MemoryPlan, SaysWhatDoesNotFitWhere) {
  EngineOptions options;
  options.max_context_tokens = 100'000;
  const std::vector<DeviceMemory> memories = {memory("cuda:0", 1000, {1000}),
                                              memory("cuda:1", 100, {1000, 500})};
  const auto plan = plan_memory(options, 200'000, true, memories);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
  for (const char* part : {"100000 tokens", "150 MB of cuda:1", "1000 + 500", "limit is 50 MB"}) {
    EXPECT_NE(plan.status().message().find(part), std::string::npos)
        << plan.status().message() << " does not say " << part;
  }
  options.kv_memory_bytes = 2000 * kMegabyte;
  const auto more = plan_memory(options, 200'000, true, memories);
  ASSERT_FALSE(more.ok());
  EXPECT_NE(more.status().message().find("up to 1100 MB, as much as is free (cuda:0, cuda:1)"),
            std::string::npos)
      << more.status().message();
}

TEST(MemoryPlan, WeightsAndBuffersComeFirst) {
  EngineOptions options;
  options.max_active_requests = 1000;
  DeviceMemory host = memory("this machine", 100, {1000});
  DeviceMemory gpu = memory("cuda:0", 100, {1000});
  gpu.is_host = false;
  const auto blocks = [&](const DeviceMemory& of, int64_t weights) {
    DeviceMemory full = of;
    full.needs[0].weight_bytes = weights * kMegabyte;
    full.needs[0].buffer_bytes = 10 * kMegabyte;
    const auto plan = plan_memory(options, 4096, true, {full});
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(plan->weight_bytes(), weights * kMegabyte);
    EXPECT_EQ(plan->kv_bytes(), plan->target_blocks * 1000 * kKvBlockTokens);
    EXPECT_EQ(plan->kv_blocks(Role::kDraft), plan->draft_blocks);
    return plan->target_blocks;
  };
  constexpr int64_t kBlock = 1000 * kKvBlockTokens;
  EXPECT_EQ(blocks(host, 20), 50 * kMegabyte / kBlock);
  EXPECT_EQ(blocks(host, 70), 20 * kMegabyte / kBlock) << "half of it is not left";
  EXPECT_EQ(blocks(gpu, 20), 63 * kMegabyte / kBlock);
  host.needs[0].weight_bytes = 60 * kMegabyte;
  options.kv_memory_bytes = 50 * kMegabyte;
  const auto refused = plan_memory(options, 4096, true, {host});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message(),
            "KV memory: found 50 MB; accepted: up to 40 MB, as much as is free (this machine)");
}

}  // namespace
}  // namespace forerun
