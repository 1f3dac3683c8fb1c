// Tests integers in groups and FP8: with each option of a file, weights must be exact, take about
// as many bytes as in the file, and give products with the same bits in every batch; also tests
// inputs in a weight's own order.
#include "kernels/linear/formats/integer_packer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/sanitized.h"
#include "kernels/linear/linear_rig.h"

namespace forerun {
namespace {

constexpr int64_t kChannels = 37;

struct Option {
  int bits;
  DType scale_type;
  int32_t zero_count;  // 0 for symmetric
  int64_t group;       // 0 for all inputs
  WeightFormat expected;
};

constexpr Option kOptions[] = {
    {4, DType::kF16, 0, 32, WeightFormat::kQ4_0},
    {4, DType::kF16, 0, 96, WeightFormat::kQ4_0},
    {4, DType::kBf16, 0, 32, WeightFormat::kQ4_0Bf16},
    {4, DType::kF16, 0, 64, WeightFormat::kInt4},
    {4, DType::kBf16, 0, 128, WeightFormat::kInt4},
    {4, DType::kF16, 0, 0, WeightFormat::kInt4},
    {4, DType::kF16, 16, 32, WeightFormat::kInt4},
    {4, DType::kBf16, 16, 64, WeightFormat::kInt4},
    {4, DType::kF16, 16, 128, WeightFormat::kInt4},
    {4, DType::kBf16, 16, 384, WeightFormat::kInt4},
    {4, DType::kF16, 16, 0, WeightFormat::kInt4},
    {4, DType::kF16, 17, 32, WeightFormat::kInt4},  // GPTQ's files can have a zero point of 16
    {4, DType::kBf16, 17, 128, WeightFormat::kInt4},
    {8, DType::kF16, 0, 32, WeightFormat::kQ8_0},
    {8, DType::kBf16, 0, 32, WeightFormat::kInt8Groups},
    {8, DType::kF16, 0, 128, WeightFormat::kInt8Groups},
    {8, DType::kF16, 0, 0, WeightFormat::kInt8},
    {8, DType::kF32, 0, 0, WeightFormat::kInt8},
    {8, DType::kF16, 256, 32, WeightFormat::kInt8Groups},
    {8, DType::kBf16, 256, 64, WeightFormat::kInt8Groups},
    {8, DType::kF16, 257, 128, WeightFormat::kInt8Groups},
    {8, DType::kBf16, 256, 0, WeightFormat::kInt8Groups},
};

std::string name_of(const Option& option, int64_t in) {
  return std::to_string(option.bits) + " bits, " + std::string(dtype_name(option.scale_type)) +
         ", zeros below " + std::to_string(option.zero_count) + ", groups of " +
         std::to_string(option.group) + ", " + std::to_string(in) + " inputs";
}

// Returns the inputs to test an option with: whole groups, and not only whole chunks.
std::vector<int64_t> inputs_of(const Option& option) {
  if (option.group == 0) return {96, 576, 640, 45};
  return {2 * option.group, 3 * option.group, 7 * option.group};
}

TEST(Integers, EveryOptionHasTheBitsOfItsFormula) {
  for (const Option& option : kOptions) {
    for (int64_t in : inputs_of(option)) {
      SCOPED_TRACE(name_of(option, in));
      const int64_t group = option.group == 0 ? in : option.group;
      const GroupedIntegers source =
          random_integers(option.bits, group, option.scale_type, option.zero_count, 7);
      const Result<LinearWeight> packed = LinearWeight::pack_integers(kChannels, in, source);
      ASSERT_TRUE(packed.ok()) << packed.status().message();
      EXPECT_STREQ(weight_format_name(packed->format()), weight_format_name(option.expected));
      const Result<IntegerPlan> plan = plan_integers(kChannels, in, source);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      EXPECT_EQ(plan->format, packed->format());
      EXPECT_EQ(plan->bytes, static_cast<int64_t>(packed->bytes()));
      std::vector<float> w(static_cast<size_t>(kChannels * in));
      packed->dequantize(0, MatrixView<float>(w.data(), {kChannels, in}));
      const auto groups = static_cast<size_t>(in / group);
      for (int64_t out = 0; out < kChannels; ++out) {
        std::vector<uint8_t> q(static_cast<size_t>(in));
        std::vector<float> scales(groups);
        std::vector<int16_t> zeros(groups, option.bits == 4 ? 8 : 128);
        source.quants(out, MatrixView<uint8_t>(q.data(), {1, in}));
        source.scales(out, scales);
        if (source.zeros) source.zeros(out, zeros);
        for (int64_t k = 0; k < in; ++k) {
          const auto at = static_cast<size_t>(k / group);
          const float number = static_cast<float>(q[static_cast<size_t>(k)] - zeros[at]);
          ASSERT_EQ(w[static_cast<size_t>(out * in + k)], number * scales[at]) << out << " " << k;
        }
      }
    }
  }
}

TEST(Integers, KernelsReadAboutAsManyBytesAsAFileHas) {
  constexpr int64_t kOut = 64;
  constexpr int64_t kIn = 1152;
  for (const Option& option : kOptions) {
    // Groups of 96 have scales of 32 inputs.
    if (option.group == 96 && option.zero_count > 0) continue;
    SCOPED_TRACE(name_of(option, kIn));
    const int64_t group = option.group == 0 ? kIn : option.group;
    const LinearWeight packed =
        LinearWeight::pack_integers(
            kOut, kIn, random_integers(option.bits, group, option.scale_type, option.zero_count, 7))
            .value();
    const double scale_bits = option.scale_type == DType::kF32 ? 32 : 16;
    const double stored =
        option.bits + (scale_bits + (option.zero_count > 0 ? option.bits : 0)) / double(group);
    const double bits = 8.0 * static_cast<double>(packed.bytes()) / double(kOut * kIn);
    EXPECT_LE(bits, 1.1 * stored);
    if (std::getenv("FORERUN_PRINT_BITS") != nullptr) {
      std::printf("%-60s %-12s stored %.3f read %.3f\n", name_of(option, kIn).c_str(),
                  weight_format_name(packed.format()), stored, bits);
    }
  }
}

void run_rows(CpuDevice& cpu, const LinearWeight& weight, MatrixView<const float> x,
              Activation activation, MatrixView<float> y) {
  LinearInput input;
  cpu.run([&](const Team& team) {
    input.pack(team, x, activation, weight_formats(weight.format()), weight.input_order());
    team.sync();
    linear(team, weight, input, y);
  });
}

// Checks that rows match the reference and have the same bits alone and in batches of up to 70.
void check_rows(const LinearWeight& weight, Activation activation) {
  const int64_t in = weight.in_features();
  const int64_t out = weight.out_features();
  constexpr int64_t kRows = kSanitized ? 11 : 70;
  const auto cpu = device(2);
  Random random(4);
  PaddedMatrix x = random_input(kRows, in, random);
  PaddedMatrix alone(kRows, out);
  for (int64_t row = 0; row < kRows; ++row) {
    run_rows(*cpu, weight, MatrixView<const float>(x.view().row(row), {1, in}), activation,
             MatrixView<float>(alone.view().row(row), {1, out}));
  }
  for (int64_t rows = 2; rows <= kRows; rows += rows < 20 ? 1 : 10) {
    PaddedMatrix y(rows, out);
    run_rows(*cpu, weight, MatrixView<const float>(x.view().data(), {rows, in}, x.stride),
             activation, y.view());
    for (int64_t row = 0; row < rows; ++row) {
      // The test compares bits. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
      ASSERT_EQ(0, std::memcmp(y.view().row(row), alone.view().row(row),
                               static_cast<size_t>(out) * sizeof(float)))
          << "row " << row << " of " << rows;
    }
  }
  PaddedMatrix expected(3, out);
  linear_ref(weight, MatrixView<const float>(x.view().data(), {3, in}, x.stride), activation,
             expected.view());
  std::vector<float> w(static_cast<size_t>(out * in));
  weight.dequantize(0, MatrixView<float>(w.data(), {out, in}));
  for (int64_t row = 0; row < 3; ++row) {
    const float* const inputs = x.view().row(row);
    const float largest = *std::max_element(
        inputs, inputs + in, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    for (int64_t channel = 0; channel < out; ++channel) {
      double weights = 0.0;
      double products = 0.0;
      for (int64_t k = 0; k < in; ++k) {
        const double size =
            std::fabs(static_cast<double>(w[static_cast<size_t>(channel * in + k)]));
        weights += size;
        products += size * std::fabs(static_cast<double>(inputs[k]));
      }
      const bool digits = is_integer(weight.format()) && activation == Activation::kBf16;
      const double tolerance =
          products * 0x1p-20 + (digits ? weights * std::fabs(double{largest}) * 0x1p-14 : 0.0);
      ASSERT_TRUE(close(alone.view().row(row)[channel], expected.view().row(row)[channel],
                        tolerance + 1e-30))
          << "row " << row << " channel " << channel << ": " << alone.view().row(row)[channel]
          << " expected " << expected.view().row(row)[channel];
    }
  }
}

TEST(Integers, EveryOptionMultipliesRowsOfTheirOwn) {
  for (const Option& option : kOptions) {
    for (Activation activation : kActivations) {
      const int64_t in = inputs_of(option)[1];
      SCOPED_TRACE(name_of(option, in) + ", " + activation_name(activation));
      const GroupedIntegers source =
          random_integers(option.bits, option.group == 0 ? in : option.group, option.scale_type,
                          option.zero_count, 11);
      check_rows(LinearWeight::pack_integers(kChannels, in, source).value(), activation);
    }
  }
}

TEST(Integers, RangesOfChannelsPackToTheSameWeight) {
  for (const Option& option : kOptions) {
    const int64_t in = inputs_of(option)[1];
    SCOPED_TRACE(name_of(option, in));
    const GroupedIntegers source =
        random_integers(option.bits, option.group == 0 ? in : option.group, option.scale_type,
                        option.zero_count, 3);
    const LinearWeight whole = LinearWeight::pack_integers(kChannels, in, source).value();
    IntegerPacker packer = IntegerPacker::create(kChannels, in, source).value();
    packer.pack(16, kChannels - 16);
    packer.pack(0, 16);
    const LinearWeight parts = packer.finish();
    ASSERT_EQ(whole.bytes(), parts.bytes());
    EXPECT_EQ(0, std::memcmp(whole.storage().data, parts.storage().data, whole.bytes()));
  }
}

TEST(Integers, AnF32ScaleOf4BitsIsRoundedTo19BitsOfMantissa) {
  GroupedIntegers source = random_integers(4, 64, DType::kF32, 16, 5);
  source.scales = [](int64_t, std::span<float> scales) {
    std::fill(scales.begin(), scales.end(), 1.0f + 0x1p-18f + 0x1p-20f);
  };
  source.quants = [](int64_t, MatrixView<uint8_t> q) { std::fill_n(q.row(0), q.dim(1), 5); };
  source.zeros = [](int64_t, std::span<int16_t> zeros) {
    std::fill(zeros.begin(), zeros.end(), int16_t{4});
  };
  const LinearWeight weight = LinearWeight::pack_integers(1, 64, source).value();
  float w[64];
  weight.dequantize(0, MatrixView<float>(w, {1, 64}));
  EXPECT_EQ(w[63], 1.0f + 0x1p-18f);
}

TEST(Integers, WhatCannotBePackedIsRefused) {
  const auto message = [](int64_t in, const GroupedIntegers& source) {
    const Result<LinearWeight> packed = LinearWeight::pack_integers(5, in, source);
    return packed.ok() ? std::string("packed") : packed.status().message();
  };
  const GroupedIntegers good = random_integers(8, 64, DType::kF16, 256, 1);
  EXPECT_EQ(message(128, good), "packed");
  GroupedIntegers source = good;
  source.bits = 3;
  EXPECT_EQ(message(128, source), "bits: found 3; accepted: 4, 8");
  source = good;
  source.group = 48;
  EXPECT_EQ(message(96, source),
            "group_size: found 48 with 96 inputs; accepted: multiples of 32 that divide the "
            "inputs, or all inputs");
  source = good;
  source.zeros = [](int64_t, std::span<int16_t> zeros) { zeros.back() = 257; };
  EXPECT_NE(message(128, source).find("zero points: found 257"), std::string::npos);
  source.zeros = [](int64_t, std::span<int16_t> zeros) { zeros.back() = -1; };
  EXPECT_NE(message(128, source).find("zero points: found -1"), std::string::npos);
  source = good;
  source.scales = [](int64_t, std::span<float> scales) {
    std::fill(scales.begin(), scales.end(), kInfinity);
  };
  EXPECT_NE(message(128, source).find("scales: found inf"), std::string::npos);
  source.scales = [](int64_t, std::span<float> scales) {
    std::fill(scales.begin(), scales.end(), 0.1f);
  };
  source.scale_type = DType::kF32;
  EXPECT_NE(message(128, source).find("15 bits of mantissa"), std::string::npos);
  source.has_short_scales = false;
  EXPECT_NE(message(128, source).find("15 bits of mantissa"), std::string::npos);
  EXPECT_EQ(plan_integers(5, 128, source).status().code(), StatusCode::kUnsupported);
  const auto order = [&](std::vector<int32_t> inputs) {
    source = good;
    source.order = std::make_shared<const std::vector<int32_t>>(std::move(inputs));
    return message(128, source);
  };
  std::vector<int32_t> inputs(128);
  std::iota(inputs.begin(), inputs.end(), 0);
  EXPECT_EQ(order(inputs), "packed");
  inputs[3] = 4;
  EXPECT_NE(order(inputs).find("order of inputs: found 4"), std::string::npos);
  inputs[3] = 128;
  EXPECT_NE(order(inputs).find("order of inputs: found 128"), std::string::npos);
  inputs.resize(3);
  EXPECT_NE(order(inputs).find("order of inputs: found 3 inputs"), std::string::npos);
}

std::shared_ptr<const std::vector<int32_t>> random_order(int64_t in, uint32_t seed) {
  std::vector<int32_t> order(static_cast<size_t>(in));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return std::make_shared<const std::vector<int32_t>>(std::move(order));
}

// Returns x with its inputs in an order.
PaddedMatrix gathered(PaddedMatrix& x, const std::vector<int32_t>& order) {
  PaddedMatrix made(x.row_count, x.col_count);
  for (int64_t row = 0; row < x.row_count; ++row) {
    for (size_t k = 0; k < order.size(); ++k) {
      made.view().row(row)[k] = x.view().row(row)[order[k]];
    }
  }
  return made;
}

TEST(InputOrder, HasTheBitsOfInputsThatComeInTheOrder) {
  constexpr int64_t kIn = 576;
  for (const Option& option : kOptions) {
    const int64_t group = option.group == 0 ? kIn : option.group;
    if (kIn % group != 0) continue;
    GroupedIntegers source =
        random_integers(option.bits, group, option.scale_type, option.zero_count, 9);
    const LinearWeight plain = LinearWeight::pack_integers(kChannels, kIn, source).value();
    source.order = random_order(kIn, 6);
    const LinearWeight ordered = LinearWeight::pack_integers(kChannels, kIn, source).value();
    EXPECT_TRUE(plain.input_order().empty());
    ASSERT_EQ(ordered.input_order().size(), size_t{kIn});
    std::vector<float> w(kIn);
    std::vector<float> packed(kIn);
    plain.dequantize(kChannels - 1, MatrixView<float>(packed.data(), {1, kIn}));
    ordered.dequantize(kChannels - 1, MatrixView<float>(w.data(), {1, kIn}));
    for (size_t k = 0; k < packed.size(); ++k) {
      ASSERT_EQ(w[static_cast<size_t>((*source.order)[k])], packed[k]);
    }
    const auto cpu = device(2);
    Random random(1);
    for (Activation activation : kActivations) {
      for (int64_t rows : {1, 9}) {
        SCOPED_TRACE(name_of(option, kIn) + ", " + activation_name(activation));
        PaddedMatrix x = random_input(rows, kIn, random);
        PaddedMatrix y(rows, kChannels);
        run_rows(*cpu, ordered, x.view(), activation, y.view());
        PaddedMatrix expected(rows, kChannels);
        run_rows(*cpu, plain, gathered(x, *source.order).view(), activation, expected.view());
        for (int64_t row = 0; row < rows; ++row) {
          // The test compares bits. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
          ASSERT_EQ(0, std::memcmp(y.view().row(row), expected.view().row(row),
                                   kChannels * sizeof(float)));
        }
      }
    }
    check_rows(ordered, Activation::kBf16);
  }
}

TEST(InputOrder, GateAndUpMayHaveDifferentOrders) {
  constexpr int64_t kIn = 256;
  GroupedIntegers source = random_integers(4, 64, DType::kF16, 16, 2);
  source.order = random_order(kIn, 1);
  const LinearWeight gate = LinearWeight::pack_integers(72, kIn, source).value();
  source.order = random_order(kIn, 2);
  const LinearWeight up = LinearWeight::pack_integers(72, kIn, source).value();
  EXPECT_TRUE(same_input_order(gate.input_order(), gate.input_order()));
  EXPECT_FALSE(same_input_order(gate.input_order(), up.input_order()));
  EXPECT_FALSE(same_input_order(gate.input_order(), {}));
  const auto cpu = device(2);
  for (int64_t rows : {1, 9, 37, 300}) {
    Random random(3);
    PaddedMatrix x = random_input(rows, kIn, random);
    PaddedMatrix y(rows, 72);
    LinearInput inputs[2];
    const WeightFormats formats = weight_formats(WeightFormat::kInt4);
    cpu->run([&](const Team& team) {
      inputs[0].pack(team, x.view(), Activation::kBf16, formats, gate.input_order());
      inputs[1].pack(team, x.view(), Activation::kBf16, formats, up.input_order());
      team.sync();
      gate_up_swiglu(team, gate, inputs[0], up, inputs[1], {}, {}, y.view());
    });
    PaddedMatrix gates(rows, 72);
    PaddedMatrix ups(rows, 72);
    run_rows(*cpu, gate, x.view(), Activation::kBf16, gates.view());
    run_rows(*cpu, up, x.view(), Activation::kBf16, ups.view());
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t out = 0; out < 72; ++out) {
        const double g = static_cast<double>(gates.view().row(row)[out]);
        const double expected =
            g / (1.0 + std::exp(-g)) * static_cast<double>(ups.view().row(row)[out]);
        ASSERT_TRUE(close(y.view().row(row)[out], static_cast<float>(expected),
                          std::fabs(expected) * 4e-6 + 1e-30));
      }
    }
  }
}

// Returns the number of an e4m3 code, by its definition.
double e4m3(int code) {
  const int exponent = code >> 3 & 15;
  const double mantissa = (code & 7) / 8.0 + (exponent > 0 ? 1.0 : 0.0);
  return std::ldexp(mantissa, std::max(exponent, 1) - 7) * (code < 128 ? 1.0 : -1.0);
}

TEST(Fp8, EveryCodeTimesEveryBlocksScale) {
  constexpr int64_t kOut = 300;
  constexpr int64_t kIn = 333;
  std::vector<uint8_t> codes(kOut * kIn);
  for (size_t at = 0; at < codes.size(); ++at) {
    codes[at] = static_cast<uint8_t>(at % 251 + at / 251);
    if ((codes[at] & 0x7f) == 0x7f) codes[at] = 1;
  }
  const int64_t blocks[][2] = {{1, 128}, {1, kIn}, {128, 128}, {128, 4096}, {kOut, kIn}, {64, 32}};
  for (const auto& [block_out, block_in] : blocks) {
    SCOPED_TRACE(testing::Message() << block_out << " x " << block_in);
    const int64_t rows = (kOut + block_out - 1) / block_out;
    const int64_t cols = (kIn + block_in - 1) / block_in;
    Random random(1);
    std::vector<float> scales(static_cast<size_t>(rows * cols));
    for (float& scale : scales) scale = 0.03f * random.normal();
    const LinearWeight weight =
        LinearWeight::view_fp8(
            MatrixView<const uint8_t>(codes.data(), {kOut, kIn}),
            {MatrixView<const float>(scales.data(), {rows, cols}), block_out, block_in})
            .value();
    std::vector<float> w(codes.size());
    weight.dequantize(0, MatrixView<float>(w.data(), {kOut, kIn}));
    for (int64_t out = 0; out < kOut; ++out) {
      for (int64_t in = 0; in < kIn; ++in) {
        const auto at = static_cast<size_t>(out * kIn + in);
        const float scale = scales[static_cast<size_t>(out / block_out * cols + in / block_in)];
        ASSERT_EQ(w[at], static_cast<float>(e4m3(codes[at]) * static_cast<double>(scale)));
      }
    }
    EXPECT_LE(static_cast<double>(weight.bytes()),
              1.1 * static_cast<double>(codes.size()) + 4.0 * static_cast<double>(scales.size()));
    for (Activation activation : kActivations) check_rows(weight, activation);
  }
}

// Kernels must multiply by the same weights, bit for bit, that dequantize() writes.
TEST(Fp8, AOneAmongZerosReadsAWeight) {
  std::vector<uint8_t> codes(256);
  std::iota(codes.begin(), codes.end(), uint8_t{0});
  codes[0x7f] = codes[0xff] = 0;
  const float scales[] = {0.37f, -1.7e-39f};
  const LinearWeight weight =
      LinearWeight::view_fp8(MatrixView<const uint8_t>(codes.data(), {1, 256}),
                             {MatrixView<const float>(scales, {1, 2}), 1, 128})
          .value();
  float w[256];
  weight.dequantize(0, MatrixView<float>(w, {1, 256}));
  PaddedMatrix x(256, 256);
  for (int64_t row = 0; row < 256; ++row) {
    std::fill_n(x.view().row(row), 256, 0.0f);
    x.view().row(row)[row] = 1.0f;
  }
  PaddedMatrix y(256, 1);
  run_rows(*device(1), weight, x.view(), Activation::kF32, y.view());
  for (int64_t row = 0; row < 256; ++row) EXPECT_EQ(y.view().row(row)[0], w[row]) << row;
}

TEST(Fp8, WhatKernelsCannotReadIsRefused) {
  std::vector<uint8_t> codes(2 * 45, 0x38);
  std::vector<float> scales(4, 1.0f);
  const auto message = [&](int64_t rows, int64_t cols, int64_t block_out, int64_t block_in) {
    const Result<LinearWeight> weight = LinearWeight::view_fp8(
        MatrixView<const uint8_t>(codes.data(), {2, 45}),
        {MatrixView<const float>(scales.data(), {rows, cols}), block_out, block_in});
    return weight.ok() ? std::string("read") : weight.status().message();
  };
  EXPECT_EQ(message(2, 1, 1, 45), "read");
  EXPECT_EQ(message(1, 1, 128, 128), "read");
  EXPECT_EQ(message(1, 2, 2, 32), "read");
  EXPECT_EQ(message(1, 2, 2, 40),
            "FP8 scales: found blocks of 2 channels x 40 inputs; accepted: any number of channels, "
            "all inputs or a multiple of 32");
  EXPECT_EQ(message(1, 1, 1, 128), "FP8 scales: found shape [1, 1]; accepted: [2, 1]");
  for (uint8_t nan : {uint8_t{0x7f}, uint8_t{0xff}}) {
    for (size_t at : {size_t{45}, size_t{52}, size_t{89}}) {
      codes[at] = nan;
      EXPECT_EQ(message(2, 1, 1, 45),
                "FP8 weights: found NaN in output channel 1; accepted: numbers");
      codes[at] = 0xfe;
      EXPECT_EQ(message(2, 1, 1, 45), "read");
    }
  }
  for (float scale : {kInfinity, -kInfinity, kNan, 1e38f}) {
    scales[1] = scale;
    EXPECT_NE(message(2, 1, 1, 45).find("FP8 scales: found"), std::string::npos);
  }
}

}  // namespace
}  // namespace forerun
