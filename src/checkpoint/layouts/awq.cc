// AutoAWQ's layouts with 4 bits and zero points: versions "gemm", "gemv" and "gemv_fast".
#include <cmath>
#include <limits>
#include <string>

#include "base/lower_case.h"
#include "checkpoint/layouts/weight_layout.h"

namespace forerun {
namespace {

constexpr size_t kAwqQweight = 0, kAwqQzeros = 1, kAwqScales = 2;
constexpr int64_t kAwqWord = 8;  // quants per 32-bit word

int64_t eight_quants(const PartTensors&) { return kAwqWord; }

uint32_t nibble_of(uint32_t word, int64_t index) { return (word >> (4 * index)) & 15u; }

// "gemm": qweight [in][out / 8], qzeros [in / group][out / 8], scales [in / group][out].
constexpr LayoutPart kGemmParts[] = {
    {".qweight", "", PartRole::kNeeded, dtype_set({DType::kI32}),
     [](const PartTensors& layer, DType) {
       return Shapes{{layer.in, layer.out / kAwqWord}};
     }},
    {".qzeros", "", PartRole::kNeeded, dtype_set({DType::kI32}),
     [](const PartTensors& layer, DType) {
       return Shapes{{layer.groups, layer.out / kAwqWord}};
     }},
    {".scales", "", PartRole::kNeeded, kFloats,
     [](const PartTensors& layer, DType) {
       return Shapes{{layer.groups, layer.out}};
     }},
};

uint32_t gemm_nibble(const RawTensor& tensor, const PartTensors& layer, int64_t row, int64_t out) {
  const auto word = element_at<uint32_t>(tensor, row * (layer.out / kAwqWord) + out / kAwqWord);
  return nibble_of(word, kAwqNibbleOfColumn[out % kAwqWord]);
}

void gemm_quants(const PartTensors& layer, int64_t out, int64_t first, int64_t count, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<uint8_t>(gemm_nibble(layer[kAwqQweight], layer, first + i, out));
  }
}

int16_t gemm_zero(const PartTensors& layer, int64_t out, int64_t group) {
  return static_cast<int16_t>(gemm_nibble(layer[kAwqQzeros], layer, group, out));
}

float gemm_scale(const PartTensors& layer, int64_t out, int64_t group) {
  return float_at(layer[kAwqScales], group * layer.out + out);
}

// "gemv": qweight [out][in / 8] in order, qzeros [out][words], scales [out][8 * words]; the words
// of an output are padded for AutoAWQ's kernels.
int64_t zero_words(const PartTensors& layer) {
  const int64_t multiple = layer.group >= 128 ? 1 : 128 / layer.group;
  return divided(divided(layer.groups, kAwqWord), multiple) * multiple;
}

constexpr LayoutPart kGemvParts[] = {
    {".qweight", "", PartRole::kNeeded, dtype_set({DType::kI32}),
     [](const PartTensors& layer, DType) {
       return Shapes{{layer.out, layer.in / kAwqWord}};
     }},
    {".qzeros", "", PartRole::kNeeded, dtype_set({DType::kI32}),
     [](const PartTensors& layer, DType) {
       return Shapes{{layer.out, zero_words(layer)}};
     }},
    {".scales", "", PartRole::kNeeded, kFloats,
     [](const PartTensors& layer, DType) {
       return Shapes{{layer.out, zero_words(layer) * kAwqWord}};
     }},
};

void gemv_quants(const PartTensors& layer, int64_t out, int64_t first, int64_t count, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = out * layer.in + first + i;
    const auto word = element_at<uint32_t>(layer[kAwqQweight], index / kAwqWord);
    to[i] = static_cast<uint8_t>(nibble_of(word, index % kAwqWord));
  }
}

int16_t gemv_zero(const PartTensors& layer, int64_t out, int64_t group) {
  const auto word =
      element_at<uint32_t>(layer[kAwqQzeros], out * zero_words(layer) + group / kAwqWord);
  return static_cast<int16_t>(nibble_of(word, group % kAwqWord));
}

float gemv_scale(const PartTensors& layer, int64_t out, int64_t group) {
  return float_at(layer[kAwqScales], out * zero_words(layer) * kAwqWord + group);
}

// "gemv_fast": qweight i16 [out / 4][in], scales and qzeros f16 [8 * words][out]; a zero is stored
// as -(zero * scale).
constexpr LayoutPart kGemvFastParts[] = {
    {".qweight", "", PartRole::kNeeded, dtype_set({DType::kI16}),
     [](const PartTensors& layer, DType) {
       return Shapes{{layer.out / 4, layer.in}};
     }},
    {".qzeros", "", PartRole::kNeeded, dtype_set({DType::kF16}),
     [](const PartTensors& layer, DType) {
       return Shapes{{zero_words(layer) * kAwqWord, layer.out}};
     }},
    {".scales", "", PartRole::kNeeded, dtype_set({DType::kF16}),
     [](const PartTensors& layer, DType) {
       return Shapes{{zero_words(layer) * kAwqWord, layer.out}};
     }},
};

constexpr int64_t kFastChunk = 64;  // contiguous inputs of 4 outputs

int64_t four_outputs(const PartTensors&) { return 4; }
int64_t fast_chunk(const PartTensors&) { return kFastChunk; }

void gemv_fast_quants(const PartTensors& layer, int64_t out, int64_t first, int64_t count,
                      uint8_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t in = first + i;
    // In a run of 32 inputs, input 8a + 2b + c lies at 8b + 4c + a.
    const int64_t a = in % 32 / 8, b = in % 8 / 2, c = in % 2;
    const int64_t place = in / 32 * 32 + 8 * b + 4 * c + a;
    // A chunk has 64 inputs of 4 outputs, one output after another, in words of four.
    const int64_t within = out % 4 * kFastChunk + place % kFastChunk;
    const int64_t word = out / 4 * layer.in + place / kFastChunk * kFastChunk + within / 4;
    to[i] =
        static_cast<uint8_t>(nibble_of(element_at<uint16_t>(layer[kAwqQweight], word), within % 4));
  }
}

// Finds the integer in the stored product; returns false if it is none of 0 .. 15.
bool fast_zero(const PartTensors& layer, int64_t out, int64_t group, int16_t& zero) {
  const int64_t index = group * layer.out + out;
  const float scale = float_at(layer[kAwqScales], index);
  const float product = -float_at(layer[kAwqQzeros], index);
  const float ratio = scale == 0.0f && product == 0.0f ? 0.0f : product / scale;
  const float nearest = std::nearbyint(ratio);
  // The relative error of an f16 product is at most 1/2048; products below the normal range have a
  // larger one.
  const bool is_whole = nearest >= 0.0f && nearest <= 15.0f && std::abs(ratio - nearest) < 0.25f;
  zero = is_whole ? static_cast<int16_t>(nearest) : int16_t{0};
  return is_whole;
}

int16_t gemv_fast_zero(const PartTensors& layer, int64_t out, int64_t group) {
  int16_t zero;
  fast_zero(layer, out, group, zero);
  return zero;
}

// Returns NaN if the zero is invalid, so that a damaged file shows in its outputs.
float gemv_fast_scale(const PartTensors& layer, int64_t out, int64_t group) {
  int16_t zero;
  if (!fast_zero(layer, out, group, zero)) return std::numeric_limits<float>::quiet_NaN();
  return float_at(layer[kAwqScales], group * layer.out + out);
}

}  // namespace

const WeightLayout kAwqGemm = {.method = "AWQ",
                               .label = "awq",
                               .parts = kGemmParts,
                               .out_unit = eight_quants,
                               .in_unit = any_extent,
                               .quants = quants_by_row<gemm_quants>,
                               .zero = gemm_zero,
                               .scale = gemm_scale,
                               .scale_part = kAwqScales,
                               .is_awq_gemm = true};
const WeightLayout kAwqGemv = {.method = "AWQ",
                               .label = "awq-gemv",
                               .parts = kGemvParts,
                               .out_unit = eight_quants,
                               .in_unit = eight_quants,
                               .quants = quants_by_row<gemv_quants>,
                               .zero = gemv_zero,
                               .scale = gemv_scale,
                               .scale_part = kAwqScales,
                               .is_awq_gemm = false};
const WeightLayout kAwqGemvFast = {.method = "AWQ",
                                   .label = "awq-gemv-fast",
                                   .parts = kGemvFastParts,
                                   .out_unit = four_outputs,
                                   .in_unit = fast_chunk,
                                   .quants = quants_by_row<gemv_fast_quants>,
                                   .zero = gemv_fast_zero,
                                   .scale = gemv_fast_scale,
                                   .scale_part = kAwqScales,
                                   .is_awq_gemm = false};

void read_awq_fields(FieldReader& fields, QuantizationConfig& quantization) {
  const char* bits_field = fields.has("bits") ? "bits" : "w_bit";
  LayerScheme scheme;
  scheme.bits = static_cast<int32_t>(fields.integer(bits_field, 1, 64).value_or(4));
  if (scheme.bits != 4) {
    fields.refuse(bits_field, "4; " + std::string(kTakeTheOriginal), StatusCode::kUnsupported);
  }

  scheme.layout = &kAwqGemm;
  const std::string version = lower_case(fields.string("version").value_or("gemm"));
  if (version == "gemv") {
    scheme.layout = &kAwqGemv;
  } else if (version == "gemv_fast") {
    scheme.layout = &kAwqGemvFast;
  } else if (version != "gemm") {
    fields.refuse("version",
                  "\"gemm\", \"gemv\" or \"gemv_fast\"; quantize the original bf16 or f16 "
                  "checkpoint with AutoAWQ and \"version\": \"gemm\"",
                  StatusCode::kUnsupported);
  }
  const char* group_field = fields.has("group_size") ? "group_size" : "q_group_size";
  scheme.group_size = static_cast<int32_t>(fields.integer(group_field, -1, 1 << 20).value_or(128));
  if (scheme.group_size == 0) {
    fields.refuse(group_field, "-1 (one group) or a divisor of every layer's input width");
  }
  const bool is_small = scheme.group_size > 0 && scheme.group_size < 128;
  if (scheme.layout != &kAwqGemm && is_small && scheme.group_size != 32 &&
      scheme.group_size != 64) {
    fields.refuse(group_field,
                  "-1, 32, 64 or from 128 on, as AutoAWQ's version " + version + " writes");
  }
  if (!fields.boolean("zero_point").value_or(true)) {
    fields.refuse("zero_point",
                  "true, as AutoAWQ's layouts have it; " + std::string(kTakeTheOriginal),
                  StatusCode::kUnsupported);
  }
  read_left_out(fields, "modules_to_not_convert", quantization);
  quantization.schemes.push_back(std::move(scheme));
}

}  // namespace forerun
