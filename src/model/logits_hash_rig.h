// Hashes of the logits of a few forward passes of toy models, and the goldens to compare them with
// (tests/goldens/logits-hashes.txt). A commit that changes bits on purpose replaces the lines of
// that file, which a failure prints, and says so.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/testing.h"
#include "model/testing.h"

namespace forerun {

struct HashedModel {
  const char* name;
  ToySpec spec;
  WeightOverride weights = WeightOverride::kAsStored;
};

inline std::vector<HashedModel> hashed_models() {
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

// Returns the FNV-1a hash of the bits, in order.
inline uint64_t hash_of(const std::vector<float>& values, uint64_t hash) {
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    for (int byte = 0; byte < 4; ++byte)
      hash = (hash ^ (bits >> (8 * byte) & 0xff)) * 0x100000001b3;
  }
  return hash;
}

// Returns the hash of the logits of a prompt of 100 rows, then of Steps of 1, 8 and 33 rows. On an
// error it fails the test and returns 0. The decoder must have at least 8 KV blocks.
inline uint64_t hash_of_passes(Decoder& decoder) {
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

// A comparison of hashes with the goldens of one instruction set or GPU architecture.
class LogitsHashes {
 public:
  // `target` is a name such as "avx2" or "sm90".
  explicit LogitsHashes(std::string target) : target_(std::move(target)) {
    std::ifstream file(FORERUN_SOURCE_DIR "/tests/goldens/logits-hashes.txt");
    std::string isa, name, hash;
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with('#')) continue;
      std::istringstream words(line);
      if (words >> isa >> name >> hash) goldens_[isa + " " + name] = hash;
    }
  }
  void expect(const std::string& name, uint64_t hash) {
    const std::string key = target_ + " " + name;
    std::ostringstream text;
    text << std::hex << hash;
    lines_ += key + " " + text.str() + "\n";
    const auto golden = goldens_.find(key);
    if (golden == goldens_.end()) return;
    is_known_ = true;
    EXPECT_EQ(text.str(), golden->second) << key;
  }
  // Returns whether the goldens have the target.
  bool is_known() const { return is_known_; }
  // Returns this build's lines for the goldens.
  const std::string& lines() const { return lines_; }

 private:
  const std::string target_;
  std::map<std::string, std::string> goldens_;
  std::string lines_;
  bool is_known_ = false;
};

}  // namespace forerun
