// What linear layers do behind the sums: bias, residual, gating.
// Runs on a GPU of compute capability 9.0; skips itself elsewhere.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/linear/linear_rig_cuda_test.h"

namespace forerun::cuda {
namespace {

TEST_P(LinearCuda, AddsBiasAndResidualBeforeTheOneRounding) {
  const SourceTensor source(GetParam(), 512, 200, 21);
  const Result<LinearPlan> plan = plan_linear(GetParam(), 512, 200);
  ASSERT_TRUE(plan.ok());
  LinearWeightCuda weight = allocate(*plan);
  ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
  constexpr int kRows = 11;
  const DeviceBuffer x = to_device(random_inputs(GetParam(), kRows * 512, 1.0f, 9));
  const std::vector<uint16_t> bias = random_bf16(200, 3.0f, 10);
  const std::vector<uint16_t> residual = random_bf16(kRows * 208, 3.0f, 12);  // the output's stride
  const DeviceBuffer bias_device = to_device(bias);
  const DeviceBuffer residual_device = to_device(residual);
  std::vector<float> expected = source.reference(x, kRows, stream_->get());
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] +=
        to_float(bf16{bias[i % 200]}) + to_float(bf16{residual[i / 200 * 208 + i % 200]});
  }
  LinearCall call = call_for(x, 512, kRows);
  call.bias = bias_device.as<__nv_bfloat16>();
  call.residual = residual_device.as<__nv_bfloat16>();
  EXPECT_LT(relative_error(floats(run(weight, call, 200)), expected), kBf16Tolerance);
}

TEST_P(LinearCuda, GatedLayerIsSiluOfGateTimesUp) {
  for (const int64_t features : {16, 160, 1792}) {
    const SourceTensor gate(GetParam(), 1024, features, 31);
    const SourceTensor up(GetParam(), 1024, features, 41);
    const Result<LinearPlan> plan = plan_linear(GetParam(), 1024, 2 * features);
    ASSERT_TRUE(plan.ok());
    LinearWeightCuda weight = allocate(*plan);
    ASSERT_OK(gate.pack(weight, OutputPlacement::kGate, 0, stream_->get()));
    ASSERT_OK(up.pack(weight, OutputPlacement::kUp, 0, stream_->get()));
    const DeviceBuffer x = to_device(random_inputs(GetParam(), 40 * 1024, 1.0f, 9));
    for (const int rows : {1, 8, 13, 32, 40}) {
      std::vector<float> expected = gate.reference(x, rows, stream_->get());
      const std::vector<float> ups = up.reference(x, rows, stream_->get());
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] = expected[i] / (1 + std::exp(-expected[i])) * ups[i];
      }
      LinearCall call = call_for(x, 1024, rows);
      call.gated = true;
      for (const ActivationFormat format : {ActivationFormat::kBf16, ActivationFormat::kF16}) {
        call.gated_format = format;
        EXPECT_LT(relative_error(floats(run(weight, call, features), format), expected),
                  kBf16Tolerance)
            << features << " features, " << rows << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace forerun::cuda
