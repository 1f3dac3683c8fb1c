// A copy of a checkpoint with rubbish wherever neither opening nor a stage reads is the checkpoint
// for that stage: for every layout of layers and for GGUF files.
#include "checkpoint/opening_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/float_tensor.h"
#include "checkpoint/gguf/toy_gguf.h"
#include "checkpoint/layouts/toy_layouts.h"
#include "checkpoint/testing.h"
#include "model/held_tensors.h"

namespace forerun {
namespace {

constexpr char kRubbish = '\x7e';  // neither a zero nor, in any float format, a small number

Checkpoint opened(const std::filesystem::path& path) {
  auto checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  return std::move(checkpoint).value();
}

std::vector<float> floats_of(const RawTensor& tensor) {
  const int64_t width = tensor.shape.back();
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < tensor.shape.size(); ++axis) rows *= tensor.shape[axis];
  std::vector<float> values(static_cast<size_t>(rows * width));
  for (int64_t row = 0; row < rows; ++row) {
    widen(tensor, row * width, width, values.data() + row * width);
  }
  return values;
}

void copy_in_part(const Checkpoint& whole, const std::vector<FileRange>& ranges,
                  const std::filesystem::path& to) {
  std::filesystem::copy(whole.path(), to, std::filesystem::copy_options::recursive);
  const bool is_dir = std::filesystem::is_directory(to);
  for (const std::filesystem::path& file : whole.weight_files()) {
    std::ifstream in(file, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    std::string part(content.size(), kRubbish);
    for (const FileRange& range : ranges) {
      if (range.file != file) continue;
      ASSERT_LE(range.end, content.size());
      std::copy(content.begin() + static_cast<std::ptrdiff_t>(range.begin),
                content.begin() + static_cast<std::ptrdiff_t>(range.end),
                part.begin() + static_cast<std::ptrdiff_t>(range.begin));
    }
    std::ofstream(is_dir ? to / file.filename() : to, std::ios::binary) << part;
  }
}

// Every stage of one layer each.
void expect_stages_read_theirs(const std::filesystem::path& path, const std::string& what) {
  SCOPED_TRACE(what);
  const Checkpoint whole = opened(path);
  const ModelConfig& config = whole.config();
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    const LayerRange stage{layer, layer + 1, layer == 0, layer + 1 == config.num_layers};
    std::vector<FileRange> ranges = opening_ranges(whole);
    for (const ModuleTensor& each : held_tensors(whole, {&stage, 1})) {
      ranges.push_back(range_of(whole, *each.tensor));
    }
    TempDir dir;
    const std::filesystem::path to = dir.path() / path.filename();
    copy_in_part(whole, ranges, to);
    const Checkpoint part = opened(to);
    EXPECT_EQ(part.config().tied_embeddings, config.tied_embeddings);
    EXPECT_EQ(part.config().dtype, config.dtype);
    EXPECT_EQ(part.config().rope_scaling.pair_factors, config.rope_scaling.pair_factors);
    ASSERT_EQ(part.tensors().size(), whole.tensors().size());
    int compared = 0;
    for (const Module& module : decoder_modules(config)) {
      if (!stage.holds(module.id, config)) continue;
      const RawTensor* const expected = whole.weight(module.id);
      const RawTensor* const found = part.weight(module.id);
      ASSERT_EQ(expected == nullptr, found == nullptr);
      if (expected == nullptr) continue;
      EXPECT_EQ(floats_of(*found), floats_of(*expected)) << weight_name(module.id);
      ++compared;
    }
    EXPECT_GE(compared, 9);
  }
}

ToySpec toy(int32_t layers = 3) {
  ToySpec spec;
  spec.num_layers = layers;
  spec.hidden_size = 256;
  spec.intermediate_size = 512;
  return spec;
}

void expect_of_toy(const ToySpec& spec, const std::string& what) {
  TempDir dir;
  ASSERT_TRUE(write_toy_checkpoint(dir.path() / "toy", spec).ok());
  expect_stages_read_theirs(dir.path() / "toy", what);
}

TEST(OpeningRanges, AreEnoughForFloats) {
  ToySpec spec = toy();
  expect_of_toy(spec, "f32");
  spec.num_shards = 2;
  spec.dtype = DType::kBf16;
  spec.attention_bias = true;
  expect_of_toy(spec, "bf16 in two files");
  spec.tied = true;
  expect_of_toy(spec, "tied");
}

TEST(OpeningRanges, AreEnoughForEveryLayout) {
  for (const ToyLayout& layout : toy_layouts()) {
    ToySpec spec = toy();
    spec.layout = &layout;
    expect_of_toy(spec, layout.name);
  }
  ToySpec awq = toy();
  awq.quantization = ToySpec::Quantization::kAwq;
  expect_of_toy(awq, "AWQ");
}

// config.json says that they are tied, and the file has both: opening compares them.
TEST(OpeningRanges, HoldAHeadThatIsComparedWithTheEmbedding) {
  for (const bool is_same : {true, false}) {
    ToySpec spec = toy();
    std::vector<StoredTensor> tensors = toy_tensors(spec);
    const auto find = [&](const char* name) {
      return std::find_if(tensors.begin(), tensors.end(),
                          [&](const StoredTensor& tensor) { return tensor.name == name; });
    };
    if (is_same) find("lm_head.weight")->bytes = find("model.embed_tokens.weight")->bytes;
    TempDir dir;
    const std::filesystem::path path = dir.path() / "toy";
    ASSERT_TRUE(write_toy_checkpoint(path, spec).ok());
    ASSERT_TRUE(write_safetensors(path / "model.safetensors", tensors).ok());
    spec.tied = true;
    ASSERT_TRUE(write_text(path / "config.json", toy_config_json(spec)).ok());
    EXPECT_EQ(opened(path).config().tied_embeddings, is_same);
    expect_stages_read_theirs(path, is_same ? "same head" : "head of its own");
  }
}

TEST(OpeningRanges, AreEnoughForGgufFiles) {
  ToySpec spec = toy();
  for (const BlockFormatInfo& blocks : block_formats()) spec.gguf_formats.push_back(blocks.format);
  TempDir dir;
  for (const bool has_factors : {false, true}) {
    GgufRig rig = toy_gguf(spec);
    if (has_factors) {
      std::vector<float> factors(static_cast<size_t>(spec.hidden_size / spec.num_heads / 2));
      for (size_t pair = 0; pair < factors.size(); ++pair) {
        factors[pair] = 1.0f + static_cast<float>(pair);
      }
      std::string bytes(factors.size() * sizeof(float), ' ');
      std::memcpy(bytes.data(), factors.data(), bytes.size());
      rig.tensor("rope_freqs.weight", 0, {factors.size()}, bytes);
    }
    const std::filesystem::path file = dir.path() / "toy.gguf";
    rig.write(file);
    expect_stages_read_theirs(file, "GGUF");
  }
}

TEST(OpeningRanges, SideFilesAreThoseThatDescribe) {
  TempDir dir;
  ASSERT_TRUE(write_toy_checkpoint(dir.path() / "toy", toy()).ok());
  for (const char* name : {"notes.md", "chat_template.jinja", "merges.txt", "pytorch_model.bin"}) {
    ASSERT_TRUE(write_text(dir.path() / "toy" / name, "x").ok());
  }
  const auto files = side_files(opened(dir.path() / "toy"));
  ASSERT_TRUE(files.ok()) << files.status().message();
  std::vector<std::string> names;
  for (const std::filesystem::path& file : *files) names.push_back(file.filename().string());
  EXPECT_EQ(names, (std::vector<std::string>{"chat_template.jinja", "config.json",
                                             "generation_config.json", "merges.txt"}));
}

}  // namespace
}  // namespace forerun
