// Checks the remains of a conversion that ends early, the formats of layers, and layouts of files.
// tests/cli/convert_test.py and tests/gguf/gguf_test.py compare whole models.
#include "convert/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/blocks/encode_blocks.h"
#include "checkpoint/float_tensor.h"
#include "checkpoint/gguf/gguf_header.h"
#include "checkpoint/gguf/gguf_writer.h"
#include "checkpoint/gguf/toy_gguf.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/testing.h"

namespace forerun {
namespace {

FileFormat format_named(std::string_view name) {
  auto format = parse_output_format("--to", name);
  EXPECT_TRUE(format.ok()) << format.status().message();
  return *format;
}

std::vector<float> weight_of(const Checkpoint& checkpoint, ModuleId id) {
  const RawTensor& tensor = *checkpoint.weight(id);
  std::vector<float> values(static_cast<size_t>(tensor.shape[0] * tensor.shape[1]));
  for (int64_t row = 0; row < tensor.shape[0]; ++row) {
    widen(tensor, row * tensor.shape[1], tensor.shape[1], values.data() + row * tensor.shape[1]);
  }
  return values;
}

class Convert : public ::testing::Test {
 protected:
  // Writes a GGUF file of the Llama family with interleaved rows of Q and K.
  Checkpoint toy(std::vector<BlockFormat> formats = {BlockFormat::kQ5_0, BlockFormat::kQ8_0}) {
    ToySpec spec;
    spec.gguf_formats = std::move(formats);
    toy_gguf(spec).write(dir_.path() / "toy.gguf");
    auto opened = Checkpoint::open(dir_.path() / "toy.gguf");
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return std::move(opened).value();
  }
  std::filesystem::path out(const char* name) const { return dir_.path() / name; }

  TempDir dir_;
};

TEST(OutputFormats, AreThoseWithAnEncoder) {
  size_t encoders = 0;
  for (const BlockFormatInfo& blocks : block_formats()) {
    if (block_encoder(blocks.format) == nullptr) continue;
    ++encoders;
    EXPECT_EQ(format_named(blocks.name).blocks, &blocks);
  }
  EXPECT_EQ(output_format_names().size(), encoders + 4);
  EXPECT_EQ(format_named("awq:64").group_size, 64);
  for (const char* const name : {"q6_k", "awq:16", "", "int8"}) {
    const auto refused = parse_output_format("--to", name);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.status().message().find("q8_0"), std::string::npos);
  }
}

TEST_F(Convert, EveryWeightIsTheEncodedOne) {
  const Checkpoint input = toy();
  for (const char* const name : {"q8_0", "q4_1"}) {
    ConvertOptions options;
    options.to = format_named(name);
    options.replace = true;
    options.num_threads = 3;
    const auto done = convert_checkpoint(input, out("out.gguf"), options);
    ASSERT_TRUE(done.ok()) << done.status().message();
    const auto output = Checkpoint::open(out("out.gguf"));
    ASSERT_TRUE(output.ok()) << output.status().message();
    const BlockFormatInfo& blocks = *options.to.blocks;
    for (const ModuleKind kind : {ModuleKind::kQ, ModuleKind::kK, ModuleKind::kDown}) {
      const std::vector<float> from = weight_of(input, {kind, 1});
      const auto count = static_cast<int64_t>(from.size()) / blocks.weights;
      std::vector<std::byte> encoded(static_cast<size_t>(count * blocks.bytes));
      std::vector<float> wanted(from.size());
      if (input.weight({kind, 1})->blocks == &blocks) {
        wanted = from;  // copied without conversion
      } else {
        block_encoder(blocks.format)(from.data(), count, encoded.data());
        blocks.decode(encoded.data(), count, wanted.data());
      }
      EXPECT_EQ(weight_of(*output, {kind, 1}), wanted) << name << " " << static_cast<int>(kind);
    }
  }
}

TEST_F(Convert, WhatIsStoredAsAskedForStaysBitForBit) {
  const Checkpoint input = toy({BlockFormat::kQ4_0});
  ConvertOptions options;
  options.to = format_named("q4_0");
  const auto done = convert_checkpoint(input, out("out.gguf"), options);
  ASSERT_TRUE(done.ok()) << done.status().message();
  EXPECT_EQ(done->num_kept, done->num_weights);
  EXPECT_GT(done->num_weights, 10);
  const auto output = Checkpoint::open(out("out.gguf"));
  ASSERT_TRUE(output.ok()) << output.status().message();
  ASSERT_EQ(output->tensors().size(), input.tensors().size());
  for (size_t idx = 0; idx < input.tensors().size(); ++idx) {
    EXPECT_EQ(output->tensors()[idx].name, input.tensors()[idx].name);
    EXPECT_TRUE(std::ranges::equal(output->tensors()[idx].bytes, input.tensors()[idx].bytes));
  }
}

// A format with more bits would not restore the input's lost bits.
TEST_F(Convert, AnEmbeddingOfFewerBitsStaysUnlessItsFormatIsAskedFor) {
  const Checkpoint input = toy({BlockFormat::kQ5_0, BlockFormat::kQ8_0});
  ASSERT_EQ(format_name(*input.weight({ModuleKind::kEmbedding})), "Q5_0");
  const auto embedding_of = [&](const char* to, const char* embedding) {
    ConvertOptions options;
    options.to = format_named(to);
    if (embedding != nullptr) options.embedding = format_named(embedding);
    options.replace = true;
    const auto done = convert_checkpoint(input, out("out.gguf"), options);
    EXPECT_TRUE(done.ok()) << done.status().message();
    const auto output = Checkpoint::open(out("out.gguf"));
    EXPECT_TRUE(output.ok()) << output.status().message();
    return std::string(format_name(*output->weight({ModuleKind::kEmbedding})));
  };
  EXPECT_EQ(embedding_of("q4_0", nullptr), "Q5_0");
  EXPECT_EQ(embedding_of("q8_0", nullptr), "Q5_0");
  EXPECT_EQ(embedding_of("bf16", nullptr), "bf16");
  EXPECT_EQ(embedding_of("q4_0", "q8_0"), "Q8_0");
}

TEST_F(Convert, WhatAwqCannotHoldSaysWhichGroupsCan) {
  ToySpec spec;
  spec.hidden_size = 96;
  spec.num_heads = 6;
  spec.num_kv_heads = 3;
  spec.intermediate_size = 256;
  ASSERT_TRUE(write_toy_checkpoint(dir_.path() / "toy", spec).ok());
  const auto input = Checkpoint::open(dir_.path() / "toy");
  ASSERT_TRUE(input.ok()) << input.status().message();
  ConvertOptions options;
  options.to = format_named("awq");
  const auto done = convert_checkpoint(*input, out("awq"), options);
  ASSERT_TRUE(done.ok()) << done.status().message();
  ASSERT_FALSE(done->notes.empty());
  EXPECT_NE(done->notes[0].find("96 x 96, no AWQ of groups of 128; written as "), std::string::npos)
      << done->notes[0];
  EXPECT_TRUE(done->notes[0].ends_with("; accepted: awq:32")) << done->notes[0];
  EXPECT_TRUE(Checkpoint::open(out("awq")).ok());
  spec.intermediate_size = 160;
  TempDir other;
  ASSERT_TRUE(write_toy_checkpoint(other.path(), spec).ok());
  const auto none = Checkpoint::open(other.path());
  const Status refused = convert_checkpoint(*none, out("none"), options).status();
  EXPECT_TRUE(refused.message().ends_with("no AWQ of groups of 128); accepted: awq:32"))
      << refused.message();
}

TEST_F(Convert, AnEarlyEndLeavesWhatWasThere) {
  const Checkpoint input = toy();
  ASSERT_TRUE(write_text(out("out.gguf"), "before").ok());
  ConvertOptions options;
  options.to = format_named("f32");
  options.replace = true;
  options.is_cancelled = [] { return true; };
  EXPECT_EQ(convert_checkpoint(input, out("out.gguf"), options).status().code(),
            StatusCode::kCancelled);
  EXPECT_EQ(std::filesystem::file_size(out("out.gguf")), 6u);
  EXPECT_FALSE(std::filesystem::exists(out("out.gguf.part")));
}

TEST_F(Convert, ShardsHoldWhatOneFileHolds) {
  ASSERT_TRUE(write_toy_checkpoint(dir_.path() / "toy", ToySpec()).ok());
  const auto input = Checkpoint::open(dir_.path() / "toy");
  ASSERT_TRUE(input.ok()) << input.status().message();
  ConvertOptions options;
  options.to = format_named("f16");
  ASSERT_TRUE(convert_checkpoint(*input, out("one"), options).ok());
  options.max_shard_bytes = 10'000;
  ASSERT_TRUE(convert_checkpoint(*input, out("shards"), options).ok());
  EXPECT_FALSE(std::filesystem::exists(out("shards") / "model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(out("shards") / "model.safetensors.index.json"));
  const auto one = Checkpoint::open(out("one"));
  const auto shards = Checkpoint::open(out("shards"));
  ASSERT_TRUE(shards.ok()) << shards.status().message();
  ASSERT_EQ(one->tensors().size(), shards->tensors().size());
  std::set<std::filesystem::path> names;
  for (size_t idx = 0; idx < one->tensors().size(); ++idx) {
    const RawTensor& tensor = shards->tensors()[idx];
    EXPECT_EQ(tensor.name, one->tensors()[idx].name);
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, one->tensors()[idx].bytes)) << tensor.name;
    names.insert(shards->file_of(tensor));
  }
  EXPECT_GT(names.size(), 2u);
}

TEST(GgufWriter, WritesWhatTheReaderReads) {
  GgufWriter writer;
  writer.add("a", uint32_t{7});
  writer.add("b", -2.5f);
  writer.add("c", true);
  writer.add("d", "text");
  const std::vector<std::string_view> words = {"one", "", "three"};
  writer.add("e", std::span(words));
  const std::vector<int32_t> numbers = {1, -2, 3};
  writer.add("f", std::span(numbers));
  const std::vector<int64_t> shape = {3, 5};
  writer.add_tensor("x", 0, shape, 60);
  writer.add_tensor("y", 0, shape, 60);
  GgufWriter copier;
  std::string file = writer.header();
  file.resize(file.size() + writer.data_bytes());
  for (int turn = 0; turn < 2; ++turn) {
    const auto header = parse_gguf_header(std::as_bytes(std::span(file)), file.size());
    ASSERT_TRUE(header.ok()) << header.status().message();
    GgufMetadataReader fields(header->metadata);
    EXPECT_EQ(fields.integer("a", 0, 9), 7);
    EXPECT_EQ(fields.number("b", -9, 9), -2.5f);
    EXPECT_EQ(fields.boolean("c"), true);
    EXPECT_EQ(fields.string("d"), "text");
    EXPECT_EQ(fields.strings("e")->back(), "three");
    EXPECT_EQ(fields.integers("f", -9, 9), (std::vector<int64_t>{1, -2, 3}));
    EXPECT_EQ(header->tensors.size(), turn == 0 ? 2u : 0u);
    if (turn == 1) break;
    EXPECT_EQ(header->tensors[1].begin % kGgufAlignment, 0u);
    EXPECT_EQ(header->tensors[0].shape, shape);
    for (const GgufValue& value : header->metadata.values()) copier.copy(value);
    file = copier.header();
  }
}

TEST(SafetensorsWriter, FillsShardsInOrder) {
  const std::vector<SafetensorsTensor> tensors = {{"a", DType::kBf16, {4, 8}},
                                                  {"b", DType::kF32, {8}},
                                                  {"c", DType::kI32, {100}},
                                                  {"d", DType::kF16, {2}}};
  const SafetensorsLayout one = lay_out_safetensors(tensors, 1000);
  ASSERT_EQ(one.files.size(), 1u);
  EXPECT_EQ(one.files[0].name, "model.safetensors");
  EXPECT_TRUE(one.index.empty());
  const SafetensorsLayout layout = lay_out_safetensors(tensors, 96);
  ASSERT_EQ(layout.files.size(), 3u);
  EXPECT_EQ(layout.file_of, (std::vector<size_t>{0, 0, 1, 2}));
  EXPECT_NE(layout.index.find("model-00002-of-00003.safetensors"), std::string::npos);
  for (const SafetensorsFile& file : layout.files) {
    std::string bytes = file.header;
    bytes.resize(file.bytes);
    const auto entries = parse_safetensors_header(std::as_bytes(std::span(bytes)), bytes.size());
    ASSERT_TRUE(entries.ok()) << entries.status().message();
    for (const SafetensorsEntry& entry : *entries) {
      const auto idx = static_cast<size_t>(entry.name[0] - 'a');
      EXPECT_EQ(entry.begin, layout.offset_of[idx]);
      EXPECT_EQ(entry.dtype, tensors[idx].dtype);
      EXPECT_EQ(entry.shape, tensors[idx].shape);
    }
  }
}

}  // namespace
}  // namespace forerun
