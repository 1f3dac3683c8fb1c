#include "checkpoint/modules.h"

#include <gtest/gtest.h>

#include <set>

namespace forerun {
namespace {

ModelConfig every_module() {
  ModelConfig config;
  config.num_layers = 12;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.vocab_size = 100;
  config.qk_norm = config.qkv_bias = config.o_bias = config.mlp_bias = true;
  return config;
}

TEST(Modules, EveryNameLeadsBackToItsModule) {
  for (const ModuleNaming naming : {ModuleNaming::kHuggingFace, ModuleNaming::kGguf}) {
    std::set<std::string> names;
    for (const Module& module : decoder_modules(every_module())) {
      const std::string name = module_name(module.id, naming);
      EXPECT_TRUE(names.insert(name).second) << name << " stands for two modules";
      const std::string tensor = name + ".weight";
      const auto found = find_module(tensor, naming);
      ASSERT_TRUE(found) << name;
      EXPECT_EQ(found->id, module.id) << name;
      EXPECT_EQ(found->part, "weight");
    }
    EXPECT_EQ(names.size(), 3u + 11u * 12u);
  }
}

TEST(Modules, OtherNamesBelongToNoModule) {
  for (const char* const name :
       {"", "blk", "blk.", "blk.x.attn_q.weight", "blk.-1.attn_q.weight", "blk.3", "blk.3.",
        "blk.3.attn_q", "blk.3.attn_qx.weight", "blk.3.token_embd.weight", "attn_q.weight",
        "blk.99999999999.attn_q.weight", "rope_freqs.weight"}) {
    EXPECT_FALSE(find_module(name, ModuleNaming::kGguf)) << name;
  }
  EXPECT_FALSE(find_module("blk.3.attn_q.weight", ModuleNaming::kHuggingFace));
}

TEST(Modules, AreThoseOfTheConfig) {
  ModelConfig config = every_module();
  config.qk_norm = config.mlp_bias = false;
  config.tied_embeddings = true;
  const std::vector<Module> modules = decoder_modules(config);
  EXPECT_EQ(modules.size(), 2u + 9u * 12u);
  EXPECT_EQ(modules.front().id, ModuleId{ModuleKind::kEmbedding});
  EXPECT_EQ(modules.back().id, ModuleId{ModuleKind::kFinalNorm});
  for (const Module& module : modules) {
    EXPECT_EQ(module.shape().size(), module.type == ModuleType::kNorm ? 1u : 2u);
    const bool attention = module.id.kind == ModuleKind::kQ || module.id.kind == ModuleKind::kK ||
                           module.id.kind == ModuleKind::kV || module.id.kind == ModuleKind::kO;
    EXPECT_EQ(module.has_bias, attention) << weight_name(module.id);
    if (module.id.kind == ModuleKind::kK) {
      EXPECT_EQ(module.shape(), (std::vector<int64_t>{32, 32}));
      EXPECT_EQ(module.axis, ShardAxis::kKvHeads);
    }
    if (module.id.kind == ModuleKind::kDown) {
      EXPECT_EQ(module.shape(), (std::vector<int64_t>{32, 48}));
      EXPECT_TRUE(module.divides_inputs);
    }
  }
}

}  // namespace
}  // namespace forerun
