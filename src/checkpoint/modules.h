// The modules of a decoder: the kind of each, its shape, its division among devices, and its name
// in every file format. Checks, loaders, shards, memory plans, the roofline and `forerun inspect`
// use this list; no other code spells a module's name.
//
// All functions are pure.
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
  kTapNorms,  // only in an EAGLE-3 head, like the next two: the norm of all taps side by side
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

// The operation of a module on a row.
enum class ModuleType : uint8_t { kEmbedding, kNorm, kLinear, kHead };

// The axis along which a group's devices divide a module; with kWhole each has all of it.
enum class ShardAxis : uint8_t { kWhole, kHeads, kKvHeads, kMlp, kVocab };

struct ModuleId {
  ModuleKind kind;
  int32_t layer = -1;  // -1 for a module outside the layers
  bool operator==(const ModuleId&) const = default;
};

struct Module {
  ModuleId id;
  ModuleType type;
  int64_t out;          // rows of the weight; a norm's width
  int64_t in;           // columns of the weight; 0 for a norm, whose weight has one dimension
  bool has_bias;        // [out]
  ShardAxis axis;       // divides the outputs, or
  bool divides_inputs;  // divides the inputs: devices add up their outputs

  // Returns [out][in], or [out] for a norm: the shape of an unquantized weight.
  std::vector<int64_t> shape() const;
};

// Returns the embedding, the tap modules of an EAGLE-3 head, the layers in order, the final norm,
// and the head (absent if tied). An EAGLE-3 head has neither embedding nor LM head if it uses the
// target's.
std::vector<Module> decoder_modules(const ModelConfig& config);

// Returns the average bytes per weight of a module with a scheme: its quant and its share of a
// 32-bit scale and zero. Returns 0 for a module without one.
double bytes_per_weight(const QuantizationConfig& quantization, const Module& module);

enum class ModuleNaming : uint8_t { kHuggingFace, kGguf };

// Returns "model.layers.3.self_attn.q_proj" or "blk.3.attn_q".
std::string module_name(ModuleId id, ModuleNaming naming);

// Return the names of a module's tensors in Hugging Face's files.
std::string weight_name(ModuleId id);
std::string bias_name(ModuleId id);

// The module of a tensor, and the rest of the tensor's name: "weight" of "blk.3.attn_q.weight".
// Nothing if the naming has no such module.
struct NamedPart {
  ModuleId id;
  std::string_view part;
};
std::optional<NamedPart> find_module(std::string_view tensor, ModuleNaming naming);

}  // namespace forerun
