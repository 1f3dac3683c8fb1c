#include "model/shard_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace forerun {
namespace {

struct Shape {
  std::string name;
  int32_t heads, kv_heads, head_dim, mlp, vocab;
  int32_t awq_group = 0;  // 0: plain weights
};

ModelConfig config_of(const Shape& shape) {
  ModelConfig config;
  config.num_heads = shape.heads;
  config.num_kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.intermediate_size = shape.mlp;
  config.vocab_size = shape.vocab;
  if (shape.awq_group != 0) {
    config.quantization.kind = QuantizationConfig::Kind::kParts;
    config.quantization.schemes.push_back({.group_size = shape.awq_group});
  }
  return config;
}

std::vector<Shape> shapes() {
  return {{"llama2_70b", 64, 8, 128, 28672, 32000},
          {"llama3_8b", 32, 8, 128, 14336, 128256},
          {"llama2_7b", 32, 32, 128, 11008, 32000},
          {"qwen2_72b_awq", 64, 8, 128, 29568, 152064, 128},
          {"qwen2_0b5", 14, 2, 64, 4864, 151936},
          {"qwen2_0b5_awq", 14, 2, 64, 4864, 151936, 128},
          {"deepseek_33b", 56, 8, 128, 19200, 32256},
          {"one_kv_head", 8, 1, 64, 1536, 1000},
          {"toy", 4, 2, 16, 128, 256},
          {"toy_awq_32", 8, 2, 16, 256, 256, 32},
          {"toy_awq_whole", 8, 4, 16, 256, 250, -1}};
}

void expect_dealt(const std::vector<ShardRange>& ranges, int64_t count, const std::string& what) {
  int64_t next = 0;
  for (const ShardRange& range : ranges) {
    EXPECT_LE(range.begin, range.end) << what;
    EXPECT_EQ(range.begin, next) << what;
    next = range.end;
  }
  EXPECT_EQ(next, count) << what;
}

TEST(ShardPlan, EveryPartIsHeldOnceAtEveryDegree) {
  for (const Shape& shape : shapes()) {
    const ModelConfig config = config_of(shape);
    const int64_t group = config.num_heads / config.num_kv_heads;
    for (int32_t degree = 1; degree <= kMaxDegree; ++degree) {
      const std::string what = shape.name + " on " + std::to_string(degree);
      const auto plan = make_shard_plan(config, degree, shape.vocab);
      ASSERT_TRUE(plan.ok()) << what << ": " << plan.status().message();
      ASSERT_EQ(plan->degree(), degree);
      std::vector<ShardRange> heads, mlp, vocab;
      for (const DeviceShard& device : plan->devices) {
        heads.push_back(device.heads);
        mlp.push_back(device.mlp);
        vocab.push_back(device.vocab);
        EXPECT_LE(device.heads.size(), plan->padded_heads) << what;
        EXPECT_LE(device.kv_heads.size(), plan->padded_kv_heads) << what;
        EXPECT_LE(device.mlp.size(), plan->padded_mlp) << what;
        EXPECT_LE(device.vocab.size(), plan->padded_vocab) << what;
        if (device.heads.size() == 0) continue;
        // Each query head must find its KV head on the device, at its slot.
        for (int64_t head = device.heads.begin; head < device.heads.end; ++head) {
          const int64_t slot = device.first_slot + head - device.heads.begin;
          EXPECT_EQ(device.kv_heads.begin + slot / group, head / group) << what;
          EXPECT_LT(slot, device.kv_heads.size() * group) << what;
        }
        // No KV head may lack a query head.
        EXPECT_EQ(device.kv_heads.begin, device.heads.begin / group) << what;
        EXPECT_EQ(device.kv_heads.end, (device.heads.end - 1) / group + 1) << what;
      }
      expect_dealt(heads, shape.heads, what + " heads");
      expect_dealt(mlp, shape.mlp, what + " MLP");
      expect_dealt(vocab, shape.vocab, what + " vocabulary");
      EXPECT_GE(plan->padded_mlp * degree, shape.mlp) << what;
    }
  }
}

TEST(ShardPlan, IntegerGroupsAreNeverCut) {
  for (const Shape& shape : shapes()) {
    if (shape.awq_group == 0) continue;
    const int64_t unit = shape.awq_group < 0 ? 32 : shape.awq_group;
    for (int32_t degree = 1; degree <= kMaxDegree; ++degree) {
      const auto plan = make_shard_plan(config_of(shape), degree, shape.vocab);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      for (const DeviceShard& device : plan->devices) {
        EXPECT_EQ(device.mlp.begin % unit, 0) << shape.name << " on " << degree;
        EXPECT_EQ(device.heads.begin * shape.head_dim % unit, 0) << shape.name << " on " << degree;
      }
    }
  }
}

// A cut block costs time, but a device without work costs more.
TEST(ShardPlan, BlocksAreCutOnlyWhereWholeOnesWouldPadMuch) {
  ModelConfig config = config_of({"large", 32, 8, 128, 14336, 128256});
  config.quantization.kind = QuantizationConfig::Kind::kBlocks;
  config.quantization.block_inputs = 256;
  const auto large = make_shard_plan(config, 4, 128256);
  ASSERT_TRUE(large.ok()) << large.status().message();
  for (const DeviceShard& shard : large->devices) {
    EXPECT_EQ(shard.mlp.begin % 256, 0);
    EXPECT_EQ(shard.heads.begin * 128 % 256, 0);
  }
  config = config_of({"small", 4, 2, 64, 512, 257});
  config.quantization.kind = QuantizationConfig::Kind::kBlocks;
  config.quantization.block_inputs = 256;
  for (const int32_t degree : {2, 3, 4}) {
    const auto plan = make_shard_plan(config, degree, 257);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    for (const DeviceShard& shard : plan->devices) EXPECT_GT(shard.mlp.size(), 0);
  }
}

TEST(ShardPlan, ColumnsAreDealtInFinerUnitsWhereThatPadsLess) {
  Shape small = shapes().front();
  small.mlp = 320;
  const auto plan = make_shard_plan(config_of(small), 5, small.vocab);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->padded_mlp, 64);  // units of 128 would pad to twice as much
}

TEST(ShardPlan, TheFullestDeviceHoldsLittleMoreThanAnEvenShare) {
  for (const Shape& shape : shapes()) {
    if (shape.mlp < 4096) continue;  // toy models have too few columns for even shares
    for (int32_t degree = 1; degree <= kMaxDegree; ++degree) {
      const auto plan = make_shard_plan(config_of(shape), degree, shape.vocab);
      ASSERT_TRUE(plan.ok());
      EXPECT_LE(static_cast<double>(plan->padded_mlp * degree), 1.125 * shape.mlp + 128.0 * degree)
          << shape.name << " on " << degree;
      const int64_t even = (shape.heads + degree - 1) / degree;
      EXPECT_LE(plan->padded_heads, even + even / 8 + 1) << shape.name << " on " << degree;
    }
  }
}

TEST(ShardPlan, KvHeadsStayWholeWhereThatCostsLittle) {
  const Shape llama70b = shapes().front();
  const auto on = [&](int32_t degree) {
    return make_shard_plan(config_of(llama70b), degree, llama70b.vocab).value();
  };
  for (const int32_t degree : {1, 2, 4, 8}) {
    EXPECT_EQ(on(degree).padded_kv_heads, 8 / degree);
    EXPECT_EQ(on(degree).padded_heads, 64 / degree);
  }
  // 3 + 3 + 2 KV heads make 24 query heads; an even deal has 22.
  EXPECT_EQ(on(3).padded_kv_heads, 3);
  // Two whole KV heads on one device would make 16 query heads instead of 10.
  EXPECT_EQ(on(7).padded_heads, 10);
  EXPECT_EQ(on(7).padded_mlp, 28672 / 7);
  // All devices share one KV head.
  const auto shared = make_shard_plan(config_of({"mqa", 8, 1, 64, 1536, 1000}), 4, 1000);
  for (const DeviceShard& device : shared->devices) {
    EXPECT_EQ(device.kv_heads, (ShardRange{0, 1}));
    EXPECT_EQ(device.heads.size(), 2);
  }
}

TEST(ShardPlan, SaysWhichDegreesItTakes) {
  const ModelConfig config = config_of(shapes().front());
  for (const int32_t degree : {-1, 0, 9}) {
    const auto plan = make_shard_plan(config, degree, 32000);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(plan.status().message().find("found " + std::to_string(degree)), std::string::npos);
    EXPECT_NE(plan.status().message().find("1 to 8"), std::string::npos);
  }
  const auto tiny = make_shard_plan(config_of({"tiny", 2, 1, 16, 32, 64}), 3, 64);
  ASSERT_FALSE(tiny.ok());
  EXPECT_NE(tiny.status().message().find("device 2 of 3"), std::string::npos)
      << tiny.status().message();
}

}  // namespace
}  // namespace forerun
