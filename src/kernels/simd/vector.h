// The vector types of all CPU kernels. Each instruction set has a header with one type: Scalar
// (scalar.h), Avx2 (avx2.h), Avx512 (avx512.h). Twice (twice.h) makes vectors of twice as many
// lanes of any of them. avx512_bf16.h adds products of bf16 to Avx512, amx.h has tile registers;
// avx512_bf16_emulated.h and amx_emulated.h give the same results by AVX-512 alone. No other file
// contains vector intrinsics or assembly.
//
// A kernel is a template over the type, or a file included where `Vec` names the type. Each
// instruction set has its own source file, compiled with flags for it. Only such files include the
// instruction set's header. Everything here has internal linkage: if files shared a function, the
// linker could keep the copy that was compiled for another CPU. For the same reason these files
// call no function of the standard library.
//
// An operation gives the same bits in all types, with these exceptions: Scalar rounds a product
// before it adds it (fma, fnma) and may lose the sign of a zero that it rounds to, and the order of
// sum_lanes4 and of maxima of lanes depends on the type, which shows with NaN and zeros. Within a
// type a sum or a maximum of lanes always goes in the same order, so a kernel's bits depend on the
// number of lanes, not on compilers.
#pragma once

#include <cstdint>

#include "kernels/simd/macros.h"

namespace forerun {
namespace simd {
namespace {

template <class A, class B>
concept Same = __is_same(A, B);

// A vector type has F with kLanes floats, I with kLanes integers of 32 bits, and Mask with kLanes
// truth values.
template <class V>
concept Vector = requires(typename V::F f, typename V::I i, typename V::Mask mask,
                          const typename V::F* four, const float* from, float* to,
                          const void* ints_from, void* ints_to) {
  requires Same<decltype(V::kLanes), const int>;

  // Addresses need no alignment.
  { V::zero() } -> Same<typename V::F>;
  { V::set1(1.0f) } -> Same<typename V::F>;
  { V::load(from) } -> Same<typename V::F>;
  { V::repeat4(from) } -> Same<typename V::F>;  // the same four floats in every four lanes
  { V::store(to, f) } -> Same<void>;
  { V::set1_int(int32_t{1}) } -> Same<typename V::I>;
  { V::load_int(ints_from) } -> Same<typename V::I>;
  { V::store_int(ints_to, i) } -> Same<void>;

  { V::add(f, f) } -> Same<typename V::F>;
  { V::sub(f, f) } -> Same<typename V::F>;
  { V::mul(f, f) } -> Same<typename V::F>;
  { V::fma(f, f, f) } -> Same<typename V::F>;   // (a, b, c): a * b + c
  { V::fnma(f, f, f) } -> Same<typename V::F>;  // (a, b, c): c - a * b
  { V::max(f, f) } -> Same<typename V::F>;      // (a, b): b if one of them is NaN

  { V::add_int(i, i) } -> Same<typename V::I>;
  { V::sub_int(i, i) } -> Same<typename V::I>;
  { V::and_int(i, i) } -> Same<typename V::I>;
  { V::template shift_left<1>(i) } -> Same<typename V::I>;
  { V::template shift_right<1>(i) } -> Same<typename V::I>;  // zeros come in
  { V::to_float(i) } -> Same<typename V::F>;
  { V::as_float(i) } -> Same<typename V::F>;  // the same bits
  { V::as_int(f) } -> Same<typename V::I>;

  { V::less(f, f) } -> Same<typename V::Mask>;
  { V::at_least(f, f) } -> Same<typename V::Mask>;
  { V::not_less(f, f) } -> Same<typename V::Mask>;  // true also if one of them is NaN
  // The first where the mask is set, else the second.
  { V::select(mask, f, f) } -> Same<typename V::F>;
  { V::select_int(mask, i, i) } -> Same<typename V::I>;
  { V::zero_unless(mask, f) } -> Same<typename V::F>;

  { V::first_lane(f) } -> Same<float>;
  { V::max_lane(f) } -> Same<float>;
  // Returns the sum of all lanes: halves of the vector are added to each other until one lane is
  // left.
  { V::sum_lanes(f) } -> Same<float>;
  // `four` has four vectors. Each four lanes of a vector are summed as (0 + 1) + (2 + 3); lane
  // kLanes / 4 * i + j of the result is the sum of the four lanes j of vector i.
  { V::sum_fours(four) } -> Same<typename V::F>;
};

// Additional operations for linear layers with bf16, f16 and quantized weights.
template <class V>
concept WeightVector = Vector<V> && requires(typename V::F f, typename V::I i, float* floats,
                                             uint16_t* halves, int8_t* bytes, const void* from) {
  { V::div(f, f) } -> Same<typename V::F>;
  { V::min(f, f) } -> Same<typename V::F>;  // (a, b): b if one of them is NaN
  { V::round(f) } -> Same<typename V::F>;   // to nearest, ties to even; |f| below 2^22
  { V::to_int(f) } -> Same<typename V::I>;  // rounded likewise
  { V::is_nan(f) } -> Same<typename V::Mask>;

  { V::zero_int() } -> Same<typename V::I>;
  { V::mul_int(i, i) } -> Same<typename V::I>;
  { V::max_int(i, i) } -> Same<typename V::I>;
  { V::or_int(i, i) } -> Same<typename V::I>;
  { V::max_lane_int(i) } -> Same<int32_t>;
  // (sum, a, b) gives sum + a.low * b.low + a.high * b.high of the lanes' signed 16-bit halves.
  { V::dot_halves(i, i, i) } -> Same<typename V::I>;
  // Works on the lanes' 16-bit halves, modulo 2^16.
  { V::sub_halves(i, i) } -> Same<typename V::I>;
  { V::mul_halves(i, i) } -> Same<typename V::I>;
  // Stores the sum of each of four vectors' lanes, in floats[0] to [3].
  { V::sum_lanes4(f, f, f, f, floats) } -> Same<void>;

  // Loads 2 * kLanes consecutive elements, separated into even and odd elements.
  { V::load_split_f32(from) } -> Same<typename V::Pair>;
  { V::load_split_f16(from) } -> Same<typename V::Pair>;
  // Loads FP8 e4m3 codes, each as 2^-8 times its number. The codes of NaN give 1.875, with their
  // sign.
  { V::load_split_e4m3(from) } -> Same<typename V::Pair>;
  { V::store_low_halves(halves, i) } -> Same<void>;  // lanes below 2^16
  { V::store_low_bytes(bytes, i) } -> Same<void>;    // the low 8 bits of every lane
  // Does the same for two vectors: four bytes of one alternate with four bytes of the other.
  { V::store_low_bytes_by_fours(bytes, i, i) } -> Same<void>;

  { V::load_f16(from) } -> Same<typename V::F>;     // kLanes elements
  { V::load_bf16(from) } -> Same<typename V::F>;    // kLanes elements
  { V::load_bytes(from) } -> Same<typename V::I>;   // kLanes signed bytes
  { V::repeat4_int(from) } -> Same<typename V::I>;  // the same 16 bytes in every four lanes
  // (table, i) replaces each byte of i, below 16, by that byte of the table's four lanes, which are
  // the same in every four lanes.
  { V::lookup_bytes(i, i) } -> Same<typename V::I>;

  // Integer dot products of 4 unsigned weights per lane by 4 signed digits, which are the same in
  // all lanes. DigitDot<kDigits, kBits> multiplies kDigits digits of each input, the high digit
  // first; weights have kBits bits, up to 8. flush(total) adds the products since clear(). Between
  // these there may be digit_dot_inputs(kBits) inputs.
  requires V::digit_dot_inputs(4)
  >= 32 && V::digit_dot_inputs(6) >= 8;
  requires V::digit_dot_inputs(8)
  >= 32;
  requires requires(typename V::template DigitDot<2, 8> dot, const int8_t* digits) {
    { dot.clear() } -> Same<void>;
    { dot.step(i, digits) } -> Same<void>;
    { dot.flush(i) } -> Same<typename V::I>;
  };
};

// Additional operations for random numbers and sums of fixed-point numbers. A pair is two adjacent
// lanes, an integer of 64 bits.
template <class V>
concept WordVector = Vector<V> && requires(typename V::F f, typename V::I i, typename V::Mask mask,
                                           decltype(V::zero_int64()) sums, typename V::I* four) {
  { V::mask_bits(mask) } -> Same<uint32_t>;  // bit i is lane i
  { V::xor3(i, i, i) } -> Same<typename V::I>;
  { V::high_words(i) } -> Same<typename V::I>;        // each pair shifted right by 32 bits
  { V::mul_low_words(i, i) } -> Same<typename V::I>;  // pairs: products of unsigned low words
  { V::interleave_low_words(i, i) } -> Same<typename V::I>;  // alternating low words of both
  { V::transpose_words(i, i, i, i, four) } -> Same<void>;    // the 4 x 4 words of every 4 lanes
  // Sums of 64 bits, of the type of zero_int64(). Each lane of f times a factor, from 0 to 2^51, is
  // rounded to nearest, ties to even, and added to one of them.
  { V::add_scaled(sums, f, 1.0) } -> Same<decltype(V::zero_int64())>;
  { V::sum_lanes_int64(sums) } -> Same<uint64_t>;
};

// Forces a vector into a register, so that the compiler does not repeat its load as memory
// operands.
template <class T>
FORERUN_INLINE void keep_in_register([[maybe_unused]] T& vector) {
#if defined(__x86_64__)
  asm("" : "+v"(vector));
#endif
}

FORERUN_INLINE void prefetch_l1(const void* p) { __builtin_prefetch(p, 0, 3); }
FORERUN_INLINE void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }

// bf16 pairs: a lane holds an even element in its low half and an odd element in its high half. One
// instruction widens either, at the price of an order of elements that splits even and odd.
template <class V>
FORERUN_INLINE typename V::F even_bf16(typename V::I pairs) {
  return V::as_float(V::template shift_left<16>(pairs));
}
template <class V>
FORERUN_INLINE typename V::F odd_bf16(typename V::I pairs) {
  return V::as_float(V::and_int(pairs, V::set1_int(static_cast<int32_t>(0xffff0000u))));
}

}  // namespace
}  // namespace simd
}  // namespace forerun
