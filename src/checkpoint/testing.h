// Toy checkpoints for tests: any family, dtype and layout. Their random weights are a pure function
// of (seed, tensor name, element), so the same spec gives the same files everywhere. Only tests
// link this file (forerun_checkpoint_testing).
//
// Free functions are pure, except for the files that they write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/blocks/block_format.h"
#include "checkpoint/model_config.h"
#include "forerun/status.h"

namespace forerun {

struct ToyLayout;  // layouts/toy_layouts.h

struct ToySpec {
  std::string family = "llama";  // or "qwen2", "qwen3", "mistral"
  int32_t num_layers = 2;
  int32_t hidden_size = 64;
  int32_t intermediate_size = 128;
  int32_t num_heads = 4;
  int32_t num_kv_heads = 2;
  std::optional<int32_t> head_dim;  // hidden_size / num_heads if unset
  int32_t vocab_size = 256;
  std::optional<int32_t> live_vocab_size;
  int32_t max_position = 512;  // written as max_position_embeddings
  bool tied = false;
  bool attention_bias = false;  // llama and qwen3
  bool mlp_bias = false;        // llama
  float rms_norm_eps = 1e-5f;
  float rope_theta = 10000.0f;
  RopeScaling rope_scaling;
  // Window in tokens, 0 for none. Mistral: every layer; Qwen: layers from max_window_layers on.
  int32_t sliding_window = 0;
  int32_t max_window_layers = 0;
  std::vector<int32_t> eos_token_ids = {0};

  // KF32, kBf16 or kF16; with AWQ only of other weights than linear layers.
  DType dtype = DType::kF32;

  enum class Quantization : uint8_t {
    kNone,
    kAwq,             // linear layers as AWQ triples
    kAwqDequantized,  // the values of kAwq, dequantized to f32 without rounding
  };
  Quantization quantization = Quantization::kNone;
  int32_t awq_group_size = 32;  // divides every layer's inputs; -1 for one group
  DType awq_scale_dtype = DType::kF16;

  const ToyLayout* layout = nullptr;  // layout of linear layers; replaces `quantization`

  // If not empty, a GGUF file (gguf/toy_gguf.h) whose matrices have these formats in turn; only for
  // callers that write one.
  std::vector<BlockFormat> gguf_formats = {};

  uint64_t seed = 1;
  // The share of noise from another seed, so that a draft resembles its target: weights become w +
  // perturbation * w'; with AWQ a nibble is drawn anew with this probability.
  float perturbation = 0.0f;
  uint64_t perturbation_seed = 2;
  // Approximate standard deviation of the logits; a larger one makes the distribution more peaked.
  float logit_std = 2.0f;

  int32_t num_shards = 1;                    // more than one writes model.safetensors.index.json
  bool transformers5_config = false;         // rope_parameters and dtype replace the older fields
  bool bare_names = false;                   // tensor names without "model." in front
  std::vector<int32_t> nan_embeddings = {};  // tokens with NaN embeddings

  // The layout of an EAGLE-3 head: its layers have the shape above, and vocab_size counts the
  // target's tokens. With draft_vocab_size 0 its LM head has the same number of rows; if it is
  // smaller, row i stands for token i * vocab_size / draft_vocab_size.
  enum class HeadLayout : uint8_t { kSpecForge, kAngelSlim, kSpeculators };
  HeadLayout head_layout = HeadLayout::kSpecForge;
  std::optional<Eagle3Config> eagle3;
};

// A tensor for a safetensors file.
struct StoredTensor {
  std::string name;
  std::string dtype;  // the format's spelling, e.g. "BF16"
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

// Return the parts of a toy checkpoint, for tests that corrupt one before they write it.
std::vector<StoredTensor> toy_tensors(const ToySpec& spec);
std::string toy_config_json(const ToySpec& spec);

// Writes the tensors in the given order.
Status write_safetensors(const std::filesystem::path& file, std::span<const StoredTensor> tensors);
Status write_text(const std::filesystem::path& file, const std::string& text);

// Returns the head config of a toy head's spec, with draft_vocab_size set.
Eagle3Config toy_eagle3(const ToySpec& spec);

// Creates `dir` and writes config.json, generation_config.json and the weights to it, without a
// tokenizer. Overwrites files with these names.
Status write_toy_checkpoint(const std::filesystem::path& dir, const ToySpec& spec);

// A new directory that its destructor removes, with all its contents.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace forerun
