#include "model/layer_range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "checkpoint/modules.h"

namespace forerun {
namespace {

ModelConfig config_of(int32_t num_layers, bool tied = false) {
  ModelConfig config;
  config.num_layers = num_layers;
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.vocab_size = 256;
  config.tied_embeddings = tied;
  return config;
}

TEST(LayerRange, CutsHoldEveryTensorOnce) {
  for (const bool tied : {false, true}) {
    const ModelConfig config = config_of(12, tied);
    const auto stages = cut_layers(std::vector<int32_t>{1, 9, 2}, config);
    ASSERT_TRUE(stages.ok()) << stages.status().message();
    ASSERT_EQ(stages->size(), 3u);
    EXPECT_EQ((*stages)[0], (LayerRange{0, 1, true, false}));
    EXPECT_EQ((*stages)[1], (LayerRange{1, 10, false, false}));
    EXPECT_EQ((*stages)[2], (LayerRange{10, 12, false, true}));
    for (const Module& module : decoder_modules(config)) {
      const auto holders =
          std::count_if(stages->begin(), stages->end(),
                        [&](const LayerRange& stage) { return stage.holds(module.id, config); });
      // A tied embedding also counts as the head.
      const bool twice = tied && module.type == ModuleType::kEmbedding;
      EXPECT_EQ(holders, twice ? 2 : 1) << weight_name(module.id);
      EXPECT_TRUE(LayerRange::all(config).holds(module.id, config));
    }
  }
}

TEST(LayerRange, RefusesWhatIsNoCut) {
  const ModelConfig config = config_of(4);
  for (const std::vector<int32_t>& sizes :
       {std::vector<int32_t>{}, {4, 0}, {2, 3}, {1, 1, 1}, {5, -1}}) {
    const auto refused = cut_layers(sizes, config);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.status().message().find("add up to the model's 4"), std::string::npos)
        << refused.status().message();
  }
  EXPECT_TRUE(check_layer_range(LayerRange::all(config), config).ok());
  EXPECT_TRUE(check_layer_range({1, 3, false, false}, config).ok());
  for (const LayerRange& range : {LayerRange{2, 2, false, false}, LayerRange{-1, 2, false, false},
                                  LayerRange{2, 5, false, false}, LayerRange{1, 4, true, false},
                                  LayerRange{0, 3, false, true}}) {
    const Status refused = check_layer_range(range, config);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << describe(range, config);
  }
  const std::vector<int64_t> layers(4, 10);
  for (const int32_t stages : {0, -1, 5}) {
    const auto refused = balance_layers(stages, layers, 0, 0, config);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.status().message().find("accepted: 1 to 4"), std::string::npos);
  }
}

std::vector<int32_t> sizes_of(const std::vector<LayerRange>& stages) {
  std::vector<int32_t> sizes;
  for (const LayerRange& stage : stages) sizes.push_back(stage.size());
  return sizes;
}

TEST(LayerRange, TheHeadCountsAsLayers) {
  const ModelConfig config = config_of(8);
  const std::vector<int64_t> layers(8, 10);
  const auto cut = [&](int32_t stages, int64_t embedding, int64_t head) {
    const auto found = balance_layers(stages, layers, embedding, head, config);
    EXPECT_TRUE(found.ok());
    return found.ok() ? sizes_of(*found) : std::vector<int32_t>();
  };
  EXPECT_EQ(cut(1, 0, 0), (std::vector<int32_t>{8}));
  EXPECT_EQ(cut(2, 0, 0), (std::vector<int32_t>{4, 4}));
  EXPECT_EQ(cut(8, 0, 100), std::vector<int32_t>(8, 1));
  EXPECT_EQ(cut(2, 0, 20), (std::vector<int32_t>{5, 3}));
  EXPECT_EQ(cut(2, 20, 0), (std::vector<int32_t>{3, 5}));
  // The first stages take the remainder.
  EXPECT_EQ(cut(3, 0, 0), (std::vector<int32_t>{3, 3, 2}));
}

// Compares the cut with every possible one.
TEST(LayerRange, NoCutHasASmallerFullestStage) {
  const ModelConfig config = config_of(7);
  uint32_t random = 12345;
  for (int round = 0; round < 50; ++round) {
    std::vector<int64_t> layers;
    for (int layer = 0; layer < 7; ++layer) {
      random = random * 1664525 + 1013904223;
      layers.push_back(1 + random % 40);
    }
    const int64_t embedding = round % 3 * 15;
    const int64_t head = round % 4 * 20;
    const auto fullest = [&](const std::vector<int32_t>& sizes) {
      int64_t most = 0;
      size_t layer = 0;
      for (size_t stage = 0; stage < sizes.size(); ++stage) {
        int64_t bytes = (stage == 0 ? embedding : 0) + (stage + 1 == sizes.size() ? head : 0);
        for (int32_t at = 0; at < sizes[stage]; ++at) bytes += layers[layer++];
        most = std::max(most, bytes);
      }
      return most;
    };
    for (int32_t stages = 1; stages <= 7; ++stages) {
      const auto found = balance_layers(stages, layers, embedding, head, config);
      ASSERT_TRUE(found.ok());
      int64_t best = INT64_MAX;
      // Each boundary between two layers has a bit.
      for (uint32_t cuts = 0; cuts < 64; ++cuts) {
        std::vector<int32_t> sizes = {1};
        for (int boundary = 0; boundary < 6; ++boundary) {
          if ((cuts >> boundary & 1) != 0) {
            sizes.push_back(1);
          } else {
            ++sizes.back();
          }
        }
        if (static_cast<int32_t>(sizes.size()) == stages) best = std::min(best, fullest(sizes));
      }
      EXPECT_EQ(fullest(sizes_of(*found)), best) << stages << " stages, round " << round;
    }
  }
}

}  // namespace
}  // namespace forerun
