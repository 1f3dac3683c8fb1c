// Checks memory limits, KV storage and estimates.
#include "model/host_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/float_tensor.h"
#include "checkpoint/gguf/toy_gguf.h"
#include "checkpoint/layouts/toy_layouts.h"
#include "checkpoint/testing.h"
#include "kernels/linear/formats/grouped.h"
#include "kernels/linear/formats/weight_formats.h"
#include "model/decoder_memory.h"
#include "model/kv_storage.h"
#include "model/rope_frequencies.h"
#include "model/weight_packing.h"
#include "model/widened_formats.h"
#include "step/step.h"

namespace forerun {
namespace {

void put(const TempDir& root, const std::string& file, const std::string& text) {
  std::filesystem::create_directories((root.path() / file).parent_path());
  ASSERT_TRUE(write_text(root.path() / file, text).ok());
}

TEST(HostMemory, TakesTheLeastOfWhatTheSystemSays) {
  const TempDir root;
  EXPECT_EQ(host_memory(root.path()).available_bytes, INT64_MAX);
  put(root, "proc/meminfo", "MemTotal:  9000 kB\nMemFree: 10 kB\nMemAvailable:    4000 kB\n");
  EXPECT_EQ(host_memory(root.path()).available_bytes, 4000 * 1024);
  EXPECT_EQ(host_memory(root.path()).source, "MemAvailable");

  put(root, "proc/self/cgroup", "0::/outer/inner\n");
  put(root, "sys/fs/cgroup/outer/inner/memory.max", "max\n");
  put(root, "sys/fs/cgroup/outer/inner/memory.current", "5\n");
  EXPECT_EQ(host_memory(root.path()).available_bytes, 4000 * 1024);
  // An outer group limits too; page cache that it could drop counts as free.
  put(root, "sys/fs/cgroup/outer/memory.max", "3000000\n");
  put(root, "sys/fs/cgroup/outer/memory.current", "2000000\n");
  put(root, "sys/fs/cgroup/outer/memory.stat", "anon 7\ninactive_file 500000\n");
  const DeviceMemory limit = host_memory(root.path());
  EXPECT_EQ(limit.available_bytes, 1500000);
  EXPECT_NE(limit.source.find("outer/memory.max"), std::string::npos) << limit.source;
}

TEST(HostMemory, ReadsVersion1Groups) {
  const TempDir root;
  put(root, "proc/self/cgroup", "5:cpu:/a\n4:memory:/b\n");
  put(root, "sys/fs/cgroup/memory/b/memory.limit_in_bytes", "1000\n");
  put(root, "sys/fs/cgroup/memory/b/memory.usage_in_bytes", "1400\n");
  EXPECT_EQ(host_memory(root.path()).available_bytes, 0);  // never negative
}

TEST(HostMemory, OfThisMachineIsPositive) { EXPECT_GT(host_memory().available_bytes, 0); }

TEST(KvStorage, TakesPagesOnlyWhenWritten) {
  ModelConfig config;
  config.num_layers = 4;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  // Reserves 64 GiB of address space, because the thread sanitizer leaves a process less than a
  // terabyte.
  const int64_t blocks = (int64_t{1} << 36) / kv_block_bytes(config, config.num_layers,
                                                             config.num_kv_heads, DType::kBf16);
  auto storage =
      KvStorage::create(config, config.num_layers, config.num_kv_heads, DType::kBf16, blocks);
  ASSERT_TRUE(storage.ok()) << storage.status().message();
  EXPECT_EQ(storage->block_bytes(), 4 * 2 * 2 * 64 * 64 * 2);
  const auto last = static_cast<int32_t>(blocks - 1);
  const PagedKv top = storage->layer(3);
  EXPECT_EQ(*top.value(last, 63, 1), std::byte{0});
  // Neither layers nor blocks overlap.
  EXPECT_EQ(storage->layer(1).key(0, 0, 0) - storage->layer(0).key(0, 0, 0), top.layer_bytes());
  EXPECT_EQ(storage->layer(0).key(1, 0, 0) - top.key(0, 0, 0), top.layer_bytes());
  *top.key(7, 5, 1) = std::byte{42};
  storage->copy_slot(7, 5, last, 9);
  EXPECT_EQ(*top.key(last, 9, 1), std::byte{42});
}

TEST(MemoryNeeds, CountsWhatTheFormatsTake) {
  const TempDir dir;
  ToySpec spec;  // f32, untied, 2 layers, hidden 64, mlp 128, 2 of 4 heads of 16, vocabulary 256
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const int64_t linear = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 64 * 128 * 3);
  const int64_t head = 256 * 64;
  const int64_t norms = 5 * 64 * 4;
  const auto bytes = [&](WeightOverride weights) {
    return estimate_decoder_memory(*checkpoint, weights, Activation::kBf16).weight_bytes;
  };
  EXPECT_EQ(bytes(WeightOverride::kAsStored), 4 * (linear + 2 * head) + norms);
  EXPECT_EQ(bytes(WeightOverride::kBf16), 2 * (linear + head) + 4 * head + norms);
  const int64_t channels = 2 * (64 * 2 + 32 * 2 + 128 * 2 + 64) + 256;
  EXPECT_EQ(bytes(WeightOverride::kInt8), linear + head + 4 * channels + 4 * head + norms);
  EXPECT_EQ(bytes(WeightOverride::kInt8Head), 4 * linear + head + 4 * 256 + 4 * head + norms);
  const MemoryNeed bf16_kv =
      estimate_decoder_memory(*checkpoint, WeightOverride::kAsStored, Activation::kInt8);
  EXPECT_EQ(bf16_kv.kv_token_bytes(), 2 * 2 * 2 * 32 * 2);  // heads of 16, padded to 32
  EXPECT_EQ(bf16_kv.kv_block_bytes, bf16_kv.kv_token_bytes() * kKvBlockTokens);
  EXPECT_EQ(estimate_decoder_memory(*checkpoint, WeightOverride::kAsStored, Activation::kF32)
                .kv_token_bytes(),
            2 * bf16_kv.kv_token_bytes());
}

TEST(DecoderMemory, GroupedWeightsCountTheBytesThatKernelsRead) {
  ToySpec spec;
  spec.hidden_size = 256;
  spec.intermediate_size = 768;
  for (const BlockFormatInfo& info : block_formats()) spec.gguf_formats.push_back(info.format);
  const TempDir dir;
  const std::filesystem::path path = dir.path() / "toy.gguf";
  toy_gguf(spec).write(path);
  auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const ModelConfig& config = checkpoint->config();
  const ShardPlan plan = make_shard_plan(config, 1, config.vocab_size).value();
  auto weights = load_decoder_weights(*checkpoint, WeightOverride::kAsStored, Activation::kF32,
                                      plan.devices.front(), LayerRange::all(config), {});
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  const int64_t embedding =
      static_cast<int64_t>(checkpoint->weight({ModuleKind::kEmbedding})->bytes.size());
  int64_t bytes = embedding + 5 * 256 * 4 + static_cast<int64_t>(weights->head.bytes());
  for (const LayerWeights& layer : weights->layers) {
    for (const LinearWeight* weight :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      EXPECT_TRUE(is_grouped(weight->format()));
      bytes += static_cast<int64_t>(weight->bytes());
    }
  }
  EXPECT_EQ(estimate_decoder_memory(*checkpoint, WeightOverride::kAsStored, Activation::kF32)
                .weight_bytes,
            bytes);
}

// Expects that every row of the embedding is looked up in the head and equals the file's row.
void expect_rows_of_head(const DecoderWeights& weights, const RawTensor& embedding) {
  const auto* const packed = std::get_if<PackedTable>(&weights.embedding);
  ASSERT_NE(packed, nullptr) << format_name(embedding);
  EXPECT_EQ(&packed->head.storage(), &weights.head.storage());
  const int64_t width = embedding.shape[1];
  std::vector<float> found(static_cast<size_t>(width)), expected(found.size());
  for (int64_t row = 0; row < embedding.shape[0]; ++row) {
    packed->head.dequantize(row, {found.data(), {1, width}});
    widen(embedding, row * width, width, expected.data());
    ASSERT_EQ(found, expected) << format_name(embedding) << " row " << row;
  }
}

TEST(DecoderMemory, ATiedHeadThatIsPackedIsTheEmbeddingToo) {
  ToySpec spec;
  spec.tied = true;
  spec.hidden_size = 256;
  spec.intermediate_size = 512;
  for (const BlockFormatInfo& info : block_formats()) {
    spec.gguf_formats = {info.format};
    const TempDir dir;
    const std::filesystem::path path = dir.path() / "toy.gguf";
    toy_gguf(spec).write(path);
    auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    const ModelConfig& config = checkpoint->config();
    const RawTensor& embedding = *checkpoint->weight({ModuleKind::kEmbedding});
    const auto bytes = [&](WeightOverride weights) {
      return estimate_decoder_memory(*checkpoint, weights, Activation::kBf16).weight_bytes;
    };
    const auto loaded = [&](WeightOverride weights, int32_t degree) {
      const ShardPlan plan = make_shard_plan(config, degree, config.vocab_size).value();
      auto made = load_decoder_weights(*checkpoint, weights, Activation::kBf16,
                                       plan.devices.front(), LayerRange::all(config), {});
      EXPECT_TRUE(made.ok()) << made.status().message();
      return std::move(made).value();
    };
    expect_rows_of_head(loaded(WeightOverride::kAsStored, 1), embedding);
    EXPECT_EQ(bytes(WeightOverride::kInt8Head) - bytes(WeightOverride::kAsStored),
              stored_bytes(embedding) +
                  weight_bytes(WeightFormat::kInt8, config.vocab_size, config.hidden_size) -
                  weight_bytes(*kernel_format(embedding), config.vocab_size, config.hidden_size));
    // A rounded head, or a part of one, does not have the embedding's values.
    for (const DecoderWeights& other :
         {loaded(WeightOverride::kInt8Head, 1), loaded(WeightOverride::kAsStored, 2)}) {
      EXPECT_TRUE(std::holds_alternative<BlockTable>(other.embedding)) << info.name;
    }
  }
}

TEST(DecoderMemory, ATiedHeadInPairsOfBf16IsTheEmbeddingToo) {
  if (!takes_bf16_pairs(Activation::kBf16)) GTEST_SKIP() << "no instruction for pairs of bf16";
  ToySpec spec;
  spec.tied = true;
  spec.dtype = DType::kBf16;
  const TempDir dir;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const ShardPlan plan = make_shard_plan(checkpoint->config(), 1, 256).value();
  auto weights =
      load_decoder_weights(*checkpoint, WeightOverride::kAsStored, Activation::kBf16,
                           plan.devices.front(), LayerRange::all(checkpoint->config()), {});
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  expect_rows_of_head(*weights, *checkpoint->weight({ModuleKind::kEmbedding}));
}

// Returns the bytes of a device's weights and adds the formats of its linear layers to `formats`.
int64_t bytes_of(const DecoderWeights& weights, std::set<WeightFormat>& formats) {
  auto bytes = static_cast<int64_t>(weights.head.bytes());
  const auto add = [&](const std::vector<float>& values) {
    bytes += std::ssize(values) * static_cast<int64_t>(sizeof(float));
  };
  add(weights.final_norm);
  for (const LayerWeights& layer : weights.layers) {
    for (const LinearWeight* weight :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      bytes += static_cast<int64_t>(weight->bytes());
      formats.insert(weight->format());
    }
    for (const auto* values : {&layer.input_norm, &layer.post_attention_norm, &layer.q_norm,
                               &layer.k_norm, &layer.q_bias, &layer.k_bias, &layer.v_bias,
                               &layer.o_bias, &layer.gate_bias, &layer.up_bias, &layer.down_bias}) {
      add(*values);
    }
  }
  return bytes;
}

ToySpec memory_spec(const ToyLayout* layout) {
  ToySpec spec;
  spec.num_layers = 1;
  spec.hidden_size = 192;
  spec.intermediate_size = 384;
  spec.num_heads = 12;
  spec.num_kv_heads = 6;
  spec.dtype = DType::kBf16;
  spec.layout = layout;
  if (layout == nullptr) spec.family = "qwen2";  // has biases
  return spec;
}

// Checks one device and each of two, which cut groups, blocks and orders of inputs.
TEST(DecoderMemory, EveryLayoutTakesWhatIsPlanned) {
  ToyLayout of_96 = toy_layout("packed_zeros");
  of_96.name = "groups of 96";
  of_96.group = 96;
  of_96.config =
      R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"a":)"
      R"({"targets":["Linear"],"weights":{"num_bits":4,"group_size":96,"symmetric":false}}}})";
  std::vector<const ToyLayout*> layouts = {nullptr, &of_96};
  for (const ToyLayout& layout : toy_layouts()) layouts.push_back(&layout);
  std::set<WeightFormat> formats;
  for (const ToyLayout* const layout : layouts) {
    SCOPED_TRACE(layout == nullptr ? "bf16" : layout->name);
    const TempDir dir;
    ASSERT_TRUE(write_toy_checkpoint(dir.path(), memory_spec(layout)).ok());
    const auto checkpoint = Checkpoint::open(dir.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    const ModelConfig& config = checkpoint->config();
    const LayerRange all = LayerRange::all(config);
    for (const auto& [degree, activation] :
         {std::pair(1, Activation::kBf16), std::pair(1, Activation::kF32),
          std::pair(2, Activation::kBf16)}) {
      const ShardPlan plan = make_shard_plan(config, degree, config.vocab_size).value();
      const auto needs =
          estimate_group_memory(*checkpoint, WeightOverride::kAsStored, activation, plan, all);
      for (size_t rank = 0; rank < plan.devices.size(); ++rank) {
        SCOPED_TRACE(testing::Message() << "device " << rank << " of " << degree);
        const auto weights = load_decoder_weights(*checkpoint, WeightOverride::kAsStored,
                                                  activation, plan.devices[rank], all, {});
        ASSERT_TRUE(weights.ok()) << weights.status().message();
        int64_t bytes = bytes_of(*weights, formats);
        if (rank == 0) bytes += stored_bytes(*checkpoint->weight({ModuleKind::kEmbedding}));
        EXPECT_EQ(needs[rank].weight_bytes, bytes);
        if (degree == 1) {
          int64_t read = 0;
          for (const ModuleRead& each :
               module_reads(*checkpoint, all, WeightOverride::kAsStored, /*on_gpus=*/false)) {
            if (each.module.id.kind == ModuleKind::kDown) read += each.read_bytes;
          }
          EXPECT_TRUE(layout == nullptr ||
                      read == static_cast<int64_t>(weights->layers[0].down.bytes()));
        }
      }
    }
    const std::string changes = describe(widened_formats(*checkpoint, all, /*on_gpus=*/false));
    const bool grows = layout == &of_96;
    EXPECT_EQ(changes.find("is enlarged to int4") != changes.npos, grows) << changes;
  }
  // Covers all formats of safetensors files with kernels, and those that are widened.
  for (const WeightFormat format :
       {WeightFormat::kInt4, WeightFormat::kInt8, WeightFormat::kInt8Groups, WeightFormat::kQ4_0,
        WeightFormat::kQ4_0Bf16, WeightFormat::kQ8_0, WeightFormat::kFp8, WeightFormat::kF32}) {
    EXPECT_TRUE(formats.contains(format)) << weight_format_name(format);
  }
}

// Llama 3.1's published parameters: short wavelengths stay, long ones are stretched eightfold.
TEST(RopeFrequencies, Llama3StretchesLongWavelengths) {
  ModelConfig config;
  config.head_dim = 128;
  config.rope_theta = 500000.0f;
  const RopeFrequencies plain = rope_frequencies(config);
  config.rope_scaling.kind = RopeScaling::Kind::kLlama3;
  config.rope_scaling.factor = 8.0f;
  config.rope_scaling.low_freq_factor = 1.0f;
  config.rope_scaling.high_freq_factor = 4.0f;
  config.rope_scaling.original_max_position = 8192;
  const RopeFrequencies scaled = rope_frequencies(config);
  ASSERT_EQ(scaled.frequencies.size(), 64u);
  EXPECT_EQ(scaled.magnitude, 1.0);
  bool blended = false;
  for (size_t pair = 0; pair < 64; ++pair) {
    const double wavelength = 2 * std::numbers::pi / plain.frequencies[pair];
    const double ratio = plain.frequencies[pair] / scaled.frequencies[pair];
    if (wavelength < 2048) {
      EXPECT_DOUBLE_EQ(ratio, 1.0) << pair;
    } else if (wavelength > 8192) {
      EXPECT_NEAR(ratio, 8.0, 1e-9) << pair;
    } else {
      EXPECT_GT(ratio, 1.0) << pair;
      EXPECT_LT(ratio, 8.0) << pair;
      blended = true;
    }
  }
  EXPECT_TRUE(blended);
}

TEST(RopeFrequencies, YarnDerivesItsMagnitude) {
  ModelConfig config;
  config.head_dim = 128;
  config.rope_theta = 1000000.0f;
  config.rope_scaling.kind = RopeScaling::Kind::kYarn;
  config.rope_scaling.factor = 4.0f;
  config.rope_scaling.original_max_position = 32768;
  EXPECT_NEAR(rope_frequencies(config).magnitude, 0.1 * std::log(4.0) + 1.0, 1e-12);
  config.rope_scaling.mscale = 2.0f;
  config.rope_scaling.mscale_all_dim = 1.0f;
  EXPECT_NEAR(rope_frequencies(config).magnitude,
              (0.2 * std::log(4.0) + 1.0) / (0.1 * std::log(4.0) + 1.0), 1e-7);
  config.rope_scaling.attention_factor = 1.5f;
  EXPECT_EQ(rope_frequencies(config).magnitude, 1.5);
  const RopeFrequencies scaled = rope_frequencies(config);
  EXPECT_DOUBLE_EQ(scaled.frequencies.front(), 1.0);
  EXPECT_NEAR(scaled.frequencies.back() * 4.0, std::pow(1e6, -126.0 / 128.0), 1e-12);
}

}  // namespace
}  // namespace forerun
