// The bits of logits do not move: hashes of a few forward passes, by instruction set, weights and
// activations, against those of tests/goldens/logits-hashes.txt. A change that moves bits on
// purpose replaces that file's lines, which a failure prints, and says so in its commit.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/testing.h"
#include "kernels/forced_isa_rig.h"
#include "model/testing.h"

namespace forerun {
namespace {

constexpr const char* kFile = FORERUN_SOURCE_DIR "/tests/goldens/logits-hashes.txt";

struct Model {
  const char* name;
  ToySpec spec;
  WeightOverride weights = WeightOverride::kAsStored;
};

std::vector<Model> models() {
  ToySpec f32;
  ToySpec bf16;
  bf16.dtype = DType::kBf16;
  bf16.family = "qwen3";
  bf16.head_dim = 32;
  ToySpec awq;
  awq.quantization = ToySpec::Quantization::kAwq;
  awq.dtype = DType::kF16;
  awq.hidden_size = 128;
  awq.intermediate_size = 256;
  ToySpec window;
  window.family = "mistral";
  window.sliding_window = 70;
  window.num_kv_heads = 1;
  return {{"f32", f32},
          {"bf16", bf16},
          {"awq", awq},
          {"window", window},
          {"int8", f32, WeightOverride::kInt8}};
}

// FNV-1a of the bits, in order.
uint64_t hash_of(const std::vector<float>& values, uint64_t hash) {
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    for (int byte = 0; byte < 4; ++byte)
      hash = (hash ^ (bits >> (8 * byte) & 0xff)) * 0x100000001b3;
  }
  return hash;
}

// The hash of the logits of a prompt of 100 rows, then of Steps of 1, 8 and 33 rows.
uint64_t hash_of_passes(const std::filesystem::path& dir, const CpuDecoderOptions& options) {
  auto loaded = LoadedDecoder::open(dir, 2, options);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  if (!loaded.ok()) return 0;
  Decoder& decoder = *loaded->decoder;
  SequenceDriver sequence(&decoder, SequenceDriver::blocks_for(256));
  const std::vector<int32_t> tokens = toy_tokens(142, decoder.config().vocab_size);
  uint64_t hash = 0xcbf29ce484222325;
  int32_t begin = 0;
  for (const int32_t rows : {100, 1, 8, 33}) {
    const auto logits = sequence.run(
        std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(rows)), begin,
        rows);
    EXPECT_TRUE(logits.ok()) << logits.status().message();
    if (!logits.ok()) return 0;
    hash = hash_of(*logits, hash);
    begin += rows;
  }
  return hash;
}

std::map<std::string, std::string> read_goldens() {
  std::map<std::string, std::string> goldens;
  std::ifstream file(kFile);
  std::string isa, name, hash;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    if (words >> isa >> name >> hash) goldens[isa + " " + name] = hash;
  }
  return goldens;
}

TEST(LogitsHash, BitsAreThoseOfTheGoldens) {
  const std::map<std::string, std::string> goldens = read_goldens();
  const std::string isa = isa_name(current_isa());
  bool is_known = false;
  std::string lines;
  for (const Model& model : models()) {
    const TempDir dir;
    ASSERT_TRUE(write_toy_checkpoint(dir.path(), model.spec).ok());
    for (const Activation activation : {Activation::kF32, Activation::kBf16, Activation::kInt8}) {
      CpuDecoderOptions options;
      options.activation = activation;
      options.weights = model.weights;
      options.kv_blocks = 8;
      const std::string key =
          isa + " " + model.name + "-" + std::string(activation_name(activation));
      std::ostringstream hash;
      hash << std::hex << hash_of_passes(dir.path(), options);
      lines += key + " " + hash.str() + "\n";
      const auto golden = goldens.find(key);
      if (golden == goldens.end()) continue;
      is_known = true;
      EXPECT_EQ(hash.str(), golden->second) << key;
    }
  }
  if (!is_known) GTEST_SKIP() << "no goldens of this instruction set; its lines are\n" << lines;
  if (HasFailure()) GTEST_FAIL() << "lines of this build:\n" << lines;
}

}  // namespace
}  // namespace forerun
