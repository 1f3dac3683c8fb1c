// A table of the formats of linear weights, with all properties that other code needs. Each
// format's own file beside this one packs and dequantizes it.
//
// All functions are pure.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/linear/linear_weight.h"

namespace forerun {

enum class WeightKind : uint8_t {
  kDense,     // floats in the caller's memory: LinearKernels::dense
  kPairs,     // pairs of bf16: LinearKernels::bf16_pairs
  kIntegers,  // integers with scales: integer_kernels()
};

struct WeightFormatInfo {
  WeightFormat format;
  const char* name;
  WeightKind kind;
  int32_t kernel;  // index among the kernels of the kind
  // Writes all `in` weights of output channel `out`.
  void (*dequantize)(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row);
};

// Returns all formats, in the order of WeightFormat.
std::span<const WeightFormatInfo> weight_format_table();
const WeightFormatInfo& weight_format_info(WeightFormat format);

// Returns the bytes of a block of 16 output channels with `in` inputs, in a repacked format.
// `chunk` is the number of inputs that share a scale, only for int4 and int8_groups.
int64_t block_bytes(WeightFormat format, int64_t in, int64_t chunk = kInputGroup);
// Returns the LinearWeight::bytes() of a weight [out][in]. FP8's scales are not included.
int64_t weight_bytes(WeightFormat format, int64_t out, int64_t in, int64_t chunk = kInputGroup);

void dequantize_f32(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row);
void dequantize_bf16(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row);
void dequantize_f16(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row);
void dequantize_fp8(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row);
void dequantize_int8(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row);
void dequantize_int4(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row);
void dequantize_int8_groups(const LinearWeight::Storage& storage, int64_t out, int64_t in,
                            float* row);
void dequantize_bf16_pairs(const LinearWeight::Storage& storage, int64_t out, int64_t in,
                           float* row);

}  // namespace forerun
