// The modules of a decoder: what each is, its shape, how devices divide it, and its name in every
// file format. Checks, loaders, shards, memory plans, the roofline and `forerun inspect` walk this
// list; a module's name is spelled nowhere else.
//
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_config.h"

namespace forerun {

enum class ModuleKind : uint8_t {
  kEmbedding,
  kTapNorms,  // in an EAGLE-3 head, like the next two: the norm of all taps side by side
  kTapNormLow,
  kTapNormMiddle,
  kTapNormHigh,
  kTapProjection,
  kInputNorm,
  kHiddenNorm,  // norm of the feature, in the first layer of an EAGLE-3 head
  kQ,
  kK,
  kV,
  kQNorm,
  kKNorm,
  kO,
  kPostAttentionNorm,
  kGate,
  kUp,
  kDown,
  kFinalNorm,
  kHead,
};

// What a module does with a row.
enum class ModuleType : uint8_t { kEmbedding, kNorm, kLinear, kHead };

// What the devices of a group divide a module by; kWhole: each has all of it.
enum class ShardAxis : uint8_t { kWhole, kHeads, kKvHeads, kMlp, kVocab };

struct ModuleId {
  ModuleKind kind;
  int32_t layer = -1;  // -1: the module belongs to no layer
  bool operator==(const ModuleId&) const = default;
};

struct Module {
  ModuleId id;
  ModuleType type;
  int64_t out;          // rows of the weight; a norm's width
  int64_t in;           // columns of the weight; 0 for a norm, whose weight has one dimension
  bool has_bias;        // [out]
  ShardAxis axis;       // divides the outputs, or
  bool divides_inputs;  // the inputs: devices add up their outputs

  // [out][in], or [out] for a norm: the shape of an unquantized weight.
  std::vector<int64_t> shape() const;
};

// Embedding first, then what a head makes of taps, the layers in order, final norm, head (absent
// where it is tied). An EAGLE-3 head has neither embedding nor head where it uses the target's.
std::vector<Module> decoder_modules(const ModelConfig& config);

// The bytes of a weight of a module that has a scheme: its quant and its share of a 32-bit scale
// and zero. 0 where it has none.
double bytes_per_weight(const QuantizationConfig& quantization, const Module& module);

enum class ModuleNaming : uint8_t { kHuggingFace, kGguf };

// "model.layers.3.self_attn.q_proj" or "blk.3.attn_q".
std::string module_name(ModuleId id, ModuleNaming naming);

// Names of a module's tensors in Hugging Face's files.
std::string weight_name(ModuleId id);
std::string bias_name(ModuleId id);

// The module that a tensor belongs to, and what is left of its name: "weight" of
// "blk.3.attn_q.weight". Nothing where the naming has no such module.
struct NamedPart {
  ModuleId id;
  std::string_view part;
};
std::optional<NamedPart> find_module(std::string_view tensor, ModuleNaming naming);

}  // namespace forerun
