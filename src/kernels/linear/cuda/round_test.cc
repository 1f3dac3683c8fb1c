// Weights rounded to int4 on a GPU: the same bits as AutoAWQ's tensors of the same integers, made
// by plain loops, packed.
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

// As round_bf16_to_int4() says.
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
  // Whole tiles and not; an even and an odd number of groups.
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{256, 96}, {384, 40}, {128, 8}}) {
    std::vector<uint16_t> weight =
        random_bf16(static_cast<size_t>(in * out), 0.05f, static_cast<uint32_t>(in));
    const auto set = [&](int64_t output, int64_t from, int64_t to, float value) {
      std::fill(weight.begin() + output * in + from, weight.begin() + output * in + to,
                to_bf16(value).bits);
    };
    set(0, 0, 128, 0.0f);   // a group of nothing
    set(1, 0, 128, 0.25f);  // one of a single sign
    set(2, 0, 128, -0.25f);
    set(3, 5, 6, 40.0f);     // an outlier
    set(4, 0, 128, 1e-12f);  // below what a scale can be
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
    ASSERT_OK(made->round_bf16_to_int4(source.as<__nv_bfloat16>(), out, stream->get()));
    ASSERT_OK(stream->synchronize());
    std::vector<std::byte> a(plan->weight_bytes());
    std::vector<std::byte> b(plan->weight_bytes());
    ASSERT_EQ(cudaMemcpy(a.data(), packed->data(), a.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(b.data(), made->data(), b.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0) << in << " x " << out;
  }
}

// A tokenizer's vocabulary may be any number: the outputs past it are as if they were zeros.
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
    ASSERT_OK(rounded->round_bf16_to_int4(source.as<__nv_bfloat16>(), out, nullptr));
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
  const DeviceBuffer source = to_device(random_bf16(128 * 64, 1.0f, 1));
  const auto* const weight = source.as<__nv_bfloat16>();
  EXPECT_EQ(to_floats->round_bf16_to_int4(weight, 32, nullptr).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(to_int4->round_bf16_to_int4(weight, 64, nullptr).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace forerun::cuda
