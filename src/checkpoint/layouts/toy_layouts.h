// Linear layers of toy checkpoints in every layout of this folder, written bit by bit with formulas
// that share no code with the readers. Only tests link this file (forerun_checkpoint_testing).
//
// The table is constant; all functions are pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/testing.h"

namespace forerun {

enum class ToyPacking : uint8_t { kGemm, kGemv, kGemvFast, kGptq, kPacked, kBytes, kFp8 };

// A layout with its options, for ToySpec::layout.
struct ToyLayout {
  const char* name;
  ToyPacking packing;
  int bits = 4;
  int64_t group = 64;             // 0 for all inputs; kFp8: blocks of 128
  bool has_zeros = true;          // if false, zeros are in the middle, without a tensor
  bool has_middle_zeros = false;  // a tensor of zeros that are all in the middle
  int added_zero = 0;             // GPTQ stores zeros minus one
  bool has_order = false;         // inputs are assigned to groups by a tensor
  const char* scale_dtype = "F16";
  const char* config;             // quantization_config
  int64_t scale_rank = 2;         // 2: one scale per output; 0 and 1: one per tensor
  const char* expected;           // name of the format
  bool has_byte_zeros = false;    // older compressed-tensors
  bool is_inverse_name = false;   // weight_scale_inv
  bool has_short_scales = false;  // f32 scales that fit into bf16
};

// Returns every layout of weight_layouts() with every option that its kernel formats depend on. A
// test fails if a layout has no entry here.
std::span<const ToyLayout> toy_layouts();
const ToyLayout& toy_layout(std::string_view name);

// A layer before it is packed.
struct ToyLayer {
  int64_t out, in, group, groups;  // kFp8: groups are blocks of inputs
  uint64_t seed;
  float perturbation;  // share of quants drawn by another seed
  uint64_t perturbed_seed;
  ToyLayout layout;

  uint32_t quant(int64_t o, int64_t i) const;  // kFp8: a code that is a number
  int zero(int64_t o, int64_t g) const;
  float scale(int64_t o, int64_t g) const;  // kFp8: scale of a block of outputs and inputs
  int64_t group_of(int64_t i) const;
  float value(int64_t o, int64_t i) const;
};

// Returns the layer of spec.layout. `weight_name` is a name such as
// "model.layers.0.mlp.up_proj.weight".
ToyLayer toy_layer(const ToySpec& spec, std::string_view weight_name, int64_t out, int64_t in);
// Writes the layer's tensors, under the module's name.
void write_toy_layer(const std::string& module, const ToyLayer& layer,
                     std::vector<StoredTensor>& to);

}  // namespace forerun
