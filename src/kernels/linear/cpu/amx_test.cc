// Tests products of AMX tiles: compares the emulated kernels with Intel's documented arithmetic,
// written in plain C++, and, if the CPU has AMX, its instructions with the emulation. Independent
// of FORERUN_ISA.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/isa.h"
#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/linear_rig.h"

#if defined(__x86_64__)
namespace forerun {
namespace {

// A guard that replaces the process's table of kernels while it lives.
class WithKernels {
 public:
  explicit WithKernels(const LinearKernels& kernels) { replace_linear_kernels_for_test(&kernels); }
  ~WithKernels() { replace_linear_kernels_for_test(nullptr); }
  WithKernels(const WithKernels&) = delete;
  WithKernels& operator=(const WithKernels&) = delete;
};

bool twin_runs() { return isa_is_supported(Isa::kAvx512); }
bool tiles_run() { return isa_is_supported(Isa::kAmx) && !isa_is_emulated(Isa::kAmx); }

// Returns the tables with AMX tiles that this CPU can run.
std::vector<const LinearKernels*> tables() {
  std::vector<const LinearKernels*> all;
  if (twin_runs()) all.push_back(&kLinearAmxTwin);
  if (tiles_run()) all.push_back(&kLinearAmx);
  return all;
}

PaddedMatrix run_linear(const LinearKernels& kernels, const LinearWeight& weight, PaddedMatrix& x,
                        Activation activation) {
  const WithKernels replaced(kernels);
  PaddedMatrix y(x.row_count, weight.out_features());
  LinearInput input;
  device(2)->run([&](const Team& team) {
    input.pack(team, x.view(), activation, weight_formats(weight.format()));
    team.sync();
    linear(team, weight, input, y.view());
  });
  return y;
}

void expect_same_bits(PaddedMatrix& actual, PaddedMatrix& expected) {
  for (int64_t row = 0; row < actual.row_count; ++row) {
    for (int64_t out = 0; out < actual.col_count; ++out) {
      const float a = actual.view().row(row)[out];
      const float b = expected.view().row(row)[out];
      if (std::isnan(a) && std::isnan(b)) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(a), std::bit_cast<uint32_t>(b))
          << "row " << row << " of " << actual.row_count << " out " << out << ": " << a << " and "
          << b;
    }
  }
}

float without_denormals(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

float fused(float a, float b, float sum) {
  return without_denormals(
      std::fma(without_denormals(a), without_denormals(b), without_denormals(sum)));
}

float added(float a, float b) {
  return without_denormals(without_denormals(a) + without_denormals(b));
}

// Computes TDPBF16PS as Intel documents it, 32 inputs at a time: denormals are zero, rounding is to
// nearest even, and even and odd inputs are summed separately before the two sums are added.
float documented_sum(const float* x, const float* w, int64_t in) {
  float sum = 0.0f;
  for (int64_t begin = 0; begin < in; begin += 32) {
    float even = 0.0f;
    float odd = 0.0f;
    for (int64_t k = begin; k < begin + 32; k += 2) {
      if (k < in) even = fused(x[k], w[k], even);
      if (k + 1 < in) odd = fused(x[k + 1], w[k + 1], odd);
    }
    sum = added(sum, added(even, odd));
  }
  return sum;
}

enum class Numbers { kNormal, kDenormal, kCancelling, kSpecial };

// Returns a random bf16 number.
float draw(Numbers numbers, Random& random) {
  const uint32_t bits = random.bits();
  const uint32_t mantissa = (bits & 0x80000000u) | (bits & 0x007f0000u);
  if (numbers == Numbers::kSpecial && bits % 97 == 0) return bits % 2 == 0 ? kInfinity : kNan;
  if (numbers == Numbers::kDenormal) {
    // The exponents range from denormals to numbers whose products are denormal.
    return std::bit_cast<float>(mantissa | (((bits >> 8) % 72) << 23));
  }
  const uint32_t exponent = numbers == Numbers::kCancelling ? 127 : 112 + (bits >> 8) % 24;
  return std::bit_cast<float>(mantissa | (exponent << 23));
}

TEST(Tiles, TheTwinIsTheDocumentedArithmetic) {
  if (tables().empty()) GTEST_SKIP() << "no AVX-512";
  for (Numbers numbers :
       {Numbers::kNormal, Numbers::kDenormal, Numbers::kCancelling, Numbers::kSpecial}) {
    constexpr int64_t kOut = 37;
    constexpr int64_t kIn = 615;
    Random random(static_cast<uint32_t>(numbers) + 1);
    std::vector<bf16> w(kOut * kIn);
    std::vector<float> wide(kOut * kIn);
    for (size_t idx = 0; idx < w.size(); ++idx) {
      wide[idx] = draw(numbers, random);
      w[idx] = to_bf16(wide[idx]);
    }
    for (int64_t rows : {1, 16, 35}) {
      PaddedMatrix x(rows, kIn);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t k = 0; k < kIn; ++k) x.view().row(row)[k] = draw(numbers, random);
      }
      PaddedMatrix expected(rows, kOut);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t out = 0; out < kOut; ++out) {
          expected.view().row(row)[out] =
              documented_sum(x.view().row(row), wide.data() + out * kIn, kIn);
        }
      }
      for (const LinearKernels* kernels : tables()) {
        const LinearWeight weight =
            LinearWeight::pair_bf16(MatrixView<const bf16>(w.data(), {kOut, kIn}));
        PaddedMatrix y = run_linear(*kernels, weight, x, Activation::kBf16);
        SCOPED_TRACE(testing::Message() << (kernels == &kLinearAmx ? "tiles" : "twin")
                                        << " numbers " << static_cast<int>(numbers));
        expect_same_bits(y, expected);
      }
    }
  }
}

TEST(Tiles, IntegersHaveTheBitsOfAvx512) {
  if (tables().empty()) GTEST_SKIP() << "no AVX-512";
  for (WeightFormat format : kFormats) {
    if (!is_integer(format)) continue;
    for (Activation activation : {Activation::kBf16, Activation::kInt8}) {
      for (int64_t group : {32, 64, 128}) {
        Random random(static_cast<uint32_t>(group));
        const int64_t in = whole_blocks(format, group * 9);
        const TestWeight made = make_weight(format, 72, in, group, random);
        for (int64_t rows : {1, 4, 5, 7, 8, 9, 16, 17, 40, 300}) {
          PaddedMatrix x = random_input(rows, in, random);
          PaddedMatrix expected = run_linear(kLinearAvx512, made.weight, x, activation);
          for (const LinearKernels* kernels : tables()) {
            PaddedMatrix y = run_linear(*kernels, made.weight, x, activation);
            SCOPED_TRACE(testing::Message()
                         << weight_format_name(format) << " " << activation_name(activation)
                         << " group " << group << " rows " << rows);
            expect_same_bits(y, expected);
          }
        }
      }
    }
  }
}

TEST(Tiles, RegistersAndTwinAgree) {
  if (!tiles_run()) GTEST_SKIP() << "this processor has no tile registers";
  for (WeightFormat format : kFormats) {
    for (Activation activation : kActivations) {
      Random random(9);
      const int64_t in = whole_blocks(format, 1344);
      const TestWeight made = make_weight(format, 328, in, 64, random);
      for (int64_t rows : {1, 2, 3, 8, 15, 16, 17, 24, 31, 33, 47, 64, 100, 500}) {
        if (format == WeightFormat::kBf16Pairs && activation == Activation::kF32) continue;
        PaddedMatrix x = random_input(rows, in, random);
        PaddedMatrix expected = run_linear(kLinearAmxTwin, made.weight, x, activation);
        PaddedMatrix y = run_linear(kLinearAmx, made.weight, x, activation);
        SCOPED_TRACE(testing::Message() << weight_format_name(format) << " "
                                        << activation_name(activation) << " rows " << rows);
        expect_same_bits(y, expected);
      }
    }
  }
}

}  // namespace
}  // namespace forerun
#endif
