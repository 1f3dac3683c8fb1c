// Tables of kernels, one per instruction set, which linear/cpu/linear.cc calls. The functions work
// on plain pointers and do not know teams; linear/cpu/tiles.inc implements them over a vector type.
//
// There are two families, both with a fixed order of summation per (row, output channel):
//   dense   f32, bf16, f16, FP8 weights in place, [out][in]: lanes run over the inputs, with one
//           accumulator per (row, out) for all inputs; its lanes are summed at the end in a fixed
//           tree.
//   packed  integer weights (linear_weight.h): lanes run over output channels; products are summed
//           exactly in integers over a chunk of up to 128 inputs, chunks in f32 in order.
//           bf16 pairs: lanes run over channels too, with one accumulator per (row, channel).
#pragma once

#include <cstdint>

#include "base/sanitized.h"
#include "kernels/isa.h"
#include "kernels/linear/formats/grouped_formats.h"

namespace forerun {

// True if kernels of grouped formats multiply fewer rows at a time, which compiles in a fraction of
// the time: sanitizers take minutes otherwise, the quick build (cmake/ForerunQuick.cmake) half a
// minute.
#ifdef FORERUN_SMALL_GROUPED_TILES
inline constexpr bool kSmallGroupedTiles = true;
#else
inline constexpr bool kSmallGroupedTiles = kSanitized;
#endif

// The M tiles of a LinearInput: groups of up to `m_tile_rows` rows (`tile_rows` for halves and
// digits that AMX tiles multiply), which a register tile multiplies together. The rows of an M tile
// alternate after each vector (floats, halves) or after four inputs (digits), so that a tile reads
// memory sequentially at constant offsets. The heights of an input's M tiles differ by at most one
// row, and the higher ones come first: 9 rows are 5 and 4, not 8 and 1. The M tile whose first row
// is r starts r row sizes into the layout.
struct MTiles {
  int64_t rows;
  int64_t count;
  // Always inlined, because files compiled for different instruction sets must not share a copy.
  [[gnu::always_inline]] int64_t begin(int64_t m_tile) const {
    const int64_t extra = rows % count;
    return m_tile * (rows / count) + (m_tile < extra ? m_tile : extra);
  }
};

// The layout of the digits of quantized inputs.
enum class DigitLayout : uint8_t {
  // Digits of four inputs are adjacent; the next four begin `digit_m_tile_height` times their size
  // later.
  kFours,
  // An input's digits form one 16-bit word; within every four inputs the order is 0, 2, 1, 3.
  kWords,
  // For AMX tiles of bytes: the high digits of 64 inputs in order, their low digits
  // `digit_m_tile_height` * 64 bytes later, and the next 64 inputs another `digit_m_tile_height` *
  // 64 bytes later.
  kTiles,
  // For AMX tiles of bf16: the two digits of an input form one bf16. Within every four inputs the
  // order is 0, 2, 1, 3; runs of 32 inputs lie `digit_m_tile_height` * 64 bytes apart. The bf16 is
  // exact, since quantized bf16 inputs have at most 8 significant bits.
  kBf16Tiles,
};

// The destination of a group of kInputGroup inputs of one row; a null pointer omits that layout.
// Inputs past the end are zero.
struct PackedGroup {
  float* floats;     // vectors of float_lanes, `m_tile_height` vectors apart
  uint16_t* halves;  // bf16 bits in order, runs of 32 inputs, `half_m_tile_height` * 32 apart
  int8_t* digits;    // see DigitLayout
  int64_t m_tile_height;
  int64_t half_m_tile_height;
  int64_t digit_m_tile_height;
  DigitLayout digit_layout;
  float* scale;      // [1] scale of the digits
  int32_t* sums_16;  // [8] sums of the quantized inputs over 16 (null to omit them), 32, 64 and 128
  int32_t* sums_32;  // [4] inputs, negated, in two 16-bit halves: sum = 128 * high + low,
  int32_t* sums_64;  // [2] low in [0, 128)
  int32_t* sums_128;  // [1]
  float* negated_16;  // [8] the sums of sums_16 as floats; null to omit them
  float* negated_32;  // [4] likewise
  bool round_to_bf16;
  // The quantization of inputs. 1: one int8 per input, absmax / 127. 2: 16-bit block fixed point in
  // two balanced base-256 digits, per four inputs {4 high, 4 low}. The unit is 2^-13 times P, the
  // power of two at or below the group's largest magnitude. A bf16 input is exact if it is at most
  // 2^6 below P; otherwise its error is at most 2^-14 P.
  int32_t digit_count;
};

// The product sums[row][out] = x[row] . w[out] for the rows of `m_tiles` and `outs` channels.
struct DenseTask {
  const char* w;
  int64_t w_stride;  // in bytes, between output channels
  const char* x;     // first M tile of floats
  int64_t x_row_bytes;
  int64_t in;
  MTiles m_tiles;
  int64_t outs;
  float* sums;
  int64_t sums_stride;  // in floats
  float* scratch;       // dense_scratch_floats(rows, outs) floats, 64-byte aligned
  // FP8: the scales times 2^8, one per `scale_outs` channels and `scale_inputs` inputs.
  const float* scales;    // scales of the weight's channel 0
  int64_t scales_stride;  // floats between the scales of `scale_outs` channels and the next
  int64_t first_out;      // channel of the weight at `w`
  int64_t scale_outs;
  int64_t scale_inputs;  // a multiple of 2 * float_lanes
};

// The same product for `out_blocks` blocks of 16 channels.
struct PackedTask {
  const char* w;
  int64_t block_bytes;
  int64_t chunk;
  int64_t padded_in;
  const char* x;  // digits, halves (pairs) or floats (Activation::kF32): the first M tile
  int64_t x_row_bytes;
  const float* scales;
  int64_t scales_stride;
  const int32_t* input_sums;  // sums over `chunk` inputs
  const float* negated_sums;  // the same, negated; only for formats with minima
  int64_t input_sums_stride;  // of both
  MTiles m_tiles;
  int64_t out_blocks;
  float* sums;
  int64_t sums_stride;
};

// The epilogue y[row][out] = round(residual + (sums + bias)); null pointers omit a term.
struct StoreTask {
  const float* sums;
  int64_t sums_stride;
  int64_t rows;
  int64_t outs;
  float* y;
  int64_t y_stride;
  const float* bias;      // [outs]
  const float* residual;  // has the stride of y
  bool round_to_bf16;
};

// The epilogue y = silu(gate + gate_bias) * (up + up_bias).
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

// The kernels of one format of integer weights.
struct IntegerKernels {
  void (*digits[2])(const PackedTask&);  // [digit_count - 1]
  // `digits` processes the inputs of GroupedKernels::min_stretch_rows rows or more in passes, whose
  // weights stay in the L1 cache [digit_count - 1].
  bool digit_passes[2];
  // Multiplies inputs in the layout of words; null if there is no such kernel.
  void (*words)(const PackedTask&);
  bool words_of_one_digit;  // words are faster than inputs of one digit, too
  void (*floats)(const PackedTask&);
};

// The kernels of one format of integer weights for AMX tiles.
struct TileKernels {
  // Smallest number of rows that tiles multiply [digit_count - 1]. IntegerKernels multiply fewer
  // rows, with the same bits, since integers are exact either way.
  int32_t min_rows[2];
  void (*digits[2])(const PackedTask&);  // [digit_count - 1], DigitLayout::kTiles
  // For DigitLayout::kBf16Tiles, with the same bits; null if there is no such kernel.
  void (*bf16_digits)(const PackedTask&);
};

// WeightFormatInfo::kernel of the first entry of kGroupedFormats.
inline constexpr int32_t kFirstGroupedKernel = 3;

struct GroupedTileKernels {
  TileKernels of[kGroupedFormatCount];
};

struct GroupedKernels {
  IntegerKernels of[kGroupedFormatCount];
  int32_t word_rows;  // rows per M tile of DigitLayout::kWords
  // From this many rows on, `digits` processes inputs in passes if digit_passes says so. If one of
  // an input's weights has no such kernel and all have a kernel of words, the input gets words.
  int32_t min_stretch_rows;
};

struct LinearKernels {
  const char* name;
  // `floats` are in chunks of 2 * float_lanes inputs, the even inputs first.
  int32_t float_lanes;
  int32_t m_tile_rows;
  // AMX: rows of a tile of halves or digits, and of an M tile of these layouts. 0 without AMX
  // tiles; register tiles of m_tile_rows rows then multiply all layouts.
  int32_t tile_rows;
  void (*pack_group)(const float* x, int64_t count, const PackedGroup& out);
  void (*dense[4])(const DenseTask&);  // [f32, bf16, f16, FP8]
  // Multiplies bf16 pairs by bf16 inputs (`halves`) with a bf16 dot instruction; null if there is
  // none.
  void (*bf16_pairs)(const PackedTask&);
  IntegerKernels integers[kFirstGroupedKernel];  // [int8, int4, int8 groups]
  const GroupedKernels* grouped;
  // Null without AMX tiles.
  const TileKernels* integer_tiles;  // [kFirstGroupedKernel], like `integers`
  const GroupedTileKernels* grouped_tiles;
  void (*store)(const StoreTask&);
  void (*swiglu)(const SwigluTask&);
};

constexpr int64_t dense_scratch_floats(int64_t rows, int64_t outs) { return rows * outs * 16; }

extern const GroupedKernels kGroupedScalar;
extern const LinearKernels kLinearScalar;
// Defined where isa_is_built() (kernels/isa.h).
extern const GroupedKernels kGroupedAvx2;
extern const GroupedKernels kGroupedAvx512;
extern const LinearKernels kLinearAvx2;
extern const LinearKernels kLinearAvx512;
extern const LinearKernels kLinearAvx512Bf16;
extern const LinearKernels kLinearAvx512Bf16ByFmas;  // same bits, see bf16_dots_are_slow()
extern const GroupedTileKernels kGroupedTilesAmx;
extern const GroupedTileKernels kGroupedTilesAmxTwin;
extern const LinearKernels kLinearAmx;
extern const LinearKernels kLinearAmxTwin;  // same bits as kLinearAmx, without tile registers

// Returns the kernels of a WeightFormatInfo of kind kIntegers.
inline const IntegerKernels& integer_kernels(const LinearKernels& kernels, int32_t kernel) {
  return kernel < kFirstGroupedKernel ? kernels.integers[kernel]
                                      : kernels.grouped->of[kernel - kFirstGroupedKernel];
}

// Returns the AMX tile kernels of the same WeightFormatInfo, if `kernels` has any (tile_rows > 0).
inline const TileKernels& tile_kernels(const LinearKernels& kernels, int32_t kernel) {
  return kernel < kFirstGroupedKernel ? kernels.integer_tiles[kernel]
                                      : kernels.grouped_tiles->of[kernel - kFirstGroupedKernel];
}

// Returns the table of current_isa(), or the table that a test has put in its place.
// replace_linear_kernels_for_test(null) restores the default. It must not be called while a kernel
// runs, and inputs must be packed again afterwards.
const LinearKernels& linear_kernels();
void replace_linear_kernels_for_test(const LinearKernels* kernels);

}  // namespace forerun
