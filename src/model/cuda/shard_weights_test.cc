// Compares the weights of each GPU of a group, and their layout, with those of the CPU's devices:
// every format, degrees 1 to 8. Needs no GPU, because it stops before packing.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/blocks/block_format.h"
#include "checkpoint/gguf/toy_gguf.h"
#include "checkpoint/layouts/toy_layouts.h"
#include "checkpoint/testing.h"
#include "model/cuda/fused_linear.h"
#include "model/cuda/load_decoder.h"
#include "model/decoder_weights.h"
#include "model/integer_blocks.h"
#include "model/weight_packing.h"

namespace forerun::cuda {
namespace {

struct Toy {
  std::string name;
  ToySpec spec;
  bool int4 = false;  // everything but the head is packed as int4
  // If set, everything is packed in this format as it is stored, where parts are whole units.
  std::optional<LinearFormat> grouped = std::nullopt;
  // If set, the formats differ as in kMixed.
  bool mixed = false;
};

using enum BlockFormat;
// In order: embedding, Q, K, V, O, gate, up, down, head.
const std::vector<BlockFormat> kMixed = {kQ4_K, kQ4_K, kQ4_K, kQ6_K, kQ4_K,
                                         kQ4_K, kQ4_K, kQ6_K, kQ6_K};

std::vector<Toy> toys() {
  ToySpec base;
  base.num_layers = 1;
  base.num_heads = 8;
  base.num_kv_heads = 2;
  base.head_dim = 32;
  base.hidden_size = 128;
  base.intermediate_size = 320;
  base.vocab_size = 200;
  base.dtype = DType::kBf16;
  std::vector<Toy> all = {{"bf16", base}};
  ToySpec spec = base;
  spec.dtype = DType::kF16;
  spec.num_heads = 7;  // all share one KV head, of which every GPU has a copy
  spec.num_kv_heads = 1;
  spec.head_dim = 20;
  all.push_back({"f16_seven_heads_of_20", spec});
  spec.dtype = DType::kF32;
  spec.tied = true;
  all.push_back({"f32_tied", spec});
  spec = base;
  spec.quantization = ToySpec::Quantization::kAwq;
  spec.dtype = DType::kF16;
  all.push_back({"awq_group_32", spec, false, LinearFormat::kInt4Zeros});
  spec.awq_group_size = -1;
  spec.hidden_size = 64;
  all.push_back({"awq_one_group", spec, false, LinearFormat::kInt4Group128});
  spec = base;
  spec.quantization = ToySpec::Quantization::kAwq;
  spec.awq_group_size = 128;
  spec.dtype = DType::kF16;
  spec.num_heads = 8;
  spec.num_kv_heads = 4;
  spec.head_dim = 128;
  spec.intermediate_size = 1152;
  all.push_back({"int4", spec, true});
  spec = base;
  spec.dtype = DType::kF32;
  spec.gguf_formats = {BlockFormat::kQ8_0};
  all.push_back({"q8_0", spec, false, LinearFormat::kQ8_0});
  spec.hidden_size = 256;
  spec.intermediate_size = 768;
  spec.gguf_formats = {BlockFormat::kQ4_0};
  all.push_back({"q4_0", spec, false, LinearFormat::kQ4_0});
  // A quarter of the MLP ends in the middle of a block.
  spec.intermediate_size = 1536;
  spec.gguf_formats = {BlockFormat::kQ6_K};
  all.push_back({"q6_k", spec, false, LinearFormat::kQ6_K});
  spec.tied = true;
  all.push_back({"q6_k_tied", spec, false, LinearFormat::kQ6_K});
  spec.tied = false;
  spec.gguf_formats = {BlockFormat::kQ3_K};
  all.push_back({"q3_k", spec, false, LinearFormat::kQ3_K});
  spec.gguf_formats = {BlockFormat::kMxfp4};
  spec.hidden_size = 192;
  spec.intermediate_size = 320;
  all.push_back({"mxfp4", spec, false, LinearFormat::kMxfp4});
  spec.hidden_size = 256;
  spec.intermediate_size = 1536;
  spec.gguf_formats = kMixed;
  all.push_back({"q4_k_m", spec, false, std::nullopt, true});
  spec = base;
  spec.layout = &toy_layout("fp8_block");
  spec.hidden_size = 256;
  spec.intermediate_size = 512;
  all.push_back({"fp8_blocks", spec, false, LinearFormat::kFp8});
  for (const auto& [layout, format] : {std::pair("gptq", LinearFormat::kInt4Zeros),
                                       {"gptq_middle_zeros", LinearFormat::kQ4_0},
                                       {"packed_8", LinearFormat::kQ8_0},
                                       {"gemm_channel", LinearFormat::kInt4Group128}}) {
    spec.layout = &toy_layout(layout);
    all.push_back({layout, spec, false, format});
  }
  return all;
}

using Matrix = std::vector<std::vector<float>>;

Matrix dequantized(const LinearWeight& weight) {
  const int64_t in = weight.in_features();
  Matrix rows;
  std::vector<float> row(static_cast<size_t>(in));
  for (int64_t out = 0; out < weight.out_features(); ++out) {
    weight.dequantize(out, MatrixView<float>(row.data(), {1, in}));
    rows.push_back(row);
  }
  return rows;
}

template <class T>
std::vector<T> copied(const MatrixSlice& slice) {
  std::vector<T> values(slice.bytes() / sizeof(T));
  // Copies the slice in two portions.
  const int64_t first = slice.rows.total / 3;
  auto* const to = reinterpret_cast<std::byte*>(values.data());
  slice.copy_rows(0, first, to);
  slice.copy_rows(first, slice.rows.total - first,
                  to + static_cast<size_t>(first) * slice.row_bytes());
  return values;
}

Matrix dequantized(const LinearSource::Blocks& blocks, int64_t inputs) {
  const auto bytes = copied<std::byte>(blocks.rows);
  const BlockFormatInfo& format = *blocks.rows.tensor->blocks;
  const int64_t count = blocks.rows.columns.total;
  std::vector<float> whole(static_cast<size_t>(count * format.weights));
  Matrix rows;
  for (int64_t row = 0; row < blocks.rows.rows.total; ++row) {
    format.decode(bytes.data() + row * count * format.bytes, count, whole.data());
    const auto first = whole.begin() + blocks.first_input;
    rows.emplace_back(first, first + inputs);
  }
  return rows;
}

// Blocks of integers (model/integer_blocks.h).
Matrix from_integers(const std::vector<std::byte>& blocks, LinearFormat format, int64_t inputs) {
  const auto* at = reinterpret_cast<const uint8_t*>(blocks.data());
  const auto row_bytes = static_cast<size_t>(integer_row_bytes(format, inputs));
  Matrix rows(blocks.size() / row_bytes);
  for (std::vector<float>& row : rows) {
    for (int64_t input = 0; input < inputs; input += 32) {
      const float scale = to_float(f16{static_cast<uint16_t>(at[0] | at[1] << 8)});
      at += 2;
      const bool is_8 = format == LinearFormat::kQ8_0;
      const int zero = is_8 ? 0 : format == LinearFormat::kQ4_0 ? 8 : *at++;
      for (int i = 0; i < 32; ++i) {
        const int nibble = i < 16 ? at[i] & 15 : at[i % 16] >> 4;
        const int q = is_8 ? static_cast<int8_t>(at[i]) : nibble;
        row.push_back(static_cast<float>(q - zero) * scale);
      }
      at += is_8 ? 32 : 16;
    }
  }
  return rows;
}

// The module as the packing kernels see it, [out.total][in.total].
Matrix packed(const LinearSource& source, const Slice& out, const Slice& in, LinearFormat format) {
  if (format == LinearFormat::kFp8) {
    const auto codes = copied<uint8_t>(source.fp8_codes(out, in));
    const auto scales = source.fp8_scales(out, in);
    EXPECT_TRUE(scales.ok()) << scales.status().message();
    const auto weight = LinearWeight::view_fp8(
        MatrixView<const uint8_t>(codes.data(), {out.total, in.total}),
        {.values = MatrixView<const float>(scales->data(), {out.total, in.total / 64}),
         .block_out = 1,
         .block_in = 64});
    EXPECT_TRUE(weight.ok()) << weight.status().message();
    return dequantized(*weight);
  }
  if (format != LinearFormat::kBf16 && source.has_integers() && !source.packs_as_int4(out, in, 1)) {
    const auto blocks = source.integer_blocks(out, in, format);
    EXPECT_TRUE(blocks.ok()) << blocks.status().message();
    return from_integers(*blocks, format, in.total);
  }
  if (is_grouped(format)) return dequantized(source.blocks(out, in), in.total);
  if (format == LinearFormat::kInt4Group128) {
    const LinearSource::Int4 slices = source.int4(out, in);
    const auto qweight = copied<int32_t>(slices.qweight);
    const auto qzeros = copied<int32_t>(slices.qzeros);
    const auto narrow = copied<f16>(slices.scales);
    std::vector<float> scales;
    for (const f16 scale : narrow) scales.push_back(to_float(scale));
    return dequantized(LinearWeight::from_awq(
        MatrixView<const int32_t>(qweight.data(), {in.total, out.total / 8}),
        MatrixView<const int32_t>(qzeros.data(), {in.total / 128, out.total / 8}),
        MatrixView<const float>(scales.data(), {in.total / 128, out.total}), 128));
  }
  const auto values = copied<bf16>(source.bf16_part(out, in));
  EXPECT_EQ(values.size(), static_cast<size_t>(out.total * in.total));
  Matrix rows;
  for (int64_t row = 0; row < out.total; ++row) {
    auto& to = rows.emplace_back();
    for (int64_t column = 0; column < in.total; ++column) {
      to.push_back(to_float(values[static_cast<size_t>(row * in.total + column)]));
    }
  }
  return rows;
}

// Returns the CPU's part of a weight inside the zeros that the slices describe.
Matrix framed(const LinearWeight& part, const Slice& out, const Slice& in, bool rounds) {
  Matrix rows(static_cast<size_t>(out.total), std::vector<float>(static_cast<size_t>(in.total)));
  if (out.from.size() == 0 || in.from.size() == 0) return rows;
  const Matrix inner = dequantized(part);
  EXPECT_EQ(part.in_features(), in.from.size());
  for (int64_t row = 0; row < out.from.size(); ++row) {
    for (int64_t column = 0; column < in.from.size(); ++column) {
      const float value = inner[static_cast<size_t>(row)][static_cast<size_t>(column)];
      rows[static_cast<size_t>(out.lead + row)][static_cast<size_t>(in.lead + column)] =
          rounds ? round_to_bf16(value) : value;
    }
  }
  return rows;
}

class ShardWeights : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    toy_ = toys()[GetParam()];
    std::filesystem::path path = dir_.path();
    if (toy_.spec.gguf_formats.empty()) {
      ASSERT_TRUE(write_toy_checkpoint(path, toy_.spec).ok());
    } else {
      path /= "toy.gguf";
      toy_gguf(toy_.spec).write(path);
    }
    auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    checkpoint_ = std::make_unique<Checkpoint>(std::move(*checkpoint));
  }
  // Compares each module of a fused layer with the CPU's weight of it.
  void expect_same(const FusedLinear& linear, const std::vector<const LinearWeight*>& expected,
                   bool int4, bool stores_grouped = true) {
    const auto sources = find_sources(*checkpoint_, linear);
    ASSERT_TRUE(sources.ok()) << sources.status().message();
    if (linear.outputs == 0) return;
    int64_t outputs = 0;
    for (const FusedRun& run : runs_of_one_format(linear, *sources)) {
      EXPECT_EQ(run.first_output, outputs);
      outputs += run.linear.outputs;
      expect_same(run.linear, run.sources(*sources),
                  std::span(expected).subspan(run.first_part, run.linear.parts.size()), int4,
                  stores_grouped);
    }
    EXPECT_EQ(outputs, linear.outputs);
  }
  void expect_same(const FusedLinear& run, std::span<const LinearSource> sources,
                   std::span<const LinearWeight* const> expected, bool int4, bool stores_grouped) {
    const auto plan = plan_fused(run, sources);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    if (toy_.grouped != LinearFormat::kInt4Group128) {
      EXPECT_EQ(plan->format == LinearFormat::kInt4Group128, int4 && !run.all_zero());
    }
    const auto is_whole = [&run](LinearFormat format) {
      return !run.all_zero() && run.in.from.begin % unit_inputs(format) == 0 &&
             run.in.from.size() % unit_inputs(format) == 0;
    };
    const auto grouped =
        toy_.mixed ? grouped_format(*kernel_format(sources[0].tensor())) : toy_.grouped;
    EXPECT_EQ(plan->format == grouped, grouped && is_whole(*grouped) && stores_grouped);
    if (run.all_zero()) return;
    for (size_t i = 0; i < run.parts.size(); ++i) {
      const FusedPart& part = run.parts[i];
      EXPECT_EQ(part.first_output % kTileOutputs, 0);
      EXPECT_LE(part.first_output + part.out.total, run.outputs);
      EXPECT_TRUE(packed(sources[i], part.out, run.in, plan->format) ==
                  framed(*expected[i], part.out, run.in, plan->format == LinearFormat::kBf16))
          << module_name(part.module, ModuleNaming::kHuggingFace);
    }
  }

  Toy toy_;
  TempDir dir_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_P(ShardWeights, AreTheCpusInAFrameOfZeros) {
  const ModelConfig& config = checkpoint_->config();
  for (int32_t degree = 1; degree <= kMaxDegree; ++degree) {
    const auto plan = make_shard_plan(config, degree, config.vocab_size);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    for (int32_t rank = 0; rank < degree; ++rank) {
      SCOPED_TRACE("rank " + std::to_string(rank) + " of " + std::to_string(degree));
      const DeviceShard& part = plan->devices[static_cast<size_t>(rank)];
      const ShardLayoutCuda layout = shard_layout_cuda(config, part);
      const auto cpu = load_decoder_weights(*checkpoint_, WeightOverride::kAsStored,
                                            Activation::kBf16, part, LayerRange::all(config), {});
      ASSERT_TRUE(cpu.ok()) << cpu.status().message();
      const LayerWeights& expected = cpu->layers[0];
      const LayerLinears linears = layer_linears(config, layout, 0);
      expect_same(linears.qkv, {&expected.q, &expected.k, &expected.v}, toy_.int4);
      expect_same(linears.o, {&expected.o}, toy_.int4);
      expect_same(linears.gate_up, {&expected.gate, &expected.up}, toy_.int4);
      expect_same(linears.down, {&expected.down}, toy_.int4);
      const auto is_copied = tied_head_is_copied(*checkpoint_);
      ASSERT_TRUE(is_copied.ok()) << is_copied.status().message();
      if (!*is_copied && layout.has_head()) {
        const LmHeadSource head = find_lm_head(*checkpoint_, nullptr);
        expect_same(
            head_linear(config, layout, WeightOverride::kAsStored, head.module), {&cpu->head},
            false,
            // Layouts quantize no head.
            toy_.spec.layout == nullptr && toy_.spec.quantization == ToySpec::Quantization::kNone);
      }
      EXPECT_EQ(layout.head_out.from.begin, part.vocab.begin);
      EXPECT_EQ(layout.num_tokens, part.vocab.size());
    }
  }
}

// Returns the formats of a layer's weights, each with the number of its parts and its first output.
std::string runs_of(const std::vector<BlockFormat>& formats, bool gate_up = false,
                    WeightOverride weights = WeightOverride::kAsStored, int32_t hidden = 256) {
  ToySpec spec;
  spec.num_layers = 1;
  spec.hidden_size = spec.intermediate_size = hidden;
  spec.gguf_formats = formats;
  const TempDir dir;
  toy_gguf(spec).write(dir.path() / "toy.gguf");
  const auto checkpoint = Checkpoint::open(dir.path() / "toy.gguf");
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const auto plan = make_shard_plan(checkpoint->config(), 1, spec.vocab_size);
  const LayerLinears linears = layer_linears(
      checkpoint->config(), shard_layout_cuda(checkpoint->config(), plan->devices[0]), 0, weights);
  const FusedLinear& linear = gate_up ? linears.gate_up : linears.qkv;
  const auto sources = find_sources(*checkpoint, linear);
  std::string text;
  for (const FusedRun& run : runs_of_one_format(linear, *sources)) {
    const auto planned = plan_fused(run.linear, run.sources(*sources));
    EXPECT_TRUE(planned.ok()) << planned.status().message();
    const bool is_last = run.first_output + run.linear.outputs == linear.outputs;
    EXPECT_EQ(run.linear.before_attention, is_last && !gate_up);
    text += (text.empty() ? "" : ", ") + std::to_string(run.linear.parts.size()) + " " +
            unit_format(planned->format).name + " from " + std::to_string(run.first_output);
  }
  return text;
}

// Q has 256 outputs, K and V have 128 each.
TEST(MixedFormats, AreAWeightForEachRun) {
  EXPECT_EQ(runs_of(kMixed), "2 q4_k from 0, 1 q6_k from 384");
  EXPECT_EQ(runs_of({kQ4_K, kQ6_K}), "1 q6_k from 0, 1 q4_k from 256, 1 q6_k from 384");
  EXPECT_EQ(runs_of({kQ8_0, kQ4_0, kQ4_1, kQ4_1}), "1 q4_0 from 0, 2 q4_1 from 256");
  EXPECT_EQ(runs_of({kQ5_K}), "3 q5_k from 0");
  // One row of activations for all, so no bf16 beside (Q4_0 has units of 128 inputs); and gate and
  // up are one weight.
  constexpr auto kAsStored = WeightOverride::kAsStored;
  EXPECT_EQ(runs_of({kQ8_0, kQ8_0, kQ8_0, kQ4_0}, false, kAsStored, 192), "3 bf16 from 0");
  EXPECT_EQ(runs_of(kMixed, /*gate_up=*/true), "2 q4_k from 0");
  EXPECT_EQ(runs_of({kQ4_K, kQ6_K}, /*gate_up=*/true), "2 bf16 from 0");
  EXPECT_EQ(runs_of(kMixed, /*gate_up=*/false, WeightOverride::kInt4), "3 int4 from 0");
}

// Checks the alignment and widths that the kernels require.
TEST_P(ShardWeights, LieWhereKernelsTakeThem) {
  const ModelConfig& config = checkpoint_->config();
  for (int32_t degree = 1; degree <= kMaxDegree; ++degree) {
    const auto plan = make_shard_plan(config, degree, config.vocab_size);
    for (const DeviceShard& part : plan->devices) {
      const ShardLayoutCuda layout = shard_layout_cuda(config, part);
      // Rows of activations begin at 16-byte vectors and hold all inputs of o and down.
      EXPECT_EQ(layout.attended_offset % 8, 0);
      EXPECT_EQ(layout.attended_width % 8, 0);
      EXPECT_LE(layout.attended_offset + layout.o_in.total, layout.attended_width);
      EXPECT_LE(int64_t{layout.num_heads} * config.head_dim, layout.attended_width);
      for (const Slice& in : {layout.o_in, layout.mlp_in}) {
        EXPECT_GE(in.total, 32);
        EXPECT_EQ(in.total % 32, 0);
        EXPECT_LE(in.lead + in.from.size(), in.total);
      }
      EXPECT_GE(layout.mlp_in.total, layout.mlp_out.total);
      // The part's own heads lie where attention puts their outputs.
      EXPECT_EQ(layout.attended_offset + layout.o_in.lead, part.first_slot * config.head_dim);
      EXPECT_EQ(layout.q_out.lead, part.first_slot * config.head_dim);
      EXPECT_EQ(layout.has_heads(), part.heads.size() > 0);
    }
  }
}

TEST_P(ShardWeights, EveryGpuIsToldWhatItNeeds) {
  const ModelConfig& config = checkpoint_->config();
  const auto needs = [&](int32_t degree) {
    const auto plan = make_shard_plan(config, degree, config.vocab_size);
    auto memory = estimate_decoder_cuda_memory(
        *checkpoint_, *plan, LayerRange::all(checkpoint_->config()), WeightOverride::kAsStored);
    EXPECT_TRUE(memory.ok()) << memory.status().message();
    return std::move(*memory);
  };
  const MemoryNeed whole = needs(1).front();
  const auto embedding =
      toy_.spec.gguf_formats.empty()
          ? int64_t{config.vocab_size} * config.hidden_size * 2
          : static_cast<int64_t>(checkpoint_->weight({ModuleKind::kEmbedding})->bytes.size());
  for (const int32_t degree : {2, 4}) {
    const std::vector<MemoryNeed> parts = needs(degree);
    ASSERT_EQ(parts.size(), static_cast<size_t>(degree));
    int64_t sum = 0;
    int64_t kv = 0;
    for (const MemoryNeed& part : parts) {
      EXPECT_LT(part.weight_bytes, whole.weight_bytes);
      EXPECT_GT(part.buffer_bytes, 0);
      sum += part.weight_bytes - embedding;
      kv += part.kv_block_bytes;
    }
    EXPECT_GE(sum, whole.weight_bytes - embedding);  // KV heads are copied, and parts padded
    EXPECT_GE(kv, whole.kv_block_bytes);
  }
}

// Bytes of the embedding's 4,000 rows with a block of 256 each, and of the head's 125 tiles with
// two units each.
TEST(TiedHead, IsPackedFromTheFileBesideTheEmbedding) {
  constexpr int64_t kEmbedding = 4000 * 210, kHead = int64_t{125} * 2 * (3072 + 320);
  ToySpec spec;
  spec.hidden_size = spec.intermediate_size = 256;
  spec.vocab_size = 4000;
  spec.gguf_formats = {kQ6_K};
  const auto bytes_of = [&spec](bool tied, int32_t begin, int32_t end) {
    spec.tied = tied;
    const TempDir dir;
    toy_gguf(spec).write(dir.path() / "toy.gguf");
    const auto checkpoint = Checkpoint::open(dir.path() / "toy.gguf");
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    const auto plan = make_shard_plan(checkpoint->config(), 1, spec.vocab_size);
    const LayerRange stage{.begin = begin, .end = end, .embeds = begin == 0, .heads = end == 2};
    const auto memory =
        estimate_decoder_cuda_memory(*checkpoint, *plan, stage, WeightOverride::kAsStored);
    EXPECT_TRUE(memory.ok()) << memory.status().message();
    return memory->front().weight_bytes;
  };
  const int64_t both = bytes_of(true, 0, 2);
  EXPECT_EQ(both, bytes_of(false, 0, 2));
  const int64_t layer = (both - kEmbedding - kHead) / 2;
  EXPECT_EQ(bytes_of(true, 0, 1), layer + kEmbedding);
  EXPECT_EQ(bytes_of(true, 1, 2), layer + kHead);
}

// A head of 4,000 rows, in tiles of 32: 2,128 bytes per tile for 128 inputs, or 2,112 for 64.
TEST(RoundedHead, IsCountedWhereItIsWholeGroups) {
  struct Case {
    WeightOverride weights;
    int32_t hidden;
    int64_t saved;
  };
  for (const Case& test_case : {Case{WeightOverride::kInt4Head, 128, 4000 * 256 - 125 * 2128},
                                {WeightOverride::kInt4Head, 192, 0},
                                {WeightOverride::kInt8Head, 192, 4000 * 384 - 3 * 125 * 2112},
                                {WeightOverride::kInt8Head, 96, 0}}) {
    for (const bool tied : {false, true}) {
      ToySpec spec;
      spec.hidden_size = test_case.hidden;
      spec.vocab_size = 4000;
      spec.tied = tied;
      const TempDir dir;
      ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
      const auto checkpoint = Checkpoint::open(dir.path());
      // The tokenizer's size need not be a multiple of anything.
      for (const int32_t words : {spec.vocab_size, 3973}) {
        const auto plan = make_shard_plan(checkpoint->config(), 1, words);
        const auto bytes_of = [&](WeightOverride weights) {
          const auto memory = estimate_decoder_cuda_memory(
              *checkpoint, *plan, LayerRange::all(checkpoint->config()), weights);
          EXPECT_TRUE(memory.ok()) << memory.status().message();
          return memory->front().weight_bytes;
        };
        EXPECT_EQ(bytes_of(WeightOverride::kAsStored) - bytes_of(test_case.weights),
                  test_case.saved)
            << weight_override_name(test_case.weights) << ", " << test_case.hidden << ", " << words
            << " words";
      }
    }
  }
}

// A head's layers and fc make 56 units of 32 outputs and 128 inputs, and 4,000 rows of an LM head
// 125: 8,192 bytes each in bf16, 2,128 in int4.
TEST(HeadOfATarget, CountsTheLmHeadThatItCannotShare) {
  ToySpec target_spec;
  target_spec.num_layers = 6;
  target_spec.hidden_size = 128;
  target_spec.vocab_size = 4000;
  target_spec.dtype = DType::kBf16;
  ToySpec spec = target_spec;
  spec.num_layers = 1;
  spec.intermediate_size = 256;
  spec.head_dim = 32;
  spec.eagle3.emplace();
  spec.eagle3->target_hidden_size = 128;
  spec.eagle3->own_embedding = spec.eagle3->own_head = false;
  const TempDir target_dir, dir;
  ASSERT_TRUE(write_toy_checkpoint(target_dir.path(), target_spec).ok());
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  const auto target = Checkpoint::open(target_dir.path());
  const auto head = Checkpoint::open_eagle3(dir.path());
  ASSERT_TRUE(target.ok() && head.ok());
  const auto plan = make_shard_plan(head->config(), 1, spec.vocab_size);
  const auto bytes_of = [&](WeightOverride weights, int32_t target_gpus) {
    const auto memory = estimate_decoder_cuda_memory(*head, *plan, LayerRange::all(head->config()),
                                                     weights, {&*target, target_gpus});
    EXPECT_TRUE(memory.ok()) << memory.status().message();
    return memory->front().weight_bytes;
  };
  EXPECT_EQ(bytes_of(WeightOverride::kAsStored, 1), 56 * 8192);
  EXPECT_EQ(bytes_of(WeightOverride::kAsStored, 2), (56 + 125) * 8192);
  EXPECT_EQ(bytes_of(WeightOverride::kInt4Head, 1), 56 * 8192 + 125 * 2128);
  EXPECT_EQ(bytes_of(WeightOverride::kInt4, 1), (56 + 125) * 2128);
}

TEST(HeadOfATarget, SpreadsAReducedVocabulary) {
  ToySpec spec;
  spec.num_layers = 1;
  spec.vocab_size = 4000;
  spec.eagle3.emplace();
  spec.eagle3->target_hidden_size = 64;
  spec.eagle3->draft_vocab_size = 1000;
  const TempDir dir;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  const auto head = Checkpoint::open_eagle3(dir.path());
  ASSERT_TRUE(head.ok()) << head.status().message();
  const auto plan = make_shard_plan(head->config(), 1, 3990);
  const auto rows = static_cast<int64_t>(head->draft_tokens().size());
  const ShardLayoutCuda layout = shard_layout_cuda(head->config(), plan->devices[0], rows);
  EXPECT_TRUE(layout.spreads_logits());
  EXPECT_EQ(layout.num_tokens, 3990);
  EXPECT_EQ(layout.logits_stride(), 4000);
  EXPECT_EQ(layout.head_out.total, 1000);
  EXPECT_EQ(layout.head_stride(), 1024);
  EXPECT_FALSE(shard_layout_cuda(head->config(), plan->devices[0]).spreads_logits());
}

// A place of the uploader holds the largest tensor that passes through it.
TEST(StagedWeights, AreTheLargestOfEveryPlace) {
  ToySpec spec;
  spec.num_layers = 1;
  spec.hidden_size = 128;
  spec.intermediate_size = 256;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 32;
  spec.vocab_size = 4000;
  spec.dtype = DType::kF16;
  const auto staged = [&spec](int32_t degree, WeightOverride weights = WeightOverride::kAsStored) {
    const TempDir dir;
    EXPECT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
    const auto checkpoint = Checkpoint::open(dir.path());
    const auto plan = make_shard_plan(checkpoint->config(), degree, spec.vocab_size);
    const auto memory = estimate_decoder_cuda_memory(
        *checkpoint, *plan, LayerRange::all(checkpoint->config()), weights);
    EXPECT_TRUE(memory.ok()) << memory.status().message();
    return memory->front().staged_bytes;
  };
  EXPECT_EQ(staged(1), 4000 * 128 * 2);  // the head
  EXPECT_EQ(staged(2), 2000 * 128 * 2);
  EXPECT_EQ(staged(1, WeightOverride::kInt4Head), 4000 * 128 * 2);  // rounded on the GPU
  spec.tied = true;
  EXPECT_EQ(staged(1), 256 * 128 * 2);  // the head is a copy of the embedding on the GPU
  spec.tied = false;
  spec.quantization = ToySpec::Quantization::kAwq;
  spec.awq_group_size = 128;
  // The head is not quantized; zeros and scales of the MLP lie beside it.
  EXPECT_EQ(staged(1), 4000 * 128 * 2 + 256 / 8 * 4 + 256 * 2);
}

std::string toy_name(const testing::TestParamInfo<size_t>& toy) { return toys()[toy.param].name; }
INSTANTIATE_TEST_SUITE_P(Toys, ShardWeights, testing::Range(size_t{0}, toys().size()), toy_name);

}  // namespace
}  // namespace forerun::cuda
