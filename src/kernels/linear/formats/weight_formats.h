// The formats of linear weights: one line of a table says all that code outside of a format's own
// files asks. Each format's file beside this one packs and dequantizes it.
//
// Thread rules: pure functions.
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
  int32_t kernel;  // place among the kernels of the kind
  // Writes all `in` weights of output channel `out`.
  void (*dequantize)(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row);
};

// All formats, in the order of WeightFormat.
std::span<const WeightFormatInfo> weight_format_table();
const WeightFormatInfo& weight_format_info(WeightFormat format);

// Bytes of a block of 16 output channels with `in` inputs, in a format that is repacked. `chunk`:
// the inputs that share a scale, of int4 and int8_groups alone.
int64_t block_bytes(WeightFormat format, int64_t in, int64_t chunk = kInputGroup);
// Bytes of a weight [out][in]: what LinearWeight::bytes() is once it is made. FP8's scales come on
// top.
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
