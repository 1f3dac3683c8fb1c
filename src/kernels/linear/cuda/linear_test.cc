// Compares linear layers on a GPU with plain loops: every split, fused sources, outputs of any
// width, epilogues, chains of layers, and refused arguments. Runs on a GPU of compute capability
// 9.0; skips itself elsewhere.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "kernels/linear/cuda/linear_rig.h"

namespace forerun::cuda {
namespace {

TEST(RelativeError, SeesNanInfinityAndSign) {
  const std::vector<float> ref = {1, -2, 3};
  EXPECT_EQ(relative_error({1, -2, 3}, ref), 0);
  EXPECT_GT(relative_error({1, 2, 3}, ref), 1);
  EXPECT_GT(relative_error({1, NAN, 3}, ref), 1e30);
  EXPECT_GT(relative_error({1, -INFINITY, 3}, ref), 1e30);
}

INSTANTIATE_TEST_SUITE_P(Formats, LinearCuda, ::testing::ValuesIn(all_linear_formats()),
                         [](const auto& param) { return unit_format(param.param).name; });

TEST_P(LinearCuda, MatchesReferenceForEverySplitAndRowCount) {
  const LinearFormat format = GetParam();
  struct Shape {
    int64_t in, out;
  };
  // In the last shape, split over two blocks of eight warps, one block has one segment of
  // activations less than the other, and both blocks make two passes over the tiles.
  const int64_t uneven = 4096 + unit_inputs(format);
  for (const Shape shape :
       {Shape{128, 8}, {256, 40}, {1152, 264}, {2048, 1056}, {8192, 512}, {uneven, 2144}}) {
    const SourceTensor source(format, shape.in, shape.out, 7);
    const DeviceBuffer x =
        to_device(random_inputs(format, static_cast<size_t>(70 * shape.in), 1.0f, 3));
    const std::vector<float> ref = source.reference(x, 70, stream_->get());
    for (const int cluster_size : {1, 2, 3, 4, 5, 8}) {
      for (const int slice_k_warps : {1, 2, 4, 8}) {
        const Result<LinearPlan> plan =
            plan_linear(format, shape.in, shape.out, cluster_size, slice_k_warps);
        if (!plan.ok()) continue;
        LinearWeightCuda weight = allocate(*plan);
        ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
        for (const int rows : {1, 3, 8, 9, 16, 31, 32, 33, 70}) {
          if (!plan_launch(*plan, rows, 232448).ok()) continue;
          const std::vector<float> y = floats(run(weight, call_for(x, shape.in, rows), shape.out));
          const std::vector<float> expected(ref.begin(), ref.begin() + rows * shape.out);
          EXPECT_LT(relative_error(y, expected), bf16_tolerance(y.size()))
              << shape.in << " x " << shape.out << ", " << rows << " rows, cluster " << cluster_size
              << ", input warps " << slice_k_warps;
        }
      }
    }
  }
}

TEST_P(LinearCuda, UnroundedOutputsOfAnyWidth) {
  for (const int64_t out : {30, 97, 500}) {
    const auto width = static_cast<size_t>(out);
    // int4 tensors have a multiple of 8 outputs; the plan may have fewer.
    const SourceTensor source(GetParam(), 256, (out + 7) / 8 * 8, 7);
    const Result<LinearPlan> plan = plan_linear(GetParam(), 256, out);
    ASSERT_TRUE(plan.ok());
    LinearWeightCuda weight = allocate(*plan);
    ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
    const DeviceBuffer x = to_device(random_inputs(GetParam(), 9 * 256, 1.0f, 9));
    const std::vector<float> ref = source.reference(x, 9, stream_->get());
    const size_t stride = (width + 3) / 4 * 4 + 4;
    const DeviceBuffer y = to_device(std::vector<float>(9 * stride, NAN));
    LinearCall call = call_for(x, 256, 9);
    call.output_f32 = y.as<float>();
    call.output_stride = static_cast<int64_t>(stride);
    call.scratch = scratch();
    ASSERT_OK(linear_cuda(weight, call, stream_->get()));
    ASSERT_OK(stream_->synchronize());
    const std::vector<float> wide = to_host<float>(y, 9 * stride);
    std::vector<float> found, expected;
    for (size_t i = 0; i < wide.size(); ++i) {
      if (i % stride < width) {
        found.push_back(wide[i]);
        expected.push_back(ref[i / stride * static_cast<size_t>(source.out) + i % stride]);
      } else {
        EXPECT_TRUE(std::isnan(wide[i])) << "column " << i % stride;
      }
    }
    EXPECT_LT(relative_error(found, expected), 1e-5) << out << " outputs";
  }
}

TEST_P(LinearCuda, SourcesArePackedBesideEachOther) {
  if (GetParam() == LinearFormat::kInt8Group64)
    GTEST_SKIP() << "int8 supports a single source only";
  const SourceTensor q(GetParam(), 256, 96, 51);
  const SourceTensor k(GetParam(), 256, 32, 61);
  const SourceTensor v(GetParam(), 256, 40, 71);
  const Result<LinearPlan> plan = plan_linear(GetParam(), 256, 168);
  ASSERT_TRUE(plan.ok());
  LinearWeightCuda weight = allocate(*plan);
  ASSERT_OK(q.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
  ASSERT_OK(k.pack(weight, OutputPlacement::kPlain, 96, stream_->get()));
  ASSERT_OK(v.pack(weight, OutputPlacement::kPlain, 128, stream_->get()));
  EXPECT_FALSE(v.pack(weight, OutputPlacement::kPlain, 160, stream_->get()).ok());
  EXPECT_FALSE(v.pack(weight, OutputPlacement::kPlain, 8, stream_->get()).ok());
  const DeviceBuffer x = to_device(random_inputs(GetParam(), 5 * 256, 1.0f, 9));
  const std::vector<float> y = floats(run(weight, call_for(x, 256, 5), 168));
  int64_t offset = 0;
  for (const SourceTensor* source : {&q, &k, &v}) {
    const std::vector<float> ref = source->reference(x, 5, stream_->get());
    std::vector<float> part;
    for (int64_t row = 0; row < 5; ++row) {
      part.insert(part.end(), y.begin() + row * 168 + offset,
                  y.begin() + row * 168 + offset + source->out);
    }
    EXPECT_LT(relative_error(part, ref), kBf16Tolerance);
    offset += source->out;
  }
}

TEST_P(LinearCuda, RefusesWhatItCannotRun) {
  const Result<LinearPlan> plan = plan_linear(GetParam(), 256, 64);
  ASSERT_TRUE(plan.ok());
  LinearWeightCuda weight = allocate(*plan);
  const DeviceBuffer x = to_device(random_inputs(GetParam(), 256, 1.0f, 9));
  LinearCall call = call_for(x, 256, 1);
  call.output = x.as<uint16_t>();
  call.output_stride = 64;
  LinearCall bad = call;
  bad.rows = 0;
  EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
  bad = call;
  bad.input_stride = 250;
  EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
  bad = call;
  bad.output_stride = 60;
  EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
  bad.rows = 2;
  bad.output_stride = int64_t{1} << 30;
  EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
  bad.rows = 65;  // without scratch memory
  bad.output_stride = 64;
  EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
  if (min_groups(GetParam()) > 0) {
    bad.rows = 9;  // without memory for sums of activations
    EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
  }
  bad.scratch = scratch();
  bad.rows = kMaxLinearRows + 1;
  EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
  if (GetParam() == LinearFormat::kInt8Group64) {
    bad = call;
    bad.gated = true;
    EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
  }
  bad = call;
  bad.gated = true;
  bad.bias = x.as<__nv_bfloat16>();
  EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
  bad = call;
  bad.gated = true;
  bad.row_index = x.as<int32_t>();
  EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
  const DeviceBuffer floats = to_device(std::vector<float>(256, 1.0f));
  bad = call;
  bad.next_norm.weight = floats.as<float>();  // but no outputs of the norm
  EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
  bad.next_norm = {floats.as<float>(), call.output, floats.as<float>()};
  bad.gated = true;
  EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
  bad.gated = false;
  bad.output = nullptr;
  bad.output_f32 = floats.as<float>();
  EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
}

TEST_P(LinearCuda, DeviceMemoryThatIsNotThereIsSaidSo) {
  const Result<DeviceBuffer> buffer = DeviceBuffer::allocate(size_t{1} << 50, "a test");
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(buffer.status().message().find("a test"), std::string::npos);
  EXPECT_NE(buffer.status().message().find("are free"), std::string::npos);
}

// These tests cover the epilogues: bias, residual, gating.
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
  if (GetParam() == LinearFormat::kInt8Group64) GTEST_SKIP() << "int8 is for LM heads only";
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
                  bf16_tolerance(expected.size()))
            << features << " features, " << rows << " rows";
      }
    }
  }
}

// In a graph, every layer of the chain reads the output of the previous layer. The result must
// equal that of the same chain with a synchronization after each launch; it would differ if a layer
// read before its predecessor had finished.
TEST_P(LinearCuda, DependentChainInAGraphKeepsItsOrder) {
  constexpr int64_t kWidth = 2048;
  constexpr int kLayers = 24;
  const SourceTensor source(GetParam(), kWidth, kWidth, 81);
  const Result<LinearPlan> plan = plan_linear(GetParam(), kWidth, kWidth);
  ASSERT_TRUE(plan.ok());
  LinearWeightCuda weight = allocate(*plan);
  ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
  const DeviceBuffer halves = to_device(std::vector<float>(kWidth, 0.5f));
  for (const int rows : {1, 3, 8, 32, 65, 128}) {
    const auto count = static_cast<size_t>(rows * kWidth);
    const DeviceBuffer plain = to_device(std::vector<uint16_t>(count));
    const DeviceBuffer squares = to_device(std::vector<float>(count / kNormGroup));
    const std::vector<uint16_t> start = random_inputs(GetParam(), count, 0.5f, 6);
    std::vector<std::vector<uint16_t>> results;
    for (const bool graph : {false, true}) {
      DeviceBuffer x[2] = {to_device(start), to_device(start)};
      const auto layer = [&](int index, bool dependent) {
        LinearCall call = call_for(x[index % 2], kWidth, rows);
        call.output = plain.as<uint16_t>();
        call.output_stride = kWidth;
        call.next_norm = {halves.as<float>(), x[(index + 1) % 2].as<uint16_t>(),
                          squares.as<float>(), linear_input_format(GetParam())};
        call.dependent = dependent;
        call.footprint = static_cast<LinearFootprint>(index % 3);
        call.scratch = scratch();
        return linear_cuda(weight, call, stream_->get());
      };
      if (graph) {
        Result<Graph> captured = Graph::capture(*stream_, [&] {
          for (int i = 0; i < kLayers; ++i) FORERUN_RETURN_IF_ERROR(layer(i, true));
          return Status();
        });
        ASSERT_TRUE(captured.ok()) << captured.status().message();
        for (int repeat = 0; repeat < 20; ++repeat) {
          ASSERT_OK(x[0].upload(std::as_bytes(std::span(start))));
          ASSERT_OK(captured->launch(*stream_));
          ASSERT_OK(stream_->synchronize());
          results.push_back(to_host<uint16_t>(x[0], start.size()));
        }
      } else {
        for (int i = 0; i < kLayers; ++i) {
          ASSERT_OK(layer(i, false));
          ASSERT_OK(stream_->synchronize());
        }
        results.push_back(to_host<uint16_t>(x[0], start.size()));
      }
    }
    EXPECT_NE(results[0], start);
    for (const std::vector<uint16_t>& result : results) EXPECT_EQ(result, results[0]);
  }
}

}  // namespace
}  // namespace forerun::cuda
