// Compares gate_up_swiglu() with the reference implementation, and tests silu in every lane.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/linear/linear_rig.h"

namespace forerun {
namespace {

TEST(GateUpSwiglu, MatchesReferenceAndItsOwnRowsAlone) {
  for (WeightFormat format : kFormats) {
    for (Activation activation : kActivations) {
      if (!is_there(format, activation)) continue;
      SCOPED_TRACE(testing::Message()
                   << weight_format_name(format) << " " << activation_name(activation));
      Random random(3);
      constexpr int64_t kRows = 19;
      constexpr int64_t kOut = 72;
      constexpr int64_t kIn = 256;
      const TestWeight gate = make_weight(format, kOut, kIn, 128, random);
      const TestWeight up = make_weight(format, kOut, kIn, 128, random);
      PaddedMatrix x = random_input(kRows, kIn, random);
      std::vector<float> gate_bias(kOut, 0.25f);
      std::vector<float> up_bias(kOut, -0.5f);
      PaddedMatrix y(kRows, kOut);
      PaddedMatrix alone(1, kOut);
      PaddedMatrix expected(kRows, kOut);
      const auto cpu = device(2);
      LinearInput input;
      input.reserve(kRows, kIn, activation);
      cpu->run([&](const Team& team) {
        input.pack(team, x.view(), activation);
        team.sync();
        gate_up_swiglu(team, gate.weight, up.weight, input, gate_bias, up_bias, y.view());
        team.sync();
        input.pack(team, MatrixView<const float>(x.view().row(7), {1, kIn}), activation);
        team.sync();
        gate_up_swiglu(team, gate.weight, up.weight, input, gate_bias, up_bias, alone.view());
      });
      // The test compares bits. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
      EXPECT_EQ(0, std::memcmp(alone.view().row(0), y.view().row(7), kOut * sizeof(float)));
      EXPECT_TRUE(y.padding_is_untouched());
      gate_up_swiglu_ref(gate.weight, up.weight, x.view(), activation, gate_bias, up_bias,
                         expected.view());
      // The error of the sums passes through silu and the product.
      double largest = 0.0;
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t out = 0; out < kOut; ++out) {
          largest =
              std::max(largest, std::fabs(static_cast<double>(expected.view().row(row)[out])));
        }
      }
      const bool digits = is_integer(format) && activation == Activation::kBf16;
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t out = 0; out < kOut; ++out) {
          ASSERT_TRUE(close(y.view().row(row)[out], expected.view().row(row)[out],
                            largest * (digits ? 2e-3 : 2e-5)))
              << row << " " << out << ": " << y.view().row(row)[out] << " expected "
              << expected.view().row(row)[out];
        }
      }
    }
  }
}

// Each of the two weights uses its own format: the products must be those of separate weights.
TEST(GateUpSwiglu, GateAndUpMayHaveDifferentFormats) {
  const WeightFormat formats[] = {WeightFormat::kF32, WeightFormat::kBf16Pairs, WeightFormat::kInt4,
                                  WeightFormat::kQ4_K, WeightFormat::kQ6_K};
  constexpr int64_t kOut = 72;
  constexpr int64_t kIn = 256;
  const auto cpu = device(2);
  for (int64_t rows : {1, 9, 37, 300}) {
    for (WeightFormat gate_format : formats) {
      for (WeightFormat up_format : formats) {
        const Activation activation = Activation::kBf16;
        if (!is_there(gate_format, activation) || !is_there(up_format, activation)) continue;
        SCOPED_TRACE(testing::Message() << weight_format_name(gate_format) << " "
                                        << weight_format_name(up_format) << " rows " << rows);
        Random random(8);
        const TestWeight gate = make_weight(gate_format, kOut, kIn, 128, random);
        const TestWeight up = make_weight(up_format, kOut, kIn, 128, random);
        PaddedMatrix x = random_input(rows, kIn, random);
        PaddedMatrix y(rows, kOut);
        PaddedMatrix gates(rows, kOut);
        PaddedMatrix ups(rows, kOut);
        LinearInput input;
        cpu->run([&](const Team& team) {
          input.pack(team, x.view(), activation,
                     weight_formats(gate_format) | weight_formats(up_format));
          team.sync();
          gate_up_swiglu(team, gate.weight, up.weight, input, {}, {}, y.view());
          linear(team, gate.weight, input, gates.view());
          linear(team, up.weight, input, ups.view());
        });
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t out = 0; out < kOut; ++out) {
            const double g = static_cast<double>(gates.view().row(row)[out]);
            const double expected =
                g / (1.0 + std::exp(-g)) * static_cast<double>(ups.view().row(row)[out]);
            ASSERT_TRUE(close(y.view().row(row)[out], static_cast<float>(expected),
                              std::fabs(expected) * 4e-6 + 1e-30))
                << row << " " << out << ": " << y.view().row(row)[out] << " expected " << expected;
          }
        }
      }
    }
  }
}

TEST(GateUpSwiglu, SiluIsAccurateAtEveryPositionOfAVector) {
  // With identity weights, gate and up are the inputs themselves.
  constexpr int64_t kSize = 53;
  std::vector<float> identity(kSize * kSize, 0.0f);
  for (int64_t idx = 0; idx < kSize; ++idx) identity[static_cast<size_t>(idx * (kSize + 1))] = 1.0f;
  const LinearWeight weight =
      LinearWeight::view(MatrixView<const float>(identity.data(), {kSize, kSize}));
  const auto cpu = device(1);
  for (float value : {-200.0f, -87.5f, -30.0f, -5.0f, -1.0f, -0.01f, -1e-20f, 0.0f, 1e-6f, 0.3f,
                      1.0f, 2.5f, 20.0f, 90.0f, 1000.0f}) {
    PaddedMatrix x(1, kSize);
    for (int64_t idx = 0; idx < kSize; ++idx) x.view().row(0)[idx] = value;
    PaddedMatrix y(1, kSize);
    LinearInput input;
    cpu->run([&](const Team& team) {
      input.pack(team, x.view(), Activation::kF32);
      gate_up_swiglu(team, weight, weight, input, {}, {}, y.view());
    });
    const double exact = static_cast<double>(value);
    const double expected = exact / (1.0 + std::exp(-exact)) * exact;
    for (int64_t idx = 0; idx < kSize; ++idx) {
      EXPECT_EQ(y.view().row(0)[idx], y.view().row(0)[0]);
    }
    EXPECT_NEAR(y.view().row(0)[0], expected, std::fabs(expected) * 2e-6 + 1e-32) << value;
  }
}

}  // namespace
}  // namespace forerun
