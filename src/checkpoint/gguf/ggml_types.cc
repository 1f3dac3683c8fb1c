#include "checkpoint/gguf/ggml_types.h"

#include <string_view>
#include <utility>

#include "checkpoint/blocks/block_format.h"

namespace forerun {
namespace {

struct PlainType {
  uint32_t type;
  int64_t bytes;
  std::optional<DType> dtype;
};

constexpr PlainType kPlainTypes[] = {
    {0, 4, DType::kF32},  {1, 2, DType::kF16},  {24, 1, DType::kI8},   {25, 2, DType::kI16},
    {26, 4, DType::kI32}, {27, 8, DType::kI64}, {28, 8, std::nullopt}, {30, 2, DType::kBf16},
};

// Names by type number. ggml has removed 4 and 5, 31 to 33 and 36 to 38.
constexpr std::string_view kNames[] = {
    "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
    "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
    "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
    "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
    "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
    "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",    "Q1_0",
};
static_assert(std::size(kNames) == 42);

// Reasons why types with these prefixes are not supported; the first match applies.
constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
    {"IQ4_NL_", "it is IQ4_NL repacked for one kind of processors, which ggml has given up"},
    {"Q4_0_", "it is Q4_0 repacked for one kind of processors, which ggml has given up"},
    {"IQ", "its code books have no decoder here"},
    {"TQ", "it is for models that were trained with three values a weight"},
    {"Q1_0", "it is for models that were trained with two values a weight"},
    {"NVFP4", "its scales have no decoder here"},
    {"Q4_2", "ggml has given it up"},
    {"Q4_3", "ggml has given it up"},
};

const PlainType* find_plain_type(uint32_t type) {
  for (const PlainType& candidate : kPlainTypes) {
    if (candidate.type == type) return &candidate;
  }
  return nullptr;
}

}  // namespace

std::string ggml_type_name(uint32_t type) {
  if (type < std::size(kNames)) return std::string(kNames[type]);
  return "type " + std::to_string(type);
}

std::string way_out_for_ggml_type(std::string_view name) {
  std::string way_out;
  for (const auto& [beginning, reason] : kReasons) {
    if (!name.starts_with(beginning)) continue;
    way_out = std::string(reason) + ": ";
    break;
  }
  return way_out +
         "take the model's file in one of these, or make one: llama-quantize --allow-requantize "
         "FILE OUT Q4_K_M";
}

std::optional<GgmlLayout> ggml_layout(uint32_t type) {
  if (const PlainType* const plain = find_plain_type(type)) {
    return GgmlLayout{.weights = 1, .bytes = plain->bytes};
  }
  if (const BlockFormatInfo* const format = find_ggml_block_format(type)) {
    return GgmlLayout{.weights = format->weights, .bytes = format->bytes};
  }
  return std::nullopt;
}

std::optional<uint32_t> ggml_type_of(DType dtype) {
  for (const PlainType& plain : kPlainTypes) {
    if (plain.dtype == dtype) return plain.type;
  }
  return std::nullopt;
}

std::optional<DType> ggml_dtype(uint32_t type) {
  const PlainType* const plain = find_plain_type(type);
  return plain == nullptr ? std::nullopt : plain->dtype;
}

}  // namespace forerun
