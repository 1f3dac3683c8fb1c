#include "engine/kv_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace forerun {
namespace {

constexpr int64_t kMegabyte = 1'000'000;

KvMemory memory(const std::string& name, int64_t megabytes, std::vector<int64_t> token_bytes) {
  return {.name = name,
          .available_bytes = megabytes * kMegabyte,
          .default_bytes = megabytes * kMegabyte / 2,
          .token_bytes = std::move(token_bytes)};
}

TEST(KvPlan, TheTightestMemoryDecides) {
  EngineOptions options;
  options.max_active_requests = 1000;
  const std::vector<KvMemory> even = {memory("cuda:0", 100, {1000}), memory("cuda:1", 100, {1000})};
  const auto both = plan_kv(options, 4096, false, even);
  ASSERT_TRUE(both.ok()) << both.status().message();
  EXPECT_EQ(both->target_blocks, 50 * kMegabyte / (1000 * 64));
  EXPECT_EQ(both->draft_blocks, 0);
  // One has less room, or more KV heads, or a draft's beside it.
  for (const KvMemory& tight : {memory("cuda:1", 50, {1000}), memory("cuda:1", 100, {2000}),
                                memory("cuda:1", 100, {1000, 1000})}) {
    const auto plan =
        plan_kv(options, 4096, true, std::vector<KvMemory>{memory("cuda:0", 100, {1000}), tight});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(plan->target_blocks, 25 * kMegabyte / (1000 * 64));
    EXPECT_EQ(plan->draft_blocks, plan->target_blocks);
  }
}

TEST(KvPlan, ADeviceWithoutHeadsLimitsNothing) {
  EngineOptions options;
  const std::vector<KvMemory> memories = {memory("cuda:0", 100, {1000}), memory("cuda:1", 0, {0})};
  const auto plan = plan_kv(options, 4096, false, memories);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->max_context_tokens, 4096);
}

TEST(KvPlan, SaysWhatDoesNotFitWhere) {
  EngineOptions options;
  options.max_context_tokens = 100'000;
  const std::vector<KvMemory> memories = {memory("cuda:0", 1000, {1000}),
                                          memory("cuda:1", 100, {1000, 500})};
  const auto plan = plan_kv(options, 200'000, true, memories);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
  for (const char* part : {"100000 tokens", "150 MB of cuda:1", "1000 + 500", "limit is 50 MB"}) {
    EXPECT_NE(plan.status().message().find(part), std::string::npos)
        << plan.status().message() << " does not say " << part;
  }
  options.kv_memory_bytes = 2000 * kMegabyte;
  const auto more = plan_kv(options, 200'000, true, memories);
  ASSERT_FALSE(more.ok());
  EXPECT_NE(more.status().message().find("1100 MB (cuda:0, cuda:1)"), std::string::npos)
      << more.status().message();
}

}  // namespace
}  // namespace forerun
