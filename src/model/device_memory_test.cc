#include "model/device_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace forerun {
namespace {

DeviceMemory memory(const std::string& name, int64_t available_bytes,
                    std::vector<MemoryNeed> needs) {
  return {.name = name, .available_bytes = available_bytes, .needs = std::move(needs)};
}

TEST(CheckMemory, RefusesWithTheFiguresOfAll) {
  constexpr int64_t kBlocks = 10;
  std::vector<DeviceMemory> memories = {
      memory("cuda:0", 9'000'000, {{.weight_bytes = 6'000'000, .buffer_bytes = 3'000'000}}),
      memory("cuda:3", 9'500'010,
             {{.weight_bytes = 6'000'000, .buffer_bytes = 3'000'000, .kv_block_bytes = 50'001}})};
  EXPECT_TRUE(check_memory(memories, kBlocks).ok());
  EXPECT_TRUE(check_memory({}, kBlocks).ok());
  --memories[1].available_bytes;
  const Status refused = check_memory(memories, kBlocks);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "cuda:0: weights 6 MB, buffers 3 MB, 9 MB free; cuda:3: weights 6 MB, buffers 3 "
            "MB, KV cache of 640 tokens 500 KB, 10 MB free, room for 576 tokens");
  EXPECT_TRUE(check_memory(memories, kBlocks - 1).ok());
  memories[0].available_bytes = 8'999'999;
  EXPECT_FALSE(check_memory(memories, 0).ok()) << "the weights alone do not fit";
}

TEST(CheckMemory, CountsAllPartsInAMemory) {
  const MemoryNeed target{.name = "target", .weight_bytes = 4'000'000, .kv_block_bytes = 100'000};
  MemoryNeed draft = target;
  draft.name = "draft";
  DeviceMemory both = memory("this machine", 10'000'000, {target, draft});
  both.source = "MemAvailable";
  EXPECT_EQ(both.room_bytes(), 2'000'000);
  EXPECT_TRUE(check_memory({&both, 1}, 10).ok());
  const Status refused = check_memory({&both, 1}, 11);
  EXPECT_EQ(
      refused.message(),
      "this machine: weights 8 MB, KV cache of 704 tokens 2 MB (target: weights 4 MB, KV "
      "cache of 704 tokens 1 MB; draft: weights 4 MB, KV cache of 704 tokens 1 MB), 10 MB free "
      "(MemAvailable), room for 640 tokens");
}

// Memory that others have reserved may make the rest negative.
TEST(CheckMemory, NothingIsLeftBelowZero) {
  const DeviceMemory spent = memory("cuda:1", -5'000'000, {{.weight_bytes = 1}});
  EXPECT_EQ(check_memory({&spent, 1}, 0).message(), "cuda:1: weights 1 bytes, 0 bytes free");
}

// Refuses so many blocks that their bytes overflow a count.
TEST(CheckMemory, HugeCachesDoNotOverflow) {
  const DeviceMemory host =
      memory("this machine", int64_t{1} << 40, {{.kv_block_bytes = int64_t{1} << 20}});
  EXPECT_FALSE(check_memory({&host, 1}, int64_t{1} << 31).ok());
}

TEST(DescribeBytes, RoundsToTheUnit) {
  EXPECT_EQ(describe_bytes(0), "0 bytes");
  EXPECT_EQ(describe_bytes(999), "999 bytes");
  EXPECT_EQ(describe_bytes(1'500), "2 KB");
  EXPECT_EQ(describe_bytes(150'430'000), "150 MB");
  EXPECT_EQ(describe_bytes(2'000'000'000), "2000 MB");
  EXPECT_EQ(describe_bytes(70'368'744'177'664), "70 TB");
}

}  // namespace
}  // namespace forerun
