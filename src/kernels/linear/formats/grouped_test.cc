// Tests the packing of grouped weights: every weight must have the bits of its formula, and take as
// many bytes as in a file.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/linear/linear_rig.h"

namespace forerun {
namespace {

float half(uint16_t bits) { return to_float(std::bit_cast<f16>(bits)); }

// Computes the formula of a format directly, without its table.
float expected_weight(const std::string& name, const GroupedBlock& block, int64_t in) {
  static constexpr int kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
  static constexpr float kFp4[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                     -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
  const float d = half(block.d);
  const float m = half(block.dmin);
  const int q = block.q[in];
  const auto number = [](int value) { return static_cast<float>(value); };
  if (name == "q4_0") return d * number(q - 8);
  if (name == "q4_0_bf16") return to_float(std::bit_cast<bf16>(block.d)) * number(q - 8);
  if (name == "q5_0") return d * number(q - 16);
  if (name == "q8_0") return d * number(q - 128);
  if (name == "q4_1" || name == "q5_1") return d * number(q) + m;
  if (name == "iq4_nl") return d * number(kIq4[q]);
  if (name == "mxfp4") {
    const double value = std::ldexp(static_cast<double>(kFp4[q]), block.d - 127);
    return value == 0.0 ? 0.0f : static_cast<float>(value);
  }
  const float by_16 = d * number(block.scale[in / 16]);
  const float by_32 = d * number(block.scale[in / 32]);
  if (name == "q2_k") return by_16 * number(q) - m * number(block.min[in / 16]);
  if (name == "q3_k") return by_16 * number(q - 4);
  if (name == "q4_k" || name == "q5_k") return by_32 * number(q) - m * number(block.min[in / 32]);
  if (name == "q6_k") return by_16 * number(q - 32);
  if (name == "iq4_xs") return by_32 * number(kIq4[q]);
  ADD_FAILURE() << "no formula for " << name;
  return kNan;
}

// Returns the bits per weight in a file.
double stored_bits(const std::string& name) {
  if (name == "q4_0" || name == "q4_0_bf16" || name == "iq4_nl" || name == "q4_k") return 4.5;
  if (name == "q4_1") return 5.0;
  if (name == "q5_0" || name == "q5_k") return 5.5;
  if (name == "q5_1") return 6.0;
  if (name == "q8_0") return 8.5;
  if (name == "q2_k") return 2.625;
  if (name == "q3_k") return 3.4375;
  if (name == "q6_k") return 6.5625;
  if (name == "iq4_xs" || name == "mxfp4") return 4.25;
  ADD_FAILURE() << "no size for " << name;
  return 0.0;
}

TEST(Grouped, DequantizedWeightsHaveTheBitsOfTheFormula) {
  for (const GroupedFormat& format : kGroupedFormats) {
    for (int64_t blocks : {1, 3, 9}) {
      constexpr int64_t kOut = 37;
      const int64_t in = blocks * block_inputs(format);
      const auto source = [&](int64_t out, int64_t block, std::span<GroupedBlock> to) {
        for (GroupedBlock& at : to) {
          at = random_block(format, 5, out, block);
          // Scales have any size: zeros, subnormals, the smallest and the largest exponents.
          if (out % 4 == 1) at.d = static_cast<uint16_t>(block % 3);
          if (out % 4 == 2 && format.scale == GroupScale::kE8m0) {
            at.d = static_cast<uint16_t>(252 - block % 3);
          }
          ++block;
        }
      };
      const LinearWeight weight = LinearWeight::pack_grouped(format.format, kOut, in, source);
      std::vector<float> row(static_cast<size_t>(in));
      for (int64_t out = 0; out < kOut; ++out) {
        weight.dequantize(out, MatrixView<float>(row.data(), {1, in}));
        for (int64_t k = 0; k < in; ++k) {
          GroupedBlock block;
          source(out, k / block_inputs(format), {&block, 1});
          const float expected = expected_weight(format.name, block, k % block_inputs(format));
          ASSERT_EQ(std::bit_cast<uint32_t>(row[static_cast<size_t>(k)]),
                    std::bit_cast<uint32_t>(expected))
              << format.name << " channel " << out << " input " << k << ": "
              << row[static_cast<size_t>(k)] << " expected " << expected;
        }
      }
    }
  }
}

TEST(Grouped, KernelsReadAboutAsManyBytesAsAFileHas) {
  for (const GroupedFormat& format : kGroupedFormats) {
    Random random(1);
    const TestWeight made = make_grouped(format.format, 64, 2304, random);
    const double bits = 8.0 * static_cast<double>(made.weight.bytes()) / (64.0 * 2304.0);
    EXPECT_LE(bits, 1.1 * stored_bits(format.name)) << format.name;
    EXPECT_GE(bits, stored_bits(format.name)) << format.name;
  }
}

TEST(Grouped, RangesOfChannelsPackToTheSameWeight) {
  constexpr int64_t kOut = 53;
  for (const GroupedFormat& format : kGroupedFormats) {
    const auto source = [&](int64_t out, int64_t block, std::span<GroupedBlock> to) {
      for (GroupedBlock& at : to) at = random_block(format, 6, out, block++);
    };
    const LinearWeight whole = LinearWeight::pack_grouped(format.format, kOut, 768, source);
    GroupedPacker packer(format.format, kOut, 768);
    packer.pack(32, kOut - 32, source);
    packer.pack(0, 32, source);
    const LinearWeight parts = packer.finish();
    ASSERT_EQ(whole.bytes(), parts.bytes());
    EXPECT_EQ(0, std::memcmp(whole.storage().data, parts.storage().data, whole.bytes()))
        << format.name;
  }
}

// Tests the largest quants, scales and inputs at once: integer sums must not overflow.
TEST(Grouped, SumsOfTheLargestIntegersAreExact) {
  for (const GroupedFormat& format : kGroupedFormats) {
    for (Activation activation : kActivations) {
      for (float input : {-1.0f, 1.0f}) {
        constexpr int64_t kIn = 512;
        const LinearWeight weight = LinearWeight::pack_grouped(
            format.format, 16, kIn, [&](int64_t out, int64_t, std::span<GroupedBlock> to) {
              for (GroupedBlock& at : to) {
                at = {};
                for (uint8_t& q : at.q)
                  q = static_cast<uint8_t>(out % 2 == 0 ? (1 << format.bits) - 1 : 0);
                for (int8_t& scale : at.scale) scale = 1;
                at.d = format.scale == GroupScale::kE8m0   ? 128
                       : format.scale == GroupScale::kBf16 ? 0x3f80
                                                           : 0x3c00;
              }
            });
        std::vector<float> all(static_cast<size_t>(16 * kIn));
        weight.dequantize(0, MatrixView<float>(all.data(), {16, kIn}));
        PaddedMatrix x(3, kIn);
        for (int64_t row = 0; row < 3; ++row) {
          for (int64_t k = 0; k < kIn; ++k) x.view().row(row)[k] = input;
        }
        PaddedMatrix y(3, 16);
        LinearInput packed;
        device(1)->run([&](const Team& team) {
          packed.pack(team, x.view(), activation, weight_formats(format.format));
          team.sync();
          linear(team, weight, packed, y.view());
        });
        for (int64_t out = 0; out < 16; ++out) {
          const float expected = all[static_cast<size_t>(out * kIn)] * input * float{kIn};
          EXPECT_TRUE(close(y.view().row(2)[out], expected, std::fabs(expected) * 1e-6))
              << format.name << " " << activation_name(activation) << " " << out << ": "
              << y.view().row(2)[out] << " expected " << expected;
        }
      }
    }
  }
}

}  // namespace
}  // namespace forerun
