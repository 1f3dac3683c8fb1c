// One table of functions an instruction set: what linear/cpu/linear.cc calls. The functions work on
// plain pointers and know nothing of teams; linear/cpu/tiles.inc implements them over a vector
// type.
//
// Two families, both with a fixed order of summation per (row, output channel):
//   dense   f32, bf16, f16 weights in place, [out][in]: lanes run over the inputs, one
//           accumulator a (row, out) through all inputs, lanes summed at the end in a fixed tree.
//   packed  int8 and int4 weights (linear_weight.h): lanes run over output channels; products are
//           summed exactly in integers over a chunk of up to 128 inputs, chunks in f32 in order.
//           bf16 in pairs of inputs: lanes over channels as well, one accumulator a (row, channel).
#pragma once

#include <cstdint>

#include "kernels/isa.h"

namespace forerun {

// Rows of a LinearInput are laid out in blocks of up to `row_block` rows (halves and digits: of
// `tile_rows` where there are tiles) that a register tile takes together: the rows of a block
// alternate vector by vector (floats, halves) or four inputs by four (digits), so that a tile reads
// one forward stream at constant offsets. All blocks of an input have the same height, give or take
// one row, the higher ones first: 9 rows are 5 and 4, not 8 and 1. The block of the rows from r on
// starts r row sizes into the layout.
struct RowBlocks {
  int64_t rows;
  int64_t count;
  // Always inlined: files compiled for different instruction sets must not share a copy.
  [[gnu::always_inline]] int64_t begin(int64_t block) const {
    const int64_t extra = rows % count;
    return block * (rows / count) + (block < extra ? block : extra);
  }
};

// Where a group of kInputGroup inputs of one row goes; null: not wanted. Inputs past the end are
// zero.
struct PackedGroup {
  float* floats;     // vectors of float_lanes, `block_rows` vectors apart
  uint16_t* halves;  // bf16 bits in order, 32 together, `dot_block_rows` times 32 apart
  int8_t* digits;    // four inputs' digits together, `dot_block_rows` times that apart
  int64_t block_rows;
  int64_t dot_block_rows;
  // Digits lie as tiles take them instead: 64 inputs' high digits in order, their low digits
  // `dot_block_rows` times 64 bytes further on, the next 64 inputs as far on again.
  bool digit_tiles;
  float* scale;       // [1] of the digits
  int32_t* sums_32;   // [4] sums of the quantized inputs over 32, 64 and 128 inputs, negated, in
  int32_t* sums_64;   // [2] two 16-bit halves: sum = 128 * high + low, low in [0, 128)
  int32_t* sums_128;  // [1]
  bool round_to_bf16;
  // Quantized inputs: 1 = one int8 an input, absmax / 127. 2 = 16-bit block fixed point in two
  // balanced base-256 digits, per four inputs {4 high, 4 low}; the unit is 2^-13 times the power of
  // two at or below the group's largest magnitude, so a bf16 input is exact unless it is more than
  // 2^6 below that, and off by at most 2^-14 of that power of two otherwise.
  int32_t digit_count;
};

// sums[row][out] = x[row] . w[out] for `rows` rows in `row_blocks` blocks and `outs` channels.
struct DenseTask {
  const char* w;
  int64_t w_stride;  // bytes from one output channel to the next
  const char* x;     // floats: the first block
  int64_t x_row_bytes;
  int64_t in;
  RowBlocks blocks;
  int64_t outs;
  float* sums;
  int64_t sums_stride;  // floats
  float* scratch;       // dense_scratch_floats(rows, outs) floats, 64-byte aligned
};

// The same for `out_blocks` blocks of 16 channels.
struct PackedTask {
  const char* w;
  int64_t block_bytes;
  int64_t chunk;
  int64_t padded_in;
  const char* x;  // digits, halves (pairs) or floats (Activation::kF32): the first block
  int64_t x_row_bytes;
  const float* scales;
  int64_t scales_stride;
  const int32_t* input_sums;  // over `chunk` inputs
  int64_t input_sums_stride;
  RowBlocks blocks;
  int64_t out_blocks;
  float* sums;
  int64_t sums_stride;
};

// y[row][out] = round(residual + (sums + bias)); null: without.
struct StoreTask {
  const float* sums;
  int64_t sums_stride;
  int64_t rows;
  int64_t outs;
  float* y;
  int64_t y_stride;
  const float* bias;      // [outs]
  const float* residual;  // stride of y
  bool round_to_bf16;
};

// y = silu(gate + gate_bias) * (up + up_bias).
struct SwigluTask {
  const float* gate;
  const float* up;
  int64_t sums_stride;
  int64_t rows;
  int64_t outs;
  float* y;
  int64_t y_stride;
  const float* gate_bias;
  const float* up_bias;
};

struct LinearKernels {
  const char* name;
  // `floats` are kept in chunks of 2 * float_lanes inputs, the even ones first.
  int32_t float_lanes;
  int32_t row_block;
  // Where halves and digits are multiplied in tiles of rows (AMX): the rows of a tile, and of a
  // block of those layouts. 0: register tiles of row_block rows take all layouts.
  int32_t tile_rows;
  // From so many rows on tiles take digits, by format: [int8, int4]; row_block + 1 at most. Fewer
  // keep them for `packed`, with the same bits: integers are exact either way.
  int32_t min_tile_rows[2];
  void (*pack_group)(const float* x, int64_t count, const PackedGroup& out);
  void (*dense_f32)(const DenseTask&);
  void (*dense_f16)(const DenseTask&);
  void (*dense_bf16)(const DenseTask&);
  // bf16 weights in pairs meet bf16 inputs (`halves`) in a bf16 dot instruction; null: there is
  // none.
  void (*bf16_pairs)(const PackedTask&);
  void (*packed[2][2])(const PackedTask&);       // [int8, int4][digit_count - 1]
  void (*tile_packed[2][2])(const PackedTask&);  // of digit tiles; null: there are no tiles
  void (*packed_float[2])(const PackedTask&);
  void (*store)(const StoreTask&);
  void (*swiglu)(const SwigluTask&);
};

constexpr int64_t dense_scratch_floats(int64_t rows, int64_t outs) { return rows * outs * 16; }

extern const LinearKernels kLinearScalar;
#if defined(__x86_64__)
extern const LinearKernels kLinearAvx2;
extern const LinearKernels kLinearAvx512;
extern const LinearKernels kLinearAvx512Bf16;
extern const LinearKernels kLinearAmx;
extern const LinearKernels kLinearAmxTwin;  // the same bits without tile registers
#endif

// The table of current_isa(), or the one a test put in its place (null: back to the default; not
// while a kernel runs, and inputs must be packed anew).
const LinearKernels& linear_kernels();
void replace_linear_kernels_for_test(const LinearKernels* kernels);

}  // namespace forerun
