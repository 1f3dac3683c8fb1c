// Toy checkpoints for tests: any family, dtype and layout, with random weights that are a pure
// function of (seed, tensor name, element), so the same spec gives the same files everywhere.
// Linked by tests only (forerun_checkpoint_testing).
//
// Thread rules: free functions are pure apart from the files they write.
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

  DType dtype = DType::kF32;  // kF32, kBf16 or kF16; under AWQ of everything but linear layers

  enum class Quantization : uint8_t {
    kNone,
    kAwq,             // linear layers as AWQ triples
    kAwqDequantized,  // the twin of kAwq: the same values, dequantized to f32 without rounding
  };
  Quantization quantization = Quantization::kNone;
  int32_t awq_group_size = 32;  // divides every layer's inputs; -1 is one group
  DType awq_scale_dtype = DType::kF16;

  const ToyLayout* layout = nullptr;  // linear layers in it; in place of `quantization`

  // Not empty: a GGUF file (gguf/toy_gguf.h) whose matrices have these formats in turn; only for
  // callers that write one.
  std::vector<BlockFormat> gguf_formats = {};

  uint64_t seed = 1;
  // Blends noise of another seed in, so that a draft resembles its target: weights become
  // w + perturbation * w'; under AWQ a nibble is drawn anew with this probability.
  float perturbation = 0.0f;
  uint64_t perturbation_seed = 2;
  // Standard deviation of the logits, roughly; more makes the distribution more peaked.
  float logit_std = 2.0f;

  int32_t num_shards = 1;             // more than one writes model.safetensors.index.json
  bool transformers5_config = false;  // rope_parameters and dtype in place of the older fields
  bool bare_names = false;            // tensor names without "model." in front
  std::vector<int32_t> nan_embeddings = {};  // tokens whose embedding is NaN

  // An EAGLE-3 head: its layers have the shape above, vocab_size counts the target's tokens.
  // draft_vocab_size 0: the same; if smaller, row i stands for token i * vocab_size /
  // draft_vocab_size.
  enum class HeadLayout : uint8_t { kSpecForge, kAngelSlim, kSpeculators };
  HeadLayout head_layout = HeadLayout::kSpecForge;
  std::optional<Eagle3Config> eagle3;
};

// A tensor as it goes into a safetensors file.
struct StoredTensor {
  std::string name;
  std::string dtype;  // the format's spelling, e.g. "BF16"
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

// The parts of a toy checkpoint, for tests that spoil one before writing it.
std::vector<StoredTensor> toy_tensors(const ToySpec& spec);
std::string toy_config_json(const ToySpec& spec);

// Writes the tensors in the given order.
Status write_safetensors(const std::filesystem::path& file, std::span<const StoredTensor> tensors);
Status write_text(const std::filesystem::path& file, const std::string& text);

// What a toy head's spec means: draft_vocab_size set.
Eagle3Config toy_eagle3(const ToySpec& spec);

// Creates `dir` and writes config.json, generation_config.json and the weights into it; no
// tokenizer. Files of the same names are overwritten.
Status write_toy_checkpoint(const std::filesystem::path& dir, const ToySpec& spec);

// A fresh directory that is removed, with everything in it, at destruction.
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
