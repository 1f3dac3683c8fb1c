#include "engine/load/stage_facts.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "engine/load/launch_rig.h"
#include "exec/fake_decoder_rig.h"

namespace forerun {
namespace {

// A decoder that selects KV, with or without the LM head.
class ChoosingDecoder : public FakeDecoder {
 public:
  explicit ChoosingDecoder(int32_t stage) : FakeDecoder(/*vocab=*/8, /*blocks=*/1, /*seed=*/1) {
    set_stage(stage, /*num_stages=*/2);
  }
  bool selects_kv() const override { return true; }
  double kv_reads_per_selection() const override { return 2.5; }
};

TEST(StageFacts, OnlyAStageWithTheHeadHasReadsPerSelection) {
  const StageFacts first = stage_facts(ChoosingDecoder(0));
  EXPECT_TRUE(first.selects_kv);
  EXPECT_FALSE(first.quantizes_keys);
  EXPECT_EQ(first.kv_block_bytes, 1000);
  EXPECT_EQ(first.kv_reads_per_selection, 0.0);
  EXPECT_EQ(stage_facts(ChoosingDecoder(1)).kv_reads_per_selection, 2.5);
}

// Every rank passes its entry of `own`.
std::vector<Result<std::vector<StageFacts>>> gather(const std::vector<Result<StageFacts>>& own) {
  return start_on_all_ranks(
      static_cast<int32_t>(own.size()) - 1, [&](const std::shared_ptr<Hosts>& hosts) {
        return gather_stage_facts(*hosts, own[static_cast<size_t>(hosts->rank())]);
      });
}

TEST(StageFacts, TheCoordinatorReceivesThoseOfTheStagesInOrder) {
  const StageFacts first{.kv_block_bytes = 300, .quantizes_keys = true};
  const StageFacts second{
      .kv_block_bytes = int64_t{1} << 40, .selects_kv = true, .kv_reads_per_selection = 0.1};
  const auto gathered = gather({StageFacts{.kv_block_bytes = 7}, first, second});
  for (const auto& facts : gathered) ASSERT_TRUE(facts.ok()) << facts.status().message();
  EXPECT_TRUE(gathered[1]->empty());
  EXPECT_TRUE(gathered[2]->empty());
  ASSERT_EQ(gathered[0]->size(), 2u);
  for (const auto& [found, sent] : {std::pair(gathered[0]->front(), first),  //
                                    std::pair(gathered[0]->back(), second)}) {
    EXPECT_EQ(found.kv_block_bytes, sent.kv_block_bytes);
    EXPECT_EQ(found.quantizes_keys, sent.quantizes_keys);
    EXPECT_EQ(found.selects_kv, sent.selects_kv);
    EXPECT_EQ(found.kv_reads_per_selection, sent.kv_reads_per_selection);
  }
}

TEST(StageFacts, AFailureOfOneProcessIsTheFailureOfAll) {
  const Status broken(StatusCode::kCorrupt, "model.safetensors: is broken");
  expect_all_fail(gather({StageFacts(), broken, StageFacts()}), StatusCode::kCorrupt,
                  "rank 1 (stage 1 of 2): model.safetensors: is broken");
  expect_all_fail(gather({broken, StageFacts(), StageFacts()}), StatusCode::kCorrupt,
                  "model.safetensors: is broken");
}

}  // namespace
}  // namespace forerun
