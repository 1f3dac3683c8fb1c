// FP8 layouts: e4m3 codes with a scale per tensor, per output, or per block of 128 x 128.
#include <string>

#include "checkpoint/layouts/weight_layout.h"

namespace forerun {
namespace {

constexpr size_t kFp8Scale = 1;

constexpr LayoutPart kFp8Parts[] = {
    {".weight", "", PartRole::kNeeded, dtype_set({DType::kF8E4M3}),
     [](const PartTensors& layer, DType) {
       return Shapes{{layer.out, layer.in}};
     }},
    {".weight_scale", ".weight_scale_inv", PartRole::kNeeded, kFloats,
     [](const PartTensors& layer, DType) {
       if (layer.block != 0) {
         return Shapes{{divided(layer.out, layer.block), divided(layer.in, layer.block)}};
       }
       return Shapes{{}, {1}, {1, 1}, {layer.out, 1}, {layer.out}};
     }},
    {".weight_zero_point", "", PartRole::kZeros,
     dtype_set({DType::kF8E4M3, DType::kI8, DType::kF16, DType::kBf16, DType::kF32}),
     [](const PartTensors& layer, DType) {
       return Shapes{{}, {1}, {1, 1}, {layer.out, 1}, {layer.out}};
     }},
    {".input_scale", "", PartRole::kNotRead, 0, nullptr},
    {".input_zero_point", "", PartRole::kNotRead, 0, nullptr},
    {".output_scale", "", PartRole::kNotRead, 0, nullptr},
};

float scale_of_block(const PartTensors& layer, int64_t out, int64_t in_block) {
  const RawTensor& scale = layer[kFp8Scale];
  if (layer.block != 0) {
    return float_at(scale, out / layer.block * divided(layer.in, layer.block) + in_block);
  }
  const bool is_tensors = scale.bytes.size() == dtype_bytes(scale.dtype);
  return float_at(scale, is_tensors ? 0 : out);
}

}  // namespace

const WeightLayout kScaledFloats = {.method = "FP8",
                                    .label = "fp8",
                                    .parts = kFp8Parts,
                                    .out_unit = any_extent,
                                    .in_unit = any_extent,
                                    .quants = nullptr,
                                    .zero = nullptr,
                                    .scale = scale_of_block,
                                    .scale_part = kFp8Scale,
                                    .is_awq_gemm = false};

void read_fp8_fields(FieldReader& fields, QuantizationConfig& quantization) {
  LayerScheme scheme{.layout = &kScaledFloats, .bits = 8, .group_size = 0, .has_zeros = false};
  if (fields.string("fmt").value_or("e4m3") != "e4m3") {
    fields.refuse("fmt", "\"e4m3\"; " + std::string(kTakeTheOriginal), StatusCode::kUnsupported);
  }
  // This field says how to round activations, which this engine does not do.
  fields.choice("activation_scheme", {"dynamic", "static"});
  if (const auto block = fields.integers("weight_block_size", 1, 1 << 20)) {
    if (*block != std::vector<int64_t>{128, 128}) {
      fields.refuse("weight_block_size",
                    "[128, 128], or null for scales of outputs or of the whole tensor; " +
                        std::string(kTakeTheOriginal),
                    StatusCode::kUnsupported, list_text(*block));
    }
    scheme.block_size = 128;
  }
  read_left_out(fields, "modules_to_not_convert", quantization);
  read_left_out(fields, "ignored_layers", quantization);
  quantization.schemes.push_back(std::move(scheme));
}

}  // namespace forerun
