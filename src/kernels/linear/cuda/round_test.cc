// Tests weights rounded on a GPU. Int4 must have the same bits as packed AutoAWQ tensors with
// integers from plain loops. Int8 must have the integers and scales of plain loops, at the places
// that the tensor core's fragments require.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/cuda_testing.h"
#include "kernels/linear/cuda/linear.h"

namespace forerun::cuda {
namespace {

struct Int4Tensors {
  std::vector<uint32_t> qweight, qzeros;  // AutoAWQ's layout
  std::vector<uint16_t> scales;
};

// Rounds as documented for round_bf16_to_int4().
Int4Tensors rounded(const std::vector<uint16_t>& weight, int64_t in, int64_t out) {
  constexpr int kNibbleOfColumn[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  const auto words = static_cast<size_t>(out / 8);
  Int4Tensors made{std::vector<uint32_t>(static_cast<size_t>(in) * words),
                   std::vector<uint32_t>(static_cast<size_t>(in / kInt4Group) * words),
                   std::vector<uint16_t>(static_cast<size_t>(in / kInt4Group * out))};
  const auto put = [&](std::vector<uint32_t>& to, int64_t row, int64_t column, float value) {
    to[static_cast<size_t>(row) * words + static_cast<size_t>(column / 8)] |=
        static_cast<uint32_t>(value) << (4 * kNibbleOfColumn[column % 8]);
  };
  for (int64_t output = 0; output < out; ++output) {
    for (int64_t group = 0; group < in / kInt4Group; ++group) {
      const auto w = [&](int64_t k) {
        return to_float(bf16{weight[static_cast<size_t>(output * in + group * kInt4Group + k)]});
      };
      float low = 0.0f;
      float high = 0.0f;
      for (int64_t k = 0; k < kInt4Group; ++k) {
        low = std::min(low, w(k));
        high = std::max(high, w(k));
      }
      const f16 scale = to_f16((high - low) / 15.0f);
      const float step = to_float(scale);
      const float zero = step > 0 ? std::min(std::nearbyint(-low / step), 15.0f) : 0.0f;
      made.scales[static_cast<size_t>(group * out + output)] = scale.bits;
      put(made.qzeros, group, output, zero);
      for (int64_t k = 0; k < kInt4Group; ++k) {
        const float q = step > 0 ? std::nearbyint(w(k) / step) + zero : 0.0f;
        put(made.qweight, group * kInt4Group + k, output, std::clamp(q, 0.0f, 15.0f));
      }
    }
  }
  return made;
}

TEST(LinearRoundCuda, MakesTheIntegersOfPlainLoops) {
  SKIP_WITHOUT_GPUS(1);
  const auto stream = Stream::create();
  ASSERT_TRUE(stream.ok());
  // The shapes have whole and partial tiles, and even and odd numbers of groups.
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{256, 96}, {384, 40}, {128, 8}}) {
    std::vector<uint16_t> weight =
        random_bf16(static_cast<size_t>(in * out), 0.05f, static_cast<uint32_t>(in));
    const auto set = [&](int64_t output, int64_t from, int64_t to, float value) {
      std::fill(weight.begin() + output * in + from, weight.begin() + output * in + to,
                to_bf16(value).bits);
    };
    set(0, 0, 128, 0.0f);   // a group of zeros
    set(1, 0, 128, 0.25f);  // a group of a single sign
    set(2, 0, 128, -0.25f);
    set(3, 5, 6, 40.0f);     // an outlier
    set(4, 0, 128, 1e-12f);  // below the smallest scale
    const Int4Tensors expected = rounded(weight, in, out);
    const auto plan = plan_linear(LinearFormat::kInt4Group128, in, out);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    auto packed = LinearWeightCuda::allocate(*plan);
    auto made = LinearWeightCuda::allocate(*plan);
    ASSERT_TRUE(packed.ok() && made.ok());
    const DeviceBuffer qweight = to_device(expected.qweight);
    const DeviceBuffer qzeros = to_device(expected.qzeros);
    const DeviceBuffer scales = to_device(expected.scales);
    ASSERT_OK(packed->pack_awq(qweight.as<uint32_t>(), qzeros.as<uint32_t>(), scales.as<__half>(),
                               out, OutputPlacement::kPlain, 0, stream->get()));
    const DeviceBuffer source = to_device(weight);
    ASSERT_OK(made->round_bf16_to_int4(source.as<__nv_bfloat16>(), out, OutputPlacement::kPlain, 0,
                                       stream->get()));
    ASSERT_OK(stream->synchronize());
    std::vector<std::byte> a(plan->weight_bytes());
    std::vector<std::byte> b(plan->weight_bytes());
    ASSERT_EQ(cudaMemcpy(a.data(), packed->data(), a.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(b.data(), made->data(), b.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0) << in << " x " << out;
  }
}

// Parts of a fused weight must lie where their integers would.
TEST(LinearRoundCuda, PartsLieWhereTheirIntegersWould) {
  SKIP_WITHOUT_GPUS(1);
  constexpr int64_t kIn = 256;
  struct Part {
    int64_t outputs;
    OutputPlacement placement;
    int64_t first_output;
  };
  const std::vector<Part> fused[] = {
      {{48, OutputPlacement::kPlain, 0}, {40, OutputPlacement::kPlain, 64}},
      {{48, OutputPlacement::kGate, 0}, {48, OutputPlacement::kUp, 0}}};
  for (const std::vector<Part>& parts : fused) {
    const auto plan = plan_linear(LinearFormat::kInt4Group128, kIn, 104);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    std::vector<std::vector<std::byte>> made;
    for (const bool rounds : {false, true}) {
      auto weight = LinearWeightCuda::allocate(*plan);
      ASSERT_TRUE(weight.ok());
      ASSERT_EQ(cudaMemset(weight->mutable_data(), 0, plan->weight_bytes()), cudaSuccess);
      for (const Part& part : parts) {
        const auto values = random_bf16(
            static_cast<size_t>(kIn * part.outputs), 0.05f,
            static_cast<uint32_t>(part.first_output) + (part.placement == OutputPlacement::kUp));
        const Int4Tensors integers = rounded(values, kIn, part.outputs);
        const DeviceBuffer source = to_device(values);
        const DeviceBuffer qweight = to_device(integers.qweight);
        const DeviceBuffer qzeros = to_device(integers.qzeros);
        const DeviceBuffer scales = to_device(integers.scales);
        if (rounds) {
          ASSERT_OK(weight->round_bf16_to_int4(source.as<__nv_bfloat16>(), part.outputs,
                                               part.placement, part.first_output, nullptr));
        } else {
          ASSERT_OK(weight->pack_awq(qweight.as<uint32_t>(), qzeros.as<uint32_t>(),
                                     scales.as<__half>(), part.outputs, part.placement,
                                     part.first_output, nullptr));
        }
        ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      }
      made.emplace_back(plan->weight_bytes());
      ASSERT_EQ(cudaMemcpy(made.back().data(), weight->data(), made.back().size(),
                           cudaMemcpyDeviceToHost),
                cudaSuccess);
    }
    EXPECT_EQ(made[0], made[1]);
  }
}

TEST(LinearRoundCuda, MakesTheInt8OfPlainLoops) {
  SKIP_WITHOUT_GPUS(1);
  constexpr int64_t kUnit = unit_bytes(LinearFormat::kInt8Group64);
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{192, 96}, {64, 45}}) {
    std::vector<uint16_t> weight =
        random_bf16(static_cast<size_t>(in * out), 0.05f, static_cast<uint32_t>(in));
    std::fill_n(weight.begin(), kInt8Group, uint16_t{0});                // zeros
    std::fill_n(weight.begin() + in, kInt8Group, to_bf16(-0.25f).bits);  // one magnitude
    // These values are below the smallest scale.
    std::fill_n(weight.begin() + 2 * in, kInt8Group, to_bf16(1e-12f).bits);
    weight[static_cast<size_t>(3 * in + 5)] = to_bf16(40.0f).bits;  // an outlier
    std::fill_n(weight.begin() + 4 * in, kInt8Group,
                to_bf16(1.0f / 300).bits);  // scale rounds down
    const auto plan = plan_linear(LinearFormat::kInt8Group64, in, out);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    auto made = LinearWeightCuda::allocate(*plan);
    ASSERT_TRUE(made.ok());
    const DeviceBuffer source = to_device(weight);
    ASSERT_OK(made->round_bf16_to_int8(source.as<__nv_bfloat16>(), out, nullptr));
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    std::vector<uint8_t> bytes(plan->weight_bytes());
    ASSERT_EQ(cudaMemcpy(bytes.data(), made->data(), bytes.size(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    for (int64_t output = 0; output < out; ++output) {
      const int64_t f = output % kTileOutputs;  // lane group f / 4, half and row of the fragment
      const int64_t half = f / 2 % 2;
      const int64_t upper = f % 2;
      for (int64_t unit = 0; unit < in / kInt8Group; ++unit) {
        const uint8_t* const at =
            bytes.data() + (output / kTileOutputs * (in / kInt8Group) + unit) * kUnit;
        const auto w = [&](int64_t k) {
          return to_float(bf16{weight[static_cast<size_t>(output * in + unit * kInt8Group + k)]});
        };
        float most = 0.0f;
        for (int64_t k = 0; k < kInt8Group; ++k) most = std::max(most, std::abs(w(k)));
        const f16 scale = to_f16(most / 127.0f);
        f16 found;
        std::memcpy(&found, at + 2048 + (f / 4 * 4 + half * 2 + upper) * 2, sizeof(found));
        ASSERT_EQ(found.bits, scale.bits) << output << ", unit " << unit;
        for (int64_t k = 0; k < kInt8Group; ++k) {
          const float step = to_float(scale);
          const float q = step > 0 ? std::clamp(std::nearbyint(w(k) / step), -127.0f, 127.0f) : 0;
          // A vector has two steps of 16 inputs; a step has the first 8 inputs' word, then the
          // others'.
          const int64_t lane = f / 4 * 4 + k % 8 / 2;
          const int64_t byte =
              ((half * 2 + k / 32) * 32 + lane) * 16 + k / 8 % 4 * 4 + upper * 2 + k % 2;
          ASSERT_EQ(at[byte], static_cast<uint8_t>(q + 128)) << output << ", input " << k;
        }
      }
    }
  }
}

// A tokenizer's vocabulary may be any number: outputs past it must be zeros.
TEST(LinearRoundCuda, OutputsNeedNotBeWholeWords) {
  SKIP_WITHOUT_GPUS(1);
  constexpr int64_t kIn = 256;
  std::vector<uint16_t> weight = random_bf16(kIn * 64, 0.05f, 7);
  std::fill(weight.begin() + kIn * 45, weight.end(), uint16_t{0});
  const DeviceBuffer source = to_device(weight);
  std::vector<std::vector<std::byte>> made;
  for (const int64_t out : {int64_t{45}, int64_t{64}}) {
    const auto plan = plan_linear(LinearFormat::kInt4Group128, kIn, out);
    ASSERT_TRUE(plan.ok());
    auto rounded = LinearWeightCuda::allocate(*plan);
    ASSERT_TRUE(rounded.ok());
    ASSERT_OK(rounded->round_bf16_to_int4(source.as<__nv_bfloat16>(), out, OutputPlacement::kPlain,
                                          0, nullptr));
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    made.emplace_back(plan->weight_bytes());
    ASSERT_EQ(
        cudaMemcpy(made.back().data(), rounded->data(), made.back().size(), cudaMemcpyDeviceToHost),
        cudaSuccess);
  }
  EXPECT_EQ(made[0], made[1]);
}

TEST(LinearRoundCuda, RefusesOtherFormatsAndWidths) {
  SKIP_WITHOUT_GPUS(1);
  const auto int4 = plan_linear(LinearFormat::kInt4Group128, 128, 32);
  const auto floats = plan_linear(LinearFormat::kBf16, 128, 32);
  ASSERT_TRUE(int4.ok() && floats.ok());
  auto to_int4 = LinearWeightCuda::allocate(*int4);
  auto to_floats = LinearWeightCuda::allocate(*floats);
  ASSERT_TRUE(to_int4.ok() && to_floats.ok());
  const auto int8 = plan_linear(LinearFormat::kInt8Group64, 128, 32);
  ASSERT_TRUE(int8.ok());
  auto to_int8 = LinearWeightCuda::allocate(*int8);
  ASSERT_TRUE(to_int8.ok());
  const DeviceBuffer source = to_device(random_bf16(128 * 64, 1.0f, 1));
  const auto* const weight = source.as<__nv_bfloat16>();
  EXPECT_EQ(to_floats->round_bf16_to_int4(weight, 32, OutputPlacement::kPlain, 0, nullptr).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(to_int4->round_bf16_to_int4(weight, 64, OutputPlacement::kPlain, 0, nullptr).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(to_int4->round_bf16_to_int8(weight, 32, nullptr).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(to_int8->round_bf16_to_int4(weight, 32, OutputPlacement::kPlain, 0, nullptr).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(to_int8->round_bf16_to_int8(weight, 64, nullptr).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace forerun::cuda
