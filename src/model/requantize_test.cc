#include "model/requantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "checkpoint/blocks/encode_blocks.h"
#include "checkpoint/blocks/round_blocks.h"
#include "checkpoint/gguf/toy_gguf.h"
#include "checkpoint/testing.h"
#include "kernels/linear/formats/weight_formats.h"
#include "model/block_packing.h"
#include "model/decoder_memory.h"
#include "model/decoder_weights.h"
#include "model/rounding_error.h"
#include "model/widened_formats.h"

namespace forerun {
namespace {

constexpr int64_t kRows = 133;  // several threads' portions, and the last one is short
constexpr int64_t kInputs = 96;

float value_at(int64_t row, int64_t column) {
  const auto hash = static_cast<uint32_t>(row * 7919 + column * 104729) * 2654435761u;
  return (static_cast<float>(hash >> 8) / 8388608.0f - 1.0f) * 0.1f * static_cast<float>(row % 7);
}

void fill_rows(int64_t first, MatrixView<float> rows) {
  for (int64_t row = 0; row < rows.dim(0); ++row) {
    for (int64_t column = 0; column < rows.dim(1); ++column) {
      rows.row(row)[column] = value_at(first + row, column);
    }
  }
}

std::vector<float> dequantized(const LinearWeight& weight) {
  std::vector<float> values(static_cast<size_t>(weight.out_features() * weight.in_features()));
  weight.dequantize(
      0, MatrixView<float>(values.data(), {weight.out_features(), weight.in_features()}));
  return values;
}

// Rounds a block and computes its values by the formula of block_fields.h.
void round_to_parts(const BlockFormatInfo& blocks, const float* from, float* to) {
  BlockFields parts = {};
  round_block(blocks, from, parts);
  const BlockLayout& layout = *blocks.layout;
  for (int64_t at = 0; at < blocks.weights; ++at) {
    const auto group = static_cast<size_t>(at / layout.group);
    const int32_t level =
        layout.code_book.empty() ? parts.q[at] - layout.zero : layout.code_book[parts.q[at]];
    const float scale = block_scale(layout, parts.d) * static_cast<float>(parts.scale[group]);
    to[at] = scale * static_cast<float>(level);
    if (!layout.has_min) continue;
    to[at] -= to_float(f16{parts.dmin}) * static_cast<float>(parts.min[group]);
  }
}

// Returns a row rounded to the format, by code that requantize() does not share.
std::vector<float> rounded_row(WeightFormat format, const std::vector<float>& row) {
  std::vector<float> rounded = row;
  for (const BlockFormatInfo& blocks : block_formats()) {
    if (kernel_format(blocks.format) != format) continue;
    const int64_t count = std::ssize(row) / blocks.weights;
    if (block_encoder(blocks.format) == nullptr) {
      for (int64_t block = 0; block < count; ++block) {
        round_to_parts(blocks, row.data() + block * blocks.weights,
                       rounded.data() + block * blocks.weights);
      }
      return rounded;
    }
    std::vector<std::byte> bytes(static_cast<size_t>(count * blocks.bytes));
    block_encoder(blocks.format)(row.data(), count, bytes.data());
    blocks.decode(bytes.data(), count, rounded.data());
    return rounded;
  }
  float largest = 0;
  for (const float value : row) largest = std::max(largest, std::abs(value));
  for (float& value : rounded) {
    if (format == WeightFormat::kBf16) value = to_float(to_bf16(value));
    if (format == WeightFormat::kF16) value = to_float(to_f16(value));
    if (format == WeightFormat::kInt8 && largest > 0) {
      const float scale = largest / 127.0f;
      value = std::nearbyint(value / scale) * scale;
    }
  }
  return rounded;
}

TEST(Requantize, FormatsAreFloatsInt8AndThoseOfBlocks) {
  std::vector<std::string> names;
  for (const WeightFormat format : requantizable_formats()) {
    names.emplace_back(weight_format_name(format));
  }
  for (const BlockFormatInfo& blocks : block_formats()) {
    ASSERT_TRUE(kernel_format(blocks.format)) << blocks.name;
    const std::string name = weight_format_name(*kernel_format(blocks.format));
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  EXPECT_EQ(names.size(), 4 + block_formats().size());
  for (const char* const name : {"f32", "bf16", "f16", "int8", "q4_0", "q4_k", "mxfp4"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
}

TEST(Requantize, ValuesAreThoseOfTheFormat) {
  for (const WeightFormat format : requantizable_formats()) {
    SCOPED_TRACE(weight_format_name(format));
    OwnedBytes owned;
    const int64_t in = std::max<int64_t>(kInputs, input_multiple(format));
    const auto made = requantize(format, kRows, in, fill_rows, owned);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(made->format(), format);
    const std::vector<float> values = dequantized(*made);
    std::vector<float> row(static_cast<size_t>(in));
    for (int64_t index = 0; index < kRows; ++index) {
      fill_rows(index, MatrixView<float>(row.data(), {1, in}));
      const std::vector<float> expected = rounded_row(format, row);
      for (int64_t column = 0; column < in; ++column) {
        const float found = values[static_cast<size_t>(index * in + column)];
        const float wanted = expected[static_cast<size_t>(column)];
        // int8 may round halves differently, and its scale by one bit.
        const float tolerance = format == WeightFormat::kInt8 ? 0.6f * 0.1f * 7 / 127 : 0.0f;
        ASSERT_LE(std::abs(found - wanted), tolerance) << index << ", " << column;
      }
    }
  }
}

TEST(Requantize, BytesAreThoseThatKernelsRead) {
  for (const WeightFormat format : requantizable_formats()) {
    for (const int64_t out : {16, 64}) {
      OwnedBytes owned;
      const int64_t in = std::max<int64_t>(128, input_multiple(format));
      const auto made = requantize(format, out, in, fill_rows, owned);
      ASSERT_TRUE(made.ok());
      EXPECT_EQ(weight_bytes(format, out, in), static_cast<int64_t>(made->bytes()))
          << weight_format_name(format) << ", " << out;
    }
  }
}

TEST(Requantize, WhatF16HasNoRoomForIsRefused) {
  for (const float bad : {NAN, INFINITY, -65505.0f}) {
    for (const WeightFormat format : requantizable_formats()) {
      OwnedBytes owned;
      const int64_t in = std::max<int64_t>(kInputs, input_multiple(format));
      const auto made = requantize(
          format, kRows, in,
          [&](int64_t first, MatrixView<float> rows) {
            fill_rows(first, rows);
            if (first <= 70 && 70 < first + rows.dim(0)) rows.row(70 - first)[5] = bad;
          },
          owned);
      const bool has_room = format == WeightFormat::kF32 || format == WeightFormat::kBf16 ||
                            format == WeightFormat::kInt8;
      EXPECT_EQ(made.ok(), has_room) << weight_format_name(format) << ", " << bad;
      if (made.ok()) continue;
      EXPECT_EQ(made.status().code(), StatusCode::kUnsupported);
      EXPECT_NE(made.status().message().find("65504"), std::string::npos);
    }
  }
}

// Returns the weights of a checkpoint on one device.
DecoderWeights loaded(const Checkpoint& checkpoint, WeightOverride weights) {
  const ModelConfig& config = checkpoint.config();
  const ShardPlan plan = make_shard_plan(config, 1, config.vocab_size).value();
  auto made = load_decoder_weights(checkpoint, weights, Activation::kF32, plan.devices.front(),
                                   LayerRange::all(config), {});
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

TEST(Requantize, LoadersRoundEveryLayerAndTheHead) {
  TempDir dir;
  ToySpec spec;
  spec.dtype = DType::kBf16;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const DecoderWeights stored = loaded(*checkpoint, WeightOverride::kF32);
  for (const WeightFormat format : requantizable_formats()) {
    if (input_multiple(format) > spec.hidden_size) continue;
    SCOPED_TRACE(weight_format_name(format));
    const DecoderWeights made = loaded(*checkpoint, requantize_to(format));
    EXPECT_EQ(made.head.format(), format);
    EXPECT_EQ(made.layers[1].down.format(), format);
    const std::vector<float> values = dequantized(made.layers[1].q);
    const std::vector<float> exact = dequantized(stored.layers[1].q);
    const std::vector<float> row(exact.begin(), exact.begin() + spec.hidden_size);
    if (format == WeightFormat::kInt8) continue;  // rounds halves another way
    EXPECT_TRUE(std::equal(row.begin(), row.end(), values.begin(),
                           [&, wanted = rounded_row(format, row), at = size_t{0}](
                               float, float found) mutable { return wanted[at++] == found; }));
  }
}

TEST(Requantize, WhatIsStoredInTheFormatStaysAsItIs) {
  for (const BlockFormat stored : {BlockFormat::kQ4_0, BlockFormat::kQ4_1, BlockFormat::kQ8_0}) {
    TempDir dir;
    ToySpec spec;
    spec.gguf_formats = {stored};
    const std::filesystem::path file = dir.path() / "toy.gguf";
    toy_gguf(spec).write(file);
    const auto checkpoint = Checkpoint::open(file);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    const DecoderWeights as_stored = loaded(*checkpoint, WeightOverride::kAsStored);
    const DecoderWeights same = loaded(*checkpoint, requantize_to(*kernel_format(stored)));
    for (const auto part : {&LayerWeights::q, &LayerWeights::down}) {
      const std::vector<float> values = dequantized(same.layers[0].*part);
      EXPECT_EQ(values, dequantized(as_stored.layers[0].*part)) << block_format(stored).name;
      EXPECT_EQ((same.layers[0].*part).format(), *kernel_format(stored));
    }
    const DecoderWeights other = loaded(*checkpoint, WeightOverride::kInt8);
    EXPECT_NE(dequantized(other.layers[0].q), dequantized(as_stored.layers[0].q));
  }
}

TEST(Requantize, WhatDevicesCutWithinABlockKeepsItsValues) {
  TempDir dir;
  ToySpec spec;
  spec.dtype = DType::kBf16;
  spec.num_heads = 4;  // heads of 16 inputs: two devices divide o_proj at 32, four at 16
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.ok());
  const ModelConfig& config = checkpoint->config();
  const ShardPlan plan = make_shard_plan(config, 4, config.vocab_size).value();
  ASSERT_EQ(plan.devices.front().heads.size() * config.head_dim, 16);
  const auto made =
      load_decoder_weights(*checkpoint, requantize_to(WeightFormat::kQ8_0), Activation::kF32,
                           plan.devices.front(), LayerRange::all(config), {});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->layers[0].q.format(), WeightFormat::kQ8_0);
  EXPECT_EQ(made->layers[0].o.format(), WeightFormat::kF32);
  const std::vector<float> part = dequantized(made->layers[0].o);
  const std::vector<float> whole =
      dequantized(loaded(*checkpoint, WeightOverride::kF32).layers[0].o);
  for (size_t row = 0; row < 64; ++row) {
    EXPECT_TRUE(std::equal(&part[row * 16], &part[row * 16] + 16, &whole[row * 64])) << row;
  }
}

// Returns the read of a kind of module in layer 0, or of a module outside the layers.
ModuleRead read_of(const Checkpoint& checkpoint, ModuleKind kind, WeightOverride weights,
                   bool on_gpus = false) {
  for (const ModuleRead& read :
       module_reads(checkpoint, LayerRange::all(checkpoint.config()), weights, on_gpus)) {
    if (read.module.id.kind == kind && read.module.id.layer <= 0) return read;
  }
  ADD_FAILURE() << "no such module";
  return {};
}

TEST(RoundingError, IsThatOfAPlainLoop) {
  TempDir dir;
  ToySpec spec;
  spec.intermediate_size = 256;  // several portions
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.ok());
  const std::vector<float> stored =
      dequantized(loaded(*checkpoint, WeightOverride::kF32).layers[0].up);
  for (const WeightFormat format :
       {WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kQ4_1}) {
    const WeightOverride weights = requantize_to(format);
    const std::vector<float> made = dequantized(loaded(*checkpoint, weights).layers[0].up);
    double error = 0, norm = 0, largest = 0;
    for (size_t index = 0; index < stored.size(); ++index) {
      const double off = double{made[index]} - double{stored[index]};
      error += off * off;
      norm += double{stored[index]} * double{stored[index]};
      largest = std::max(largest, std::abs(off));
    }
    ASSERT_GT(error, 0) << weight_format_name(format);
    double last = 0;
    const auto found = rounding_error(*checkpoint, read_of(*checkpoint, ModuleKind::kUp, weights),
                                      [&](double done) { last = done; });
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_NEAR(found->relative(), std::sqrt(error / norm), 1e-9 * std::sqrt(error / norm));
    EXPECT_EQ(found->largest, largest);
    EXPECT_GE(last, 0);
    EXPECT_LE(last, 1);
  }
}

TEST(RoundingError, AwqIsComparedByItsValues) {
  TempDir dir, twin_dir;
  ToySpec spec;
  spec.quantization = ToySpec::Quantization::kAwq;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  spec.quantization = ToySpec::Quantization::kAwqDequantized;
  ASSERT_TRUE(write_toy_checkpoint(twin_dir.path(), spec).ok());
  const auto awq = Checkpoint::open(dir.path()), twin = Checkpoint::open(twin_dir.path());
  ASSERT_TRUE(awq.ok() && twin.ok());
  const WeightOverride weights = requantize_to(WeightFormat::kQ8_0);
  for (const ModuleKind kind : {ModuleKind::kQ, ModuleKind::kDown}) {
    const auto found = rounding_error(*awq, read_of(*awq, kind, weights), {});
    const auto expected = rounding_error(*twin, read_of(*twin, kind, weights), {});
    ASSERT_TRUE(found.ok() && expected.ok());
    EXPECT_GT(found->squared_error, 0);
    EXPECT_EQ(found->squared_error, expected->squared_error);
    EXPECT_EQ(found->squared_weights, expected->squared_weights);
  }
}

TEST(ModuleReads, SayWhatIsWidenedAndRounded) {
  TempDir dir;
  ToySpec spec;
  spec.tied = true;
  spec.gguf_formats = {BlockFormat::kQ4_0, BlockFormat::kQ8_0};
  const std::filesystem::path file = dir.path() / "toy.gguf";
  toy_gguf(spec).write(file);
  const auto checkpoint = Checkpoint::open(file);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const auto formats = [&](bool on_gpus, WeightOverride weights) {
    return describe(
        widened_formats(*checkpoint, LayerRange::all(checkpoint->config()), on_gpus, weights));
  };
  EXPECT_EQ(formats(false, WeightOverride::kAsStored), "");
  // On GPUs, 64 inputs are half of a q4_0 unit, so Q8_0 beside it in Q, K and V is rounded too.
  EXPECT_NE(formats(true, WeightOverride::kAsStored).find("Q4_0 (0 MB) is rounded to bf16"),
            std::string::npos);
  EXPECT_NE(formats(true, WeightOverride::kAsStored).find("Q8_0 (0 MB) is rounded to bf16"),
            std::string::npos);
  const WeightOverride q8_0 = requantize_to(WeightFormat::kQ8_0);
  EXPECT_EQ(formats(false, q8_0).find("Q8_0"), std::string::npos) << formats(false, q8_0);
  EXPECT_NE(formats(false, q8_0).find("Q4_0"), std::string::npos);
  EXPECT_NE(formats(false, WeightOverride::kF32).find("is widened to f32"), std::string::npos);

  const ModuleRead in_file =
      read_of(*checkpoint, ModuleKind::kEmbedding, WeightOverride::kInt8Head);
  EXPECT_EQ(in_file.read_as, in_file.stored);
  EXPECT_EQ(in_file.read_bytes, in_file.stored_bytes);
  const ModuleRead in_head =
      read_of(*checkpoint, ModuleKind::kEmbedding, WeightOverride::kAsStored);
  EXPECT_EQ(in_head.read_as, "q4_0");
  EXPECT_EQ(in_head.read_bytes, 0);
  // 64 inputs are no whole number of blocks of 256.
  const ModuleRead narrow =
      read_of(*checkpoint, ModuleKind::kQ, requantize_to(WeightFormat::kQ4_K));
  EXPECT_EQ(narrow.read_as, "f32");
  EXPECT_FALSE(narrow.rounded_to);
  const ModuleRead head = read_of(*checkpoint, ModuleKind::kHead, WeightOverride::kInt8Head);
  EXPECT_TRUE(head.is_tied_head);
  EXPECT_EQ(head.read_as, "int8");
  EXPECT_EQ(head.rounded_to, WeightFormat::kInt8);
  // The loader must make the weights that module_reads() describes.
  const DecoderWeights made = loaded(*checkpoint, q8_0);
  for (const auto& [kind, weight] : {std::pair(ModuleKind::kQ, &made.layers[0].q),
                                     std::pair(ModuleKind::kDown, &made.layers[0].down),
                                     std::pair(ModuleKind::kHead, &made.head)}) {
    const ModuleRead read = read_of(*checkpoint, kind, q8_0);
    EXPECT_EQ(read.read_as, weight_format_name(weight->format()));
    EXPECT_EQ(read.read_bytes, static_cast<int64_t>(weight->bytes()));
  }
}

// On GPUs, Q, K and V take a launch per format; gate and up must have the same.
TEST(ModuleReads, KeepMixedFormatsOnGpus) {
  using enum BlockFormat;
  ToySpec spec;
  spec.num_layers = 1;
  spec.hidden_size = spec.intermediate_size = 256;
  spec.tied = true;
  // In order: embedding, Q, V, gate, up, head.
  const auto read_as = [&](BlockFormat embedding, BlockFormat v, BlockFormat up) {
    const TempDir dir;
    spec.gguf_formats = {embedding, kQ4_K, kQ4_K, v, kQ4_K, kQ4_K, up, kQ4_K};
    toy_gguf(spec).write(dir.path() / "toy.gguf");
    const auto checkpoint = Checkpoint::open(dir.path() / "toy.gguf");
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    std::string text;
    for (const ModuleRead& read : module_reads(*checkpoint, LayerRange::all(checkpoint->config()),
                                               WeightOverride::kAsStored, /*on_gpus=*/true)) {
      using enum ModuleKind;
      const ModuleKind kind = read.module.id.kind;
      const bool is_left_out =
          read.module.type == ModuleType::kNorm || kind == kK || kind == kO || kind == kDown;
      if (!is_left_out) text += read.read_as + " ";
      if (kind == kEmbedding && read.change == WeightChange::kNone) {
        EXPECT_EQ(read.read_bytes, read.stored_bytes);
      }
    }
    return text;
  };
  EXPECT_EQ(read_as(kQ6_K, kQ6_K, kQ4_K), "q6_k q4_k q6_k q4_k q4_k q6_k ");
  EXPECT_EQ(read_as(kQ8_0, kQ5_0, kQ4_K), "q8_0 q4_k q5_0 q4_k q4_k q8_0 ");
  EXPECT_EQ(read_as(kQ5_0, kQ4_K, kQ6_K), "q5_0 q4_k q4_k bf16 bf16 q5_0 ");
}

TEST(WeightOverride, NamesAndFormats) {
  EXPECT_STREQ(weight_override_name(WeightOverride::kAsStored), "as stored");
  EXPECT_STREQ(weight_override_name(WeightOverride::kInt8Head), "int8 head");
  EXPECT_STREQ(weight_override_name(WeightOverride::kInt8), "int8");
  EXPECT_STREQ(weight_override_name(requantize_to(WeightFormat::kQ4_1)), "q4_1");
  EXPECT_EQ(override_format(requantize_to(WeightFormat::kMxfp4)), WeightFormat::kMxfp4);
  EXPECT_EQ(override_format(WeightOverride::kInt4Head), std::nullopt);
  EXPECT_EQ(layers_override(WeightOverride::kInt8Head), WeightOverride::kAsStored);
  EXPECT_EQ(head_override(WeightOverride::kInt8Head), WeightOverride::kInt8);
}

}  // namespace
}  // namespace forerun
