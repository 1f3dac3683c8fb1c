// Compares kernels with the reference implementations, and tests batch invariance: a row's bits do
// not depend on other rows. FORERUN_ISA chooses the instruction set; CTest runs this program once
// for each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/sanitized.h"
#include "kernels/forced_isa_rig.h"
#include "kernels/isa.h"
#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/linear_rig.h"

namespace forerun {

#if defined(__x86_64__) && !defined(FORERUN_WITHOUT_AVX512)
extern const LinearKernels kLinearBf16DotEmulated;
#endif

namespace {

// Sanitizers make the kernels' unoptimized vectors tens of times slower, so they test every code
// path but not every size.
std::vector<int64_t> sizes(const std::vector<int64_t>& all, const std::vector<int64_t>& sanitized) {
  return kSanitized ? sanitized : all;
}

TEST(Comparator, TellsNanInfinityAndSigns) {
  EXPECT_TRUE(close(1.0f, 1.0f, 0.0));
  EXPECT_TRUE(close(-1.0f, -1.01f, 0.02));
  EXPECT_FALSE(close(-1.0f, 1.0f, 0.5));
  EXPECT_FALSE(close(kNan, 1.0f, 1e30));
  EXPECT_FALSE(close(1.0f, kNan, 1e30));
  EXPECT_TRUE(close(kNan, kNan, 0.0));
  EXPECT_FALSE(close(kInfinity, 1.0f, 1e30));
  EXPECT_FALSE(close(1.0f, kInfinity, 1e30));
  EXPECT_FALSE(close(-kInfinity, kInfinity, 1e30));
  EXPECT_TRUE(close(kInfinity, kInfinity, 0.0));
}

void run_linear(CpuDevice& cpu, const LinearWeight& weight, PaddedMatrix& x, Activation activation,
                MatrixView<float> y, const LinearEpilogue& epilogue = {}) {
  LinearInput input;
  cpu.run([&](const Team& team) {
    input.pack(team, x.view(), activation, weight_formats(weight.format()));
    team.sync();
    linear(team, weight, input, y, epilogue);
  });
}

// Returns the allowed error of a sum: f32 accumulation and, for 16-bit block fixed point, half a
// unit of each group (kernels/linear/cpu/kernels.h).
double sum_tolerance(const float* w, const float* x, int64_t in, bool digits) {
  double tolerance = 0.0;
  for (int64_t begin = 0; begin < in; begin += 128) {
    const int64_t end = std::min(begin + 128, in);
    double products = 0.0;
    double weights = 0.0;
    double largest = 0.0;
    for (int64_t k = begin; k < end; ++k) {
      const double weight = std::fabs(static_cast<double>(w[k]));
      const double value = std::fabs(static_cast<double>(x[k]));
      products += weight * value;
      weights += weight;
      largest = std::max(largest, value);
    }
    tolerance += products * 0x1p-20 + (digits ? weights * largest * 0x1p-14 : 0.0);
  }
  return tolerance + 1e-30;
}

struct Case {
  WeightFormat format;
  Activation activation;
  int64_t rows;
  int64_t out;
  int64_t in;
  int64_t group;
};

void check_against_reference(const Case& c, CpuDevice& cpu) {
  SCOPED_TRACE(testing::Message() << weight_format_name(c.format) << " "
                                  << activation_name(c.activation) << " rows " << c.rows << " out "
                                  << c.out << " in " << c.in << " group " << c.group);
  Random random(static_cast<uint32_t>(c.rows * 7919 + c.out * 131 + c.in));
  const TestWeight made = make_weight(c.format, c.out, c.in, c.group, random);
  PaddedMatrix x = random_input(c.rows, c.in, random);
  PaddedMatrix y(c.rows, c.out);
  run_linear(cpu, made.weight, x, c.activation, y.view());
  EXPECT_TRUE(y.padding_is_untouched());
  PaddedMatrix expected(c.rows, c.out);
  linear_ref(made.weight, x.view(), c.activation, expected.view());
  std::vector<float> w(static_cast<size_t>(c.out * c.in));
  made.weight.dequantize(0, MatrixView<float>(w.data(), {c.out, c.in}));
  const bool digits = is_integer(c.format) && c.activation == Activation::kBf16;
  for (int64_t row = 0; row < c.rows; ++row) {
    for (int64_t out = 0; out < c.out; ++out) {
      const double tolerance =
          sum_tolerance(w.data() + out * c.in, x.view().row(row), c.in, digits);
      ASSERT_TRUE(close(y.view().row(row)[out], expected.view().row(row)[out], tolerance))
          << "row " << row << " out " << out << ": " << y.view().row(row)[out] << " expected "
          << expected.view().row(row)[out] << " tolerance " << tolerance;
    }
  }
}

void sweep_shapes() {
  const auto cpu = device(1);
  const auto pair = device(2);
  for (WeightFormat format : kFormats) {
    for (Activation activation : kActivations) {
      if (!is_there(format, activation)) continue;
      for (int64_t rows :
           sizes({1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 64}, {1, 2, 3, 4, 5, 6, 7, 8, 9})) {
        check_against_reference({format, activation, rows, 24, whole_blocks(format, 160), 32},
                                *cpu);
      }
      for (int64_t out : sizes({8, 16, 40, 48, 56, 104}, {8, 56})) {
        check_against_reference({format, activation, 3, out, 256, 128}, *pair);
      }
      for (int64_t in : sizes({32, 64, 96, 128, 192, 320, 512, 576, 1152}, {64, 96, 1152})) {
        const int64_t group = in % 128 == 0 ? 128 : in % 96 == 0 ? 96 : in % 64 == 0 ? 64 : 32;
        if (whole_blocks(format, in) != in) continue;
        check_against_reference({format, activation, 2, 24, in, group}, *cpu);
        check_against_reference({format, activation, 17, 24, in, in}, *cpu);
      }
      // Int4 needs whole words of channels and whole groups.
      if (format == WeightFormat::kInt4) continue;
      for (int64_t out : sizes({1, 2, 3, 5, 7, 13, 15, 17, 31, 47, 49, 65}, {1, 3, 17, 49})) {
        const int64_t in = whole_blocks(format, 96);
        check_against_reference({format, activation, 2, out, in, 0}, *pair);
        check_against_reference({format, activation, 9, out, in, 0}, *cpu);
      }
      if (is_grouped(format)) continue;
      for (int64_t in : sizes({1, 2, 3, 15, 16, 17, 31, 33, 47, 63, 65, 127, 129, 515, 1027},
                              {1, 17, 33, 129})) {
        check_against_reference({format, activation, 1, 9, in, 0}, *cpu);
        check_against_reference({format, activation, 10, 9, in, 0}, *cpu);
      }
    }
  }
}

TEST(Linear, MatchesReferenceAroundEveryBlockWidth) { sweep_shapes(); }

// Checks that a row has the same bits alone, in every batch and at every team size.
void check_row_invariance() {
  for (WeightFormat format : kFormats) {
    for (Activation activation : kActivations) {
      if (!is_there(format, activation)) continue;
      SCOPED_TRACE(testing::Message()
                   << weight_format_name(format) << " " << activation_name(activation));
      Random random(5);
      constexpr int64_t kRows = kSanitized ? 64 : 1024;
      // These sizes have more than one pass, and a tail.
      const bool has_groups = format == WeightFormat::kInt4 || format == WeightFormat::kInt8Groups;
      const int64_t in = has_groups ? 608 : is_grouped(format) ? whole_blocks(format, 608) : 613;
      const int64_t out = format == WeightFormat::kInt4 ? 56 : 53;
      const TestWeight made = make_weight(format, out, in, 32, random);
      PaddedMatrix x = random_input(kRows, in, random);
      PaddedMatrix all(kRows, out);
      run_linear(*device(1), made.weight, x, activation, all.view());
      for (int32_t threads : {1, 2, 3}) {
        const auto cpu = device(threads);
        for (int64_t rows : sizes({1, 2, 5, 8, 9, 64, 1024}, {1, 8, 9})) {
          for (int64_t first : {0, 3, 50}) {
            if (first + rows > kRows) continue;
            PaddedMatrix part(rows, in);
            for (int64_t row = 0; row < rows; ++row) {
              std::memcpy(part.view().row(row), x.view().row(first + row),
                          static_cast<size_t>(in) * sizeof(float));
            }
            PaddedMatrix y(rows, out);
            run_linear(*cpu, made.weight, part, activation, y.view());
            for (int64_t row = 0; row < rows; ++row) {
              ASSERT_EQ(0, std::memcmp(y.view().row(row), all.view().row(first + row),
                                       static_cast<size_t>(out) * sizeof(float)))
                  << threads << " threads, row " << row << " of " << rows;
            }
          }
        }
      }
    }
  }
}

TEST(Linear, ARowHasTheSameBitsInEveryBatchAndTeam) { check_row_invariance(); }

TEST(Linear, AddsBiasThenResidualThenRounds) {
  Random random(11);
  const auto cpu = device(2);
  const TestWeight made = make_weight(WeightFormat::kBf16, 37, 64, 0, random);
  PaddedMatrix x = random_input(5, 64, random);
  std::vector<float> bias(37);
  for (float& value : bias) value = random.normal();
  PaddedMatrix plain(5, 37);
  run_linear(*cpu, made.weight, x, Activation::kBf16, plain.view());
  PaddedMatrix y(5, 37);
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t out = 0; out < 37; ++out) y.view().row(row)[out] = random.normal();
  }
  PaddedMatrix before = y;
  LinearEpilogue epilogue;
  epilogue.bias = bias;
  epilogue.residual = y.view().data();
  epilogue.round_to_bf16 = true;
  run_linear(*cpu, made.weight, x, Activation::kBf16, y.view(), epilogue);
  EXPECT_TRUE(y.padding_is_untouched());
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t out = 0; out < 37; ++out) {
      const float sum = plain.view().row(row)[out] + bias[static_cast<size_t>(out)];
      EXPECT_EQ(y.view().row(row)[out], round_to_bf16(before.view().row(row)[out] + sum));
    }
  }
}

TEST(Linear, NanAndInfinityReachTheOutput) {
  Random random(2);
  const auto cpu = device(1);
  for (WeightFormat format : kFormats) {
    for (Activation activation : kActivations) {
      if (!is_there(format, activation)) continue;
      const TestWeight made = make_weight(format, 24, 256, 128, random);
      for (float poison : {kNan, kInfinity}) {
        PaddedMatrix x = random_input(2, 256, random);
        x.view().row(1)[200] = poison;
        PaddedMatrix y(2, 24);
        run_linear(*cpu, made.weight, x, activation, y.view());
        for (int64_t out = 0; out < 24; ++out) {
          EXPECT_TRUE(std::isfinite(y.view().row(0)[out]));
          EXPECT_FALSE(std::isfinite(y.view().row(1)[out]))
              << weight_format_name(format) << " " << activation_name(activation);
        }
      }
    }
  }
}

TEST(Isa, TheForcedInstructionSetRuns) {
  const char* forced = std::getenv("FORERUN_ISA");
  if (forced == nullptr) GTEST_SKIP() << "FORERUN_ISA is not set";
  EXPECT_STREQ(linear_kernels().name, forced);
}

#if defined(__x86_64__) && !defined(FORERUN_WITHOUT_AVX512)
TEST(Bf16Dot, FusedMultiplyAddsGiveTheSameBits) {
  if (current_isa() != Isa::kAvx512Bf16) GTEST_SKIP() << "needs AVX512_BF16";
  const auto cpu = device(2);
  Random random(11);
  for (int64_t in : {32, 96, 544, 1408}) {
    for (int64_t out : {24, 48, 160}) {
      const TestWeight made = make_weight(WeightFormat::kBf16Pairs, out, in, in, random);
      for (int64_t rows : {1, 2, 3, 7, 8, 9, 16, 33}) {
        PaddedMatrix x = random_input(rows, in, random);
        for (int64_t row = 0; row < rows; ++row) {
          // Tests denormal products and inputs, alone and beside others.
          const float scale = row % 3 == 0 ? 1.0f : row % 3 == 1 ? 0x1p-124f : 0x1p-130f;
          for (int64_t k = 0; k < in; k += 1 + row % 2) x.view().row(row)[k] *= scale;
        }
        PaddedMatrix dots(rows, out);
        PaddedMatrix fmas(rows, out);
        replace_linear_kernels_for_test(&kLinearAvx512Bf16);
        run_linear(*cpu, made.weight, x, Activation::kBf16, dots.view());
        replace_linear_kernels_for_test(&kLinearAvx512Bf16ByFmas);
        run_linear(*cpu, made.weight, x, Activation::kBf16, fmas.view());
        replace_linear_kernels_for_test(nullptr);
        for (int64_t row = 0; row < rows; ++row) {
          ASSERT_EQ(0, std::memcmp(dots.view().row(row), fmas.view().row(row),
                                   static_cast<size_t>(out) * sizeof(float)))
              << "in " << in << " out " << out << " rows " << rows << " row " << row;
        }
      }
    }
  }
}

TEST(Bf16Dot, EmulatedInstructionPassesTheSameTests) {
  if (!isa_is_supported(Isa::kAvx512)) GTEST_SKIP() << "needs AVX-512";
  if (current_isa() != Isa::kAvx512) GTEST_SKIP() << "run with FORERUN_ISA=avx512";
  if (isa_is_supported(Isa::kAvx512Bf16)) GTEST_SKIP() << "this processor has the instruction";
  replace_linear_kernels_for_test(&kLinearBf16DotEmulated);
  EXPECT_STREQ(linear_kernels().name, "bf16_dot_emulated");
  sweep_shapes();
  check_row_invariance();
  replace_linear_kernels_for_test(nullptr);
}
#endif

}  // namespace
}  // namespace forerun
