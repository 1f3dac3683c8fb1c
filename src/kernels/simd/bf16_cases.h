// Expected results, in plain loops as in vector_cases.h, of the Avx512 operations that only
// attention uses, and of the bf16 products of Avx512Bf16 and EmulatedBf16.
#pragma once

#include <cstdint>

#include "kernels/simd/avx512.h"
#include "kernels/simd/vector_cases.h"

namespace forerun {
namespace simd {
namespace {

// Each check returns the name of the first operation that is wrong, or null.

inline const char* check_some_lanes() {
  const CaseInputs in = make_inputs();
  constexpr int64_t kCounts[] = {-3, 0, 1, 5, 15, 16, 40};
  for (const int64_t count : kCounts) {
    const auto clamped = static_cast<uint32_t>(count < 0 ? 0 : count > 16 ? 16 : count);
    if (Avx512::mask_bits(Avx512::first_lanes(count)) != (1u << clamped) - 1) return "first_lanes";
  }
  constexpr uint64_t kBits = 0x1234a6c5;
  const Avx512::Mask mask = Avx512::mask_of_bits(kBits);
  if (Avx512::mask_bits(mask) != (kBits & 0xffff)) return "mask_of_bits";
  const auto is_set = [](int lane) { return (kBits >> lane & 1) != 0; };
  const Avx512::F b = Avx512::load(in.b), c = Avx512::load(in.c);
  if (!floats_are<Avx512>(Avx512::load_or(mask, in.c, b),
                          [&](int n) { return is_set(n) ? in.c[n] : in.b[n]; })) {
    return "load_or";
  }
  if (!floats_are<Avx512>(Avx512::load_or_zero(mask, in.c),
                          [&](int n) { return is_set(n) ? in.c[n] : 0.0f; })) {
    return "load_or_zero";
  }
  float stored[16];
  Avx512::store(stored, b);
  Avx512::store_where(mask, stored, c);
  for (int lane = 0; lane < 16; ++lane) {
    if (!same_bits(stored[lane], is_set(lane) ? in.c[lane] : in.b[lane])) return "store_where";
  }
  return nullptr;
}

inline const char* check_orders_of_lanes() {
  const CaseInputs in = make_inputs();
  const Avx512::I i = Avx512::load_int(in.i), j = Avx512::load_int(in.j);
  if (!ints_are<Avx512>(Avx512::repeat4_int(in.i), [&](int n) { return in.i[n % 4]; })) {
    return "repeat4_int";
  }
  // Returns lane n of vpunpcklwd (first = 0) or vpunpckhwd (first = 2): 16-bit halves of i and j
  // alternate.
  const auto interleaved = [&](int n, int first) {
    const int lane = n / 4 * 4 + first + n % 4 / 2;
    const int shift = n % 2 * 16;
    const auto half = [&](int32_t x) { return static_cast<uint32_t>(x) >> shift & 0xffff; };
    return half(in.i[lane]) | half(in.j[lane]) << 16;
  };
  if (!ints_are<Avx512>(Avx512::interleave_lower_halves(i, j),
                        [&](int n) { return interleaved(n, 0); })) {
    return "interleave_lower_halves";
  }
  if (!ints_are<Avx512>(Avx512::interleave_upper_halves(i, j),
                        [&](int n) { return interleaved(n, 2); })) {
    return "interleave_upper_halves";
  }
  int32_t order[16];
  for (int lane = 0; lane < 16; ++lane) order[lane] = (lane * 13 + 7) % 32;
  if (!floats_are<Avx512>(
          Avx512::permute2(Avx512::load(in.c), Avx512::load_int(order), Avx512::load(in.b)),
          [&](int n) { return order[n] < 16 ? in.c[order[n]] : in.b[order[n] - 16]; })) {
    return "permute2";
  }
  return nullptr;
}

inline const char* check_powers_of_2() {
  const CaseInputs in = make_inputs();
  const Avx512::F a = Avx512::load(in.a), c = Avx512::load(in.c);
  if (!floats_are<Avx512>(Avx512::fraction(c),
                          [&](int n) { return in.c[n] - __builtin_floorf(in.c[n]); })) {
    return "fraction";
  }
  const Avx512::F exponents = Avx512::mul(c, Avx512::set1(0x1p-6f));  // -32 to 32
  if (!floats_are<Avx512>(Avx512::scale_by_pow2(a, exponents), [&](int n) {
        const auto exponent = static_cast<int32_t>(__builtin_floorf(in.c[n] * 0x1p-6f));
        return in.a[n] * __builtin_bit_cast(float, (127 + exponent) << 23);
      })) {
    return "scale_by_pow2";
  }
  if (!floats_are<Avx512>(
          Avx512::scale_by_pow2(Avx512::set1(1.0f), Avx512::set1(-__builtin_huge_valf())),
          [](int) { return 0.0f; })) {
    return "scale_by_pow2 of minus infinity";
  }
  return nullptr;
}

// `D` is Avx512 with dot_bf16() and to_bf16().
template <class D>
const char* check_bf16_products() {
  CaseInputs in = make_inputs();
  const auto bits = [](float x) { return __builtin_bit_cast(uint32_t, x); };
  in.a[4] = in.b[4] = 0x1p-130f;                    // denormal: counts as zero
  in.a[5] = __builtin_bit_cast(float, 0x3f808000);  // a tie whose even neighbour is below
  in.a[6] = __builtin_bit_cast(float, 0x3f818000);  // a tie whose even neighbour is above
  const auto rounded = [&](float x) -> uint32_t {
    const uint32_t exact = bits(x);
    if (x != x) return (exact | 0x400000) >> 16;
    if ((exact & 0x7f800000) == 0) return 0;
    return (exact + 0x7fff + (exact >> 16 & 1)) >> 16;
  };
  uint16_t halves[32];
  D::store_int(halves, D::to_bf16(D::load(in.a), D::load(in.c)));
  for (int lane = 0; lane < 16; ++lane) {
    if (halves[lane] != rounded(in.a[lane]) || halves[16 + lane] != rounded(in.c[lane])) {
      return "to_bf16";
    }
  }
  // Pairs of bf16 have an even element of one list and an odd one of another.
  uint32_t x[16], y[16];
  for (int lane = 0; lane < 16; ++lane) {
    x[lane] = bits(in.a[lane]) >> 16 | (bits(in.c[lane]) & 0xffff0000u);
    y[lane] = bits(in.c[lane]) >> 16 | (bits(in.b[lane]) & 0xffff0000u);
  }
  const auto value = [](uint32_t pair, bool odd) -> double {
    const uint32_t element = odd ? pair & 0xffff0000u : pair << 16;
    return (element & 0x7f800000) == 0 ? 0.0 : __builtin_bit_cast(float, element);
  };
  if (!floats_are<D>(D::dot_bf16(D::load(in.c), D::load_int(x), D::load_int(y)), [&](int n) {
        // Products have 16 bits, so a double holds the sum before it is rounded.
        const float sum = static_cast<float>(value(x[n], true) * value(y[n], true) + in.c[n]);
        return static_cast<float>(value(x[n], false) * value(y[n], false) + sum);
      })) {
    return "dot_bf16";
  }
  return nullptr;
}

}  // namespace
}  // namespace simd
}  // namespace forerun
