// Expected results of every operation of a vector type, in plain loops. One file per instruction
// set includes it, so it calls no function of the standard library (vector.h).
#pragma once

#include <cstdint>

#include "kernels/simd/vector.h"

namespace forerun {
namespace simd {
namespace {

constexpr int kMaxLanes = 16;
constexpr float kNan = __builtin_nanf("");

// Inputs of the cases: numbers of both signs, equal ones in both, a NaN in a and one in b.
struct CaseInputs {
  float a[kMaxLanes], b[kMaxLanes], c[kMaxLanes];
  int32_t i[kMaxLanes], j[kMaxLanes];
};

inline CaseInputs make_inputs() {
  CaseInputs inputs;
  uint32_t state = 12345;
  for (int lane = 0; lane < kMaxLanes; ++lane) {
    const auto next = [&] {
      return static_cast<int32_t>((state = state * 1664525u + 1013904223u));
    };
    inputs.a[lane] = static_cast<float>(next() >> 8) * 0x1p-18f;
    inputs.b[lane] = lane % 5 == 2 ? inputs.a[lane] : static_cast<float>(next() >> 8) * 0x1p-18f;
    inputs.c[lane] = static_cast<float>(next() >> 8) * 0x1p-12f;
    inputs.i[lane] = next();
    inputs.j[lane] = next();
  }
  inputs.a[1] = kNan;
  inputs.b[3] = kNan;
  return inputs;
}

inline bool same_bits(float x, float y) {
  return __builtin_bit_cast(uint32_t, x) == __builtin_bit_cast(uint32_t, y) || (x != x && y != y);
}

template <class V, class Expected>
bool floats_are(typename V::F actual, Expected expected) {
  float lanes[V::kLanes];
  V::store(lanes, actual);
  for (int lane = 0; lane < V::kLanes; ++lane) {
    if (!same_bits(lanes[lane], expected(lane))) return false;
  }
  return true;
}

template <class V, class Expected>
bool ints_are(typename V::I actual, Expected expected) {
  uint32_t lanes[V::kLanes];
  V::store_int(lanes, actual);
  for (int lane = 0; lane < V::kLanes; ++lane) {
    if (lanes[lane] != static_cast<uint32_t>(expected(lane))) return false;
  }
  return true;
}

// Returns the sum of `count` floats, a power of two, by halves.
inline float sum_by_halves(const float* from, int count) {
  float sums[kMaxLanes];
  for (int lane = 0; lane < count; ++lane) sums[lane] = from[lane];
  for (int half = count / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

// Each check returns the name of the first operation that is wrong, or null.

template <Vector V>
const char* check_arithmetic(bool fused) {
  const CaseInputs in = make_inputs();
  const typename V::F a = V::load(in.a), b = V::load(in.b), c = V::load(in.c);
  const typename V::I i = V::load_int(in.i), j = V::load_int(in.j);
  const auto product_plus = [&](float x, float y, float z) {
    return fused ? static_cast<float>(static_cast<double>(x) * y + z) : x * y + z;
  };
  if (!floats_are<V>(V::zero(), [](int) { return 0.0f; })) return "zero";
  if (!floats_are<V>(V::set1(3.0f), [](int) { return 3.0f; })) return "set1";
  if (!floats_are<V>(V::repeat4(in.c), [&](int n) { return in.c[n % 4]; })) return "repeat4";
  if (!floats_are<V>(V::add(a, b), [&](int n) { return in.a[n] + in.b[n]; })) return "add";
  if (!floats_are<V>(V::sub(a, b), [&](int n) { return in.a[n] - in.b[n]; })) return "sub";
  if (!floats_are<V>(V::mul(a, b), [&](int n) { return in.a[n] * in.b[n]; })) return "mul";
  // Products have 48 bits, so a double holds the sum before it is rounded.
  if (!floats_are<V>(V::fma(a, b, c),
                     [&](int n) { return product_plus(in.a[n], in.b[n], in.c[n]); })) {
    return "fma";
  }
  if (!floats_are<V>(V::fnma(a, b, c),
                     [&](int n) { return product_plus(-in.a[n], in.b[n], in.c[n]); })) {
    return "fnma";
  }
  if (!floats_are<V>(V::max(a, b), [&](int n) { return in.a[n] > in.b[n] ? in.a[n] : in.b[n]; })) {
    return "max";
  }
  const auto bits = [](int32_t x) { return static_cast<uint32_t>(x); };
  if (!ints_are<V>(V::set1_int(-7), [](int) { return -7; })) return "set1_int";
  if (!ints_are<V>(V::add_int(i, j), [&](int n) { return bits(in.i[n]) + bits(in.j[n]); })) {
    return "add_int";
  }
  if (!ints_are<V>(V::sub_int(i, j), [&](int n) { return bits(in.i[n]) - bits(in.j[n]); })) {
    return "sub_int";
  }
  if (!ints_are<V>(V::and_int(i, j), [&](int n) { return in.i[n] & in.j[n]; })) return "and_int";
  if (!ints_are<V>(V::template shift_left<3>(i), [&](int n) { return bits(in.i[n]) << 3; })) {
    return "shift_left";
  }
  if (!ints_are<V>(V::template shift_right<3>(i), [&](int n) { return bits(in.i[n]) >> 3; })) {
    return "shift_right";
  }
  if (!floats_are<V>(V::to_float(i), [&](int n) { return static_cast<float>(in.i[n]); })) {
    return "to_float";
  }
  if (!ints_are<V>(V::as_int(c), [&](int n) { return __builtin_bit_cast(int32_t, in.c[n]); })) {
    return "as_int";
  }
  if (!floats_are<V>(V::as_float(V::as_int(a)), [&](int n) { return in.a[n]; })) return "as_float";
  const auto float_of = [](uint32_t x) { return __builtin_bit_cast(float, x); };
  if (!floats_are<V>(even_bf16<V>(i), [&](int n) { return float_of(bits(in.i[n]) << 16); })) {
    return "even_bf16";
  }
  if (!floats_are<V>(odd_bf16<V>(i),
                     [&](int n) { return float_of(bits(in.i[n]) & 0xffff0000u); })) {
    return "odd_bf16";
  }
  return nullptr;
}

template <Vector V>
const char* check_masks_and_sums() {
  const CaseInputs in = make_inputs();
  const typename V::F a = V::load(in.a), b = V::load(in.b), c = V::load(in.c);
  const typename V::I i = V::load_int(in.i), j = V::load_int(in.j);
  const auto picked = [&](typename V::Mask mask, auto is_set) {
    return floats_are<V>(V::select(mask, a, c),
                         [&](int n) { return is_set(in.a[n], in.b[n]) ? in.a[n] : in.c[n]; }) &&
           ints_are<V>(V::select_int(mask, i, j),
                       [&](int n) { return is_set(in.a[n], in.b[n]) ? in.i[n] : in.j[n]; }) &&
           floats_are<V>(V::zero_unless(mask, c),
                         [&](int n) { return is_set(in.a[n], in.b[n]) ? in.c[n] : 0.0f; });
  };
  if (!picked(V::less(a, b), [](float x, float y) { return x < y; })) return "less";
  if (!picked(V::at_least(a, b), [](float x, float y) { return x >= y; })) return "at_least";
  if (!picked(V::not_less(a, b), [](float x, float y) { return !(x < y); })) return "not_less";
  if (!same_bits(V::first_lane(c), in.c[0])) return "first_lane";
  if (!same_bits(V::sum_lanes(c), sum_by_halves(in.c, V::kLanes))) return "sum_lanes";
  float highest = in.c[0];
  for (int lane = 1; lane < V::kLanes; ++lane)
    highest = in.c[lane] > highest ? in.c[lane] : highest;
  if (!same_bits(V::max_lane(c), highest)) return "max_lane";
  float rows[4][kMaxLanes];
  typename V::F vectors[4];
  for (int row = 0; row < 4; ++row) {
    for (int lane = 0; lane < kMaxLanes; ++lane) {
      rows[row][lane] = in.c[(lane + 5 * row) % kMaxLanes] * static_cast<float>(row + 1);
    }
    vectors[row] = V::load(rows[row]);
  }
  constexpr int kFours = V::kLanes / 4;
  if (!floats_are<V>(V::sum_fours(vectors), [&](int n) {
        const float* four = rows[n / kFours] + n % kFours * 4;
        return (four[0] + four[1]) + (four[2] + four[3]);
      })) {
    return "sum_fours";
  }
  return nullptr;
}

// Tests random weights and digits, and the largest of both.
template <WeightVector V, int kBits>
bool digit_dot_is_right(bool largest) {
  constexpr int kFours = V::digit_dot_inputs(kBits) / 4;
  constexpr uint32_t kMaxWeight = (1u << kBits) - 1;
  uint8_t weights[kFours][4 * V::kLanes];
  int8_t digits[kFours][2][4];
  uint32_t state = 99;
  const auto next = [&] { return (state = state * 1664525u + 1013904223u) >> 16; };
  int32_t expected[V::kLanes] = {};
  typename V::template DigitDot<2, kBits> dot;
  dot.clear();
  for (int four = 0; four < kFours; ++four) {
    for (auto& weight : weights[four]) {
      weight = static_cast<uint8_t>(largest ? kMaxWeight : next() & kMaxWeight);
    }
    for (int k = 0; k < 8; ++k) {
      digits[four][k / 4][k % 4] = largest ? int8_t{-128} : static_cast<int8_t>(next() & 255);
    }
    for (int k = 0; k < 4 * V::kLanes; ++k) {
      const int32_t input = digits[four][0][k % 4] * 256 + digits[four][1][k % 4];
      expected[k / 4] += weights[four][k] * input;
    }
    dot.step(V::load_int(weights[four]), digits[four][0]);
  }
  return ints_are<V>(dot.flush(V::set1_int(5)), [&](int n) { return expected[n] + 5; });
}

// Returns 2^-8 times the number of an e4m3 code: an exponent of 4 bits with a bias of 7, 3 bits of
// mantissa.
inline float scaled_e4m3(int code) {
  const int exponent = code >> 3 & 15;
  float magnitude = static_cast<float>((code & 7) + (exponent > 0 ? 8 : 0)) * 0x1p-17f;
  for (int step = 1; step < exponent; ++step) magnitude *= 2.0f;
  return code < 128 ? magnitude : -magnitude;
}

template <WeightVector V>
bool splits_every_e4m3_code() {
  for (int first = 0; first < 256; first += 2 * V::kLanes) {
    uint8_t codes[2 * V::kLanes];
    for (int k = 0; k < 2 * V::kLanes; ++k) codes[k] = static_cast<uint8_t>(first + k);
    const typename V::Pair pair = V::load_split_e4m3(codes);
    if (!floats_are<V>(pair.even, [&](int n) { return scaled_e4m3(first + 2 * n); }) ||
        !floats_are<V>(pair.odd, [&](int n) { return scaled_e4m3(first + 2 * n + 1); })) {
      return false;
    }
  }
  return true;
}

template <WeightVector V>
const char* check_loads() {
  if (!splits_every_e4m3_code<V>()) return "load_split_e4m3";
  // The values are 1.5 * 2^n, a subnormal, an infinity and signed zeros.
  const uint16_t f16[kMaxLanes] = {0x3e00, 0xc200, 0x0001, 0x83ff, 0x7c00, 0xfc00, 0x8000, 0x0000,
                                   0x7bff, 0x0400, 0x3c00, 0xbc00, 0x4a00, 0x2e00, 0x7e00, 0x1600};
  const float wide[kMaxLanes] = {1.5f,
                                 -3.0f,
                                 0x1p-24f,
                                 -1023 * 0x1p-24f,
                                 __builtin_inff(),
                                 -__builtin_inff(),
                                 -0.0f,
                                 0.0f,
                                 65504.0f,
                                 0x1p-14f,
                                 1.0f,
                                 -1.0f,
                                 12.0f,
                                 1.5f / 16,
                                 kNan,
                                 1.5f / 1024};
  if (!floats_are<V>(V::load_f16(f16), [&](int n) { return wide[n]; })) return "load_f16";
  if (!floats_are<V>(V::load_bf16(f16), [&](int n) {
        return __builtin_bit_cast(float, static_cast<uint32_t>(f16[n]) << 16);
      })) {
    return "load_bf16";
  }
  int8_t bytes[4 * kMaxLanes];
  for (int k = 0; k < 4 * kMaxLanes; ++k) bytes[k] = static_cast<int8_t>(37 * k + 100);
  if (!ints_are<V>(V::load_bytes(bytes), [&](int n) { return bytes[n]; })) return "load_bytes";
  uint32_t words[4];
  __builtin_memcpy(words, bytes, sizeof(words));
  if (!ints_are<V>(V::repeat4_int(bytes), [&](int n) { return words[n % 4]; })) {
    return "repeat4_int";
  }
  uint8_t indices[4 * kMaxLanes];
  uint32_t looked_up[kMaxLanes] = {};
  for (int k = 0; k < 4 * kMaxLanes; ++k) {
    indices[k] = static_cast<uint8_t>((7 * k + k / 16) % 16);
    looked_up[k / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[indices[k]]))
                        << (8 * (k % 4));
  }
  if (!ints_are<V>(V::lookup_bytes(V::repeat4_int(bytes), V::load_int(indices)),
                   [&](int n) { return looked_up[n]; })) {
    return "lookup_bytes";
  }
  return nullptr;
}

template <WeightVector V>
const char* check_weights() {
  const CaseInputs in = make_inputs();
  const typename V::F a = V::load(in.a), b = V::load(in.b), c = V::load(in.c);
  const typename V::I i = V::load_int(in.i), j = V::load_int(in.j);
  const auto half = [](int32_t x, int high) { return static_cast<int16_t>(x >> (16 * high)); };
  if (!floats_are<V>(V::div(c, b), [&](int n) { return in.c[n] / in.b[n]; })) return "div";
  if (!floats_are<V>(V::min(a, b), [&](int n) { return in.a[n] < in.b[n] ? in.a[n] : in.b[n]; })) {
    return "min";
  }
  if (!floats_are<V>(V::round(c), [&](int n) { return __builtin_rintf(in.c[n]); })) return "round";
  if (!ints_are<V>(V::to_int(c), [&](int n) { return __builtin_lrintf(in.c[n]); })) return "to_int";
  if (!ints_are<V>(V::select_int(V::is_nan(a), i, j),
                   [&](int n) { return n == 1 ? in.i[n] : in.j[n]; })) {
    return "is_nan";
  }
  if (!ints_are<V>(V::or_int(i, j), [&](int n) { return in.i[n] | in.j[n]; })) return "or_int";
  if (!ints_are<V>(V::max_int(i, j),
                   [&](int n) { return in.i[n] > in.j[n] ? in.i[n] : in.j[n]; })) {
    return "max_int";
  }
  if (!ints_are<V>(V::zero_int(), [](int) { return 0; })) return "zero_int";
  if (!ints_are<V>(V::mul_int(i, j), [&](int n) {
        return static_cast<uint32_t>(in.i[n]) * static_cast<uint32_t>(in.j[n]);
      })) {
    return "mul_int";
  }
  int32_t highest = in.i[0];
  for (int lane = 1; lane < V::kLanes; ++lane)
    highest = in.i[lane] > highest ? in.i[lane] : highest;
  if (V::max_lane_int(i) != highest) return "max_lane_int";
  // The terms are integers, because the order of the sum depends on the type.
  float integers[4][kMaxLanes], expected_sums[4] = {}, sums[4];
  for (int row = 0; row < 4; ++row) {
    for (int lane = 0; lane < V::kLanes; ++lane) {
      integers[row][lane] = static_cast<float>((in.i[lane] >> (20 + row)) + row);
      expected_sums[row] += integers[row][lane];
    }
  }
  V::sum_lanes4(V::load(integers[0]), V::load(integers[1]), V::load(integers[2]),
                V::load(integers[3]), sums);
  for (int row = 0; row < 4; ++row) {
    if (!same_bits(sums[row], expected_sums[row])) return "sum_lanes4";
  }
  if (!ints_are<V>(V::dot_halves(V::set1_int(9), i, j), [&](int n) {
        return 9u + static_cast<uint32_t>(half(in.i[n], 0) * half(in.j[n], 0)) +
               static_cast<uint32_t>(half(in.i[n], 1) * half(in.j[n], 1));
      })) {
    return "dot_halves";
  }
  const auto of_halves = [&](int n, auto of) {
    const uint32_t low = static_cast<uint32_t>(of(half(in.i[n], 0), half(in.j[n], 0)));
    const uint32_t high = static_cast<uint32_t>(of(half(in.i[n], 1), half(in.j[n], 1)));
    return (high << 16) | (low & 0xffffu);
  };
  if (!ints_are<V>(V::sub_halves(i, j), [&](int n) {
        return of_halves(n, [](int left, int right) { return left - right; });
      })) {
    return "sub_halves";
  }
  if (!ints_are<V>(V::mul_halves(i, j), [&](int n) {
        return of_halves(n, [](int left, int right) { return left * right; });
      })) {
    return "mul_halves";
  }
  float pairs[2 * kMaxLanes];
  for (int k = 0; k < 2 * kMaxLanes; ++k) pairs[k] = in.c[k % kMaxLanes] + static_cast<float>(k);
  const typename V::Pair split = V::load_split_f32(pairs);
  if (!floats_are<V>(split.even, [&](int n) { return pairs[2 * n]; }) ||
      !floats_are<V>(split.odd, [&](int n) { return pairs[2 * n + 1]; })) {
    return "load_split_f32";
  }
  // f16 numbers from 1 up: 0x3c00 + k is 1 + k / 1024.
  uint16_t f16[2 * kMaxLanes];
  for (int k = 0; k < 2 * kMaxLanes; ++k) f16[k] = static_cast<uint16_t>(0x3c00 + 31 * k);
  const auto value_of_f16 = [](int k) { return 1.0f + static_cast<float>(31 * k) / 1024.0f; };
  const typename V::Pair widened = V::load_split_f16(f16);
  if (!floats_are<V>(widened.even, [&](int n) { return value_of_f16(2 * n); }) ||
      !floats_are<V>(widened.odd, [&](int n) { return value_of_f16(2 * n + 1); })) {
    return "load_split_f16";
  }
  int8_t bytes[2 * kMaxLanes];
  V::store_low_bytes(bytes, i);
  for (int lane = 0; lane < V::kLanes; ++lane) {
    if (bytes[lane] != static_cast<int8_t>(in.i[lane] & 255)) return "store_low_bytes";
  }
  V::store_low_bytes_by_fours(bytes, i, j);
  for (int k = 0; k < 2 * V::kLanes; ++k) {
    const int32_t* const from = k % 8 < 4 ? in.i : in.j;
    if (bytes[k] != static_cast<int8_t>(from[k / 8 * 4 + k % 4] & 255)) {
      return "store_low_bytes_by_fours";
    }
  }
  uint16_t halves[kMaxLanes];
  V::store_low_halves(halves, V::template shift_right<16>(i));
  for (int lane = 0; lane < V::kLanes; ++lane) {
    if (halves[lane] != static_cast<uint32_t>(in.i[lane]) >> 16) return "store_low_halves";
  }
  const auto dots_are_right = [](bool largest) {
    return digit_dot_is_right<V, 4>(largest) && digit_dot_is_right<V, 5>(largest) &&
           digit_dot_is_right<V, 6>(largest) && digit_dot_is_right<V, 8>(largest);
  };
  if (!dots_are_right(false) || !dots_are_right(true)) return "DigitDot";
  return check_loads<V>();
}

template <WordVector V>
const char* check_words() {
  const CaseInputs in = make_inputs();
  const typename V::I i = V::load_int(in.i), j = V::load_int(in.j);
  const auto word = [](int32_t x) { return static_cast<uint64_t>(static_cast<uint32_t>(x)); };
  uint32_t mask = 0;
  for (int lane = 0; lane < V::kLanes; ++lane) {
    if (in.a[lane] < in.b[lane]) mask |= 1u << lane;
  }
  if (V::mask_bits(V::less(V::load(in.a), V::load(in.b))) != mask) return "mask_bits";
  if (!ints_are<V>(V::xor3(i, j, V::set1_int(77)), [&](int n) { return in.i[n] ^ in.j[n] ^ 77; })) {
    return "xor3";
  }
  if (!ints_are<V>(V::high_words(i), [&](int n) { return n % 2 == 0 ? in.i[n + 1] : 0; })) {
    return "high_words";
  }
  if (!ints_are<V>(V::mul_low_words(i, j), [&](int n) {
        const int even = n / 2 * 2;
        return static_cast<uint32_t>(word(in.i[even]) * word(in.j[even]) >> (n % 2 * 32));
      })) {
    return "mul_low_words";
  }
  if (!ints_are<V>(V::interleave_low_words(i, j),
                   [&](int n) { return n % 2 == 0 ? in.i[n] : in.j[n - 1]; })) {
    return "interleave_low_words";
  }
  int32_t rows[4][V::kLanes];
  typename V::I columns[4];
  for (int row = 0; row < 4; ++row) {
    for (int lane = 0; lane < V::kLanes; ++lane) rows[row][lane] = 100 * row + lane;
  }
  V::transpose_words(V::load_int(rows[0]), V::load_int(rows[1]), V::load_int(rows[2]),
                     V::load_int(rows[3]), columns);
  for (int column = 0; column < 4; ++column) {
    if (!ints_are<V>(columns[column], [&](int n) { return rows[n % 4][n / 4 * 4 + column]; })) {
      return "transpose_words";
    }
  }
  uint64_t total = 0;
  float weights[V::kLanes];
  for (int lane = 0; lane < V::kLanes; ++lane) {
    weights[lane] = static_cast<float>(lane) * 0.0625f + 0x1p-11f;
    total += static_cast<uint64_t>(__builtin_llrint(static_cast<double>(weights[lane]) * 0x1p10));
  }
  const auto sums = V::add_scaled(V::zero_int64(), V::load(weights), 0x1p10);
  if (V::sum_lanes_int64(sums) != total) return "add_scaled";
  return nullptr;
}

}  // namespace
}  // namespace simd
}  // namespace forerun
