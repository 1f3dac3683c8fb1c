// The memory layout of LinearInput, shared by the packer and linear/cpu/linear.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_weight.h"

namespace forerun {

// Grow-only memory aligned to a cache line.
class AlignedBuffer {
 public:
  bool fits(size_t bytes) const { return bytes <= capacity_; }
  void grow(size_t bytes);  // contents are lost
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t capacity_ = 0;
};

// The layouts of an input, all in one buffer. The activation, the weight formats and the
// instruction set determine which layouts exist; their offsets also depend on the shape.
struct InputLayout {
  int64_t groups = 0;       // groups of kInputGroup inputs
  int64_t float_bytes = 0;  // bytes per row; 0 if the layout is absent
  int64_t half_bytes = 0;
  int64_t digit_bytes = 0;
  int64_t input_bytes = 0;   // bytes of an input's digits
  int64_t scale_stride = 0;  // f32 scales and i32 sums: elements per row
  int32_t digit_count = 0;
  bool round_to_bf16 = false;
  bool has_sums_16 = false;
  bool has_negated = false;  // the sums also exist as floats
  DigitLayout digit_layout = DigitLayout::kFours;

  static InputLayout plan(int64_t rows, int64_t in, Activation activation, WeightFormats formats);
  size_t row_bytes() const;
};

// The beginnings of the layouts; null if a layout is absent. linear/cpu/kernels.h describes their M
// tiles.
struct InputRows {
  float* floats = nullptr;
  uint16_t* halves = nullptr;
  int8_t* digits = nullptr;
  float* scales = nullptr;      // [rows][scale_stride]: one per group
  int32_t* sums_16 = nullptr;   // [rows][8 * scale_stride]
  int32_t* sums_32 = nullptr;   // [rows][4 * scale_stride]
  int32_t* sums_64 = nullptr;   // [rows][2 * scale_stride]
  int32_t* sums_128 = nullptr;  // [rows][scale_stride]
  float* negated_16 = nullptr;  // [rows][8 * scale_stride]
  float* negated_32 = nullptr;  // [rows][4 * scale_stride]

  static InputRows place(std::byte* buffer, const InputLayout& layout, int64_t row_count);
};

struct LinearInput::Storage {
  AlignedBuffer buffer;
  InputLayout layout;
  InputRows at;
  Activation activation = Activation::kF32;
  MTiles m_tiles = {};  // M tiles of floats
  MTiles half_m_tiles = {};
  MTiles digit_m_tiles = {};
  int64_t in = 0;
  std::span<const int32_t> order;
};

}  // namespace forerun
