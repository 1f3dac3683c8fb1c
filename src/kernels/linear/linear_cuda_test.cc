// Runs on a GPU of compute capability 9.0; skips itself elsewhere.
#include "kernels/linear/linear_cuda.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "device/cuda/cuda_devices.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/cuda_testing.h"

namespace forerun::cuda {
namespace {

// |out - ref| / |ref| over all elements; infinite if any of them is not finite.
double relative_error(const std::vector<float>& out, const std::vector<float>& ref) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < ref.size(); ++i) {
    if (!std::isfinite(out[i])) return std::numeric_limits<double>::infinity();
    difference += (static_cast<double>(out[i]) - ref[i]) * (static_cast<double>(out[i]) - ref[i]);
    norm += static_cast<double>(ref[i]) * ref[i];
  }
  return std::sqrt(difference / norm);
}

// One rounding to bf16 of uniformly spread mantissas is 1.7e-3 of the norm.
constexpr double kBf16Tolerance = 2.5e-3;

TEST(RelativeError, SeesNanInfinityAndSign) {
  const std::vector<float> ref = {1, -2, 3};
  EXPECT_EQ(relative_error({1, -2, 3}, ref), 0);
  EXPECT_GT(relative_error({1, 2, 3}, ref), 1);
  EXPECT_GT(relative_error({1, NAN, 3}, ref), 1e30);
  EXPECT_GT(relative_error({1, -INFINITY, 3}, ref), 1e30);
}

std::vector<uint32_t> random_words(size_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<uint32_t> values(count);
  for (uint32_t& v : values) v = static_cast<uint32_t>(engine());
  return values;
}

// One source tensor in either format, on the device.
struct Source {
  LinearFormat format;
  int64_t in, out;
  DeviceBuffer weight, zeros, scales;

  Source(LinearFormat f, int64_t in_features, int64_t out_features, uint32_t seed)
      : format(f), in(in_features), out(out_features) {
    const auto count = static_cast<size_t>(in * out);
    if (format == LinearFormat::kBf16) {
      weight = to_device(random_bf16(count, 0.05f, seed));
      return;
    }
    weight = to_device(random_words(count / 8, seed));
    zeros = to_device(random_words(count / kInt4Group / 8, seed + 1));
    std::mt19937 engine(seed + 2);
    std::uniform_real_distribution<float> uniform(0.001f, 0.02f);
    std::vector<uint16_t> s(count / kInt4Group);
    for (uint16_t& v : s) v = to_f16(uniform(engine)).bits;
    scales = to_device(s);
  }
  Status pack(LinearWeightCuda& target, OutputPlacement placement, int64_t first,
              cudaStream_t stream) const {
    if (format == LinearFormat::kBf16) {
      return target.pack_bf16(weight.as<__nv_bfloat16>(), out, placement, first, stream);
    }
    return target.pack_awq(weight.as<uint32_t>(), zeros.as<uint32_t>(), scales.as<__half>(), out,
                           placement, first, stream);
  }
  std::vector<float> reference(const DeviceBuffer& x, int rows, cudaStream_t stream) const {
    const auto count = static_cast<size_t>(rows * out);
    DeviceBuffer y = to_device(std::vector<float>(count, NAN));
    const Status status =
        format == LinearFormat::kBf16
            ? linear_bf16_ref_cuda(weight.as<__nv_bfloat16>(), in, out, x.as<__nv_bfloat16>(), rows,
                                   y.as<float>(), stream)
            : linear_awq_ref_cuda(weight.as<uint32_t>(), zeros.as<uint32_t>(), scales.as<__half>(),
                                  in, out, x.as<__nv_bfloat16>(), rows, y.as<float>(), stream);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return to_host<float>(y, count);
  }
};

class LinearCuda : public ::testing::TestWithParam<LinearFormat> {
 protected:
  void SetUp() override {
    const Result<std::vector<DeviceInfo>> devices = list_devices();
    ASSERT_TRUE(devices.ok()) << devices.status().message();
    if (devices->empty() || (*devices)[0].compute_major < 9) {
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
    }
    ASSERT_OK(prepare_linear_cuda());
    Result<Stream> stream = Stream::create();
    ASSERT_TRUE(stream.ok());
    stream_ = std::make_unique<Stream>(std::move(stream).value());
  }
  LinearWeightCuda allocate(const LinearPlan& plan) {
    Result<LinearWeightCuda> weight = LinearWeightCuda::allocate(plan);
    EXPECT_TRUE(weight.ok()) << weight.status().message();
    return std::move(weight).value();
  }
  // Runs one call into a poisoned output of `outputs` columns and returns its bits; checks that
  // columns between `outputs` and the stride keep their poison.
  std::vector<uint16_t> run(const LinearWeightCuda& weight, LinearCall call, int64_t outputs) {
    constexpr uint16_t kPoison = 0x7fc1;  // a NaN
    const int64_t stride = (outputs + 3) / 4 * 4 + 8;
    const auto count = static_cast<size_t>(call.rows * stride);
    DeviceBuffer y = to_device(std::vector<uint16_t>(count, kPoison));
    call.output = y.as<__nv_bfloat16>();
    call.output_stride = stride;
    const Status status = linear_cuda(weight, call, stream_->get());
    EXPECT_TRUE(status.ok()) << status.message();
    const Status done = stream_->synchronize();
    EXPECT_TRUE(done.ok()) << done.message();
    const std::vector<uint16_t> wide = to_host<uint16_t>(y, count);
    std::vector<uint16_t> bits;
    for (int64_t row = 0; row < call.rows; ++row) {
      const uint16_t* at = wide.data() + row * stride;
      bits.insert(bits.end(), at, at + outputs);
      for (int64_t c = outputs; c < stride; ++c) EXPECT_EQ(at[c], kPoison) << "row " << row;
    }
    return bits;
  }
  static std::vector<float> floats(const std::vector<uint16_t>& bits) {
    std::vector<float> values;
    for (const uint16_t b : bits) values.push_back(to_float(bf16{b}));
    return values;
  }
  std::unique_ptr<Stream> stream_;
};

INSTANTIATE_TEST_SUITE_P(Formats, LinearCuda,
                         ::testing::Values(LinearFormat::kInt4Group128, LinearFormat::kBf16),
                         [](const auto& format) {
                           return format.param == LinearFormat::kBf16 ? "bf16" : "int4";
                         });

LinearCall call_for(const DeviceBuffer& x, int64_t in, int rows) {
  LinearCall call;
  call.input = x.as<__nv_bfloat16>();
  call.input_stride = in;
  call.rows = rows;
  return call;
}

TEST_P(LinearCuda, MatchesReferenceForEverySplitAndRowCount) {
  const LinearFormat format = GetParam();
  struct Shape {
    int64_t in, out;
  };
  for (const Shape shape : {Shape{128, 8}, {256, 40}, {1152, 264}, {2048, 1056}, {8192, 512}}) {
    const Source source(format, shape.in, shape.out, 7);
    const DeviceBuffer x = to_device(random_bf16(static_cast<size_t>(70 * shape.in), 1.0f, 3));
    const std::vector<float> ref = source.reference(x, 70, stream_->get());
    for (const int cluster_size : {1, 2, 4, 8}) {
      for (const int input_warps : {1, 2, 4, 8}) {
        const Result<LinearPlan> plan =
            plan_linear(format, shape.in, shape.out, cluster_size, input_warps);
        if (!plan.ok()) continue;
        LinearWeightCuda weight = allocate(*plan);
        ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
        for (const int rows : {1, 3, 8, 9, 16, 31, 32, 33, 70}) {
          if (!plan_launch(*plan, rows, false, 232448).ok()) continue;
          const std::vector<float> y = floats(run(weight, call_for(x, shape.in, rows), shape.out));
          const std::vector<float> expected(ref.begin(), ref.begin() + rows * shape.out);
          EXPECT_LT(relative_error(y, expected), kBf16Tolerance)
              << shape.in << " x " << shape.out << ", " << rows << " rows, cluster " << cluster_size
              << ", input warps " << input_warps;
        }
      }
    }
  }
}

TEST_P(LinearCuda, RowsHaveTheSameBitsInAnyCompany) {
  const LinearFormat format = GetParam();
  struct Shape {
    int64_t in, out;
  };
  for (const Shape shape : {Shape{8192, 2560}, {2048, 8192}, {3072, 5120}, {14336, 4096}}) {
    const Source source(format, shape.in, shape.out, 11);
    const Result<LinearPlan> plan = plan_linear(format, shape.in, shape.out);
    ASSERT_TRUE(plan.ok());
    LinearWeightCuda weight = allocate(*plan);
    ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
    constexpr int kRows = 1024;
    const DeviceBuffer x = to_device(random_bf16(static_cast<size_t>(kRows * shape.in), 1.0f, 5));
    const std::vector<uint16_t> all = run(weight, call_for(x, shape.in, kRows), shape.out);
    for (const int rows : {1, 8, 16, 24, 64, 256}) {
      for (const int first : {0, 5, kRows - rows}) {
        LinearCall call = call_for(x, shape.in, rows);
        call.input += first * shape.in;
        const std::vector<uint16_t> part = run(weight, call, shape.out);
        EXPECT_EQ(std::memcmp(part.data(), all.data() + first * shape.out,
                              part.size() * sizeof(uint16_t)),
                  0)
            << shape.in << " x " << shape.out << ", " << rows << " rows from " << first;
      }
    }
    const std::vector<float> ref = source.reference(x, 8, stream_->get());
    const std::vector<uint16_t> first_rows(all.begin(), all.begin() + 8 * shape.out);
    EXPECT_LT(relative_error(floats(first_rows), ref), kBf16Tolerance);
  }
}

TEST_P(LinearCuda, AddsBiasAndResidualBeforeTheOneRounding) {
  const Source source(GetParam(), 512, 200, 21);
  const Result<LinearPlan> plan = plan_linear(GetParam(), 512, 200);
  ASSERT_TRUE(plan.ok());
  LinearWeightCuda weight = allocate(*plan);
  ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
  constexpr int kRows = 11;
  const DeviceBuffer x = to_device(random_bf16(kRows * 512, 1.0f, 9));
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
    const Source gate(GetParam(), 1024, features, 31);
    const Source up(GetParam(), 1024, features, 41);
    const Result<LinearPlan> plan = plan_linear(GetParam(), 1024, 2 * features);
    ASSERT_TRUE(plan.ok());
    LinearWeightCuda weight = allocate(*plan);
    ASSERT_OK(gate.pack(weight, OutputPlacement::kGate, 0, stream_->get()));
    ASSERT_OK(up.pack(weight, OutputPlacement::kUp, 0, stream_->get()));
    const DeviceBuffer x = to_device(random_bf16(40 * 1024, 1.0f, 9));
    for (const int rows : {1, 8, 13, 32, 40}) {
      std::vector<float> expected = gate.reference(x, rows, stream_->get());
      const std::vector<float> ups = up.reference(x, rows, stream_->get());
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] = expected[i] / (1 + std::exp(-expected[i])) * ups[i];
      }
      LinearCall call = call_for(x, 1024, rows);
      call.gated = true;
      EXPECT_LT(relative_error(floats(run(weight, call, features)), expected), kBf16Tolerance)
          << features << " features, " << rows << " rows";
    }
  }
}

// x * norm_weight rounded to bf16, and 1 / root mean square of x, row by row.
struct Normed {
  std::vector<uint16_t> products;
  std::vector<double> inverse_rms;
};
Normed norm_parts(const std::vector<uint16_t>& x, const std::vector<uint16_t>& weight, double eps) {
  Normed result{x, {}};
  const size_t width = weight.size();
  for (size_t row = 0; row < x.size() / width; ++row) {
    double squares = 0;
    for (size_t i = 0; i < width; ++i) {
      const float v = to_float(bf16{x[row * width + i]});
      squares += static_cast<double>(v) * v;
      result.products[row * width + i] = to_bf16(v * to_float(bf16{weight[i]})).bits;
    }
    result.inverse_rms.push_back(1 / std::sqrt(squares / static_cast<double>(width) + eps));
  }
  return result;
}

TEST_P(LinearCuda, NormOfTheInputMatchesReferenceForEverySplitAndRowCount) {
  struct Shape {
    int64_t in, out;
  };
  constexpr int kRows = 40;
  constexpr float kEps = 0.05f;  // large enough to be missed
  for (const Shape shape : {Shape{128, 40}, {1152, 264}, {4096, 5000}}) {
    const Source source(GetParam(), shape.in, shape.out, 7);
    const std::vector<uint16_t> x = random_bf16(static_cast<size_t>(kRows * shape.in), 0.4f, 3);
    const std::vector<uint16_t> norm = random_bf16(static_cast<size_t>(shape.in), 1.0f, 4);
    const DeviceBuffer x_device = to_device(x);
    const DeviceBuffer norm_device = to_device(norm);
    const Normed parts = norm_parts(x, norm, kEps);
    std::vector<float> ref = source.reference(to_device(parts.products), kRows, stream_->get());
    for (size_t i = 0; i < ref.size(); ++i) {
      const size_t row = i / static_cast<size_t>(shape.out);
      ref[i] = static_cast<float>(ref[i] * parts.inverse_rms[row]);
    }
    for (const int cluster_size : {1, 2, 4}) {
      for (const int input_warps : {1, 2, 8}) {
        const Result<LinearPlan> plan =
            plan_linear(GetParam(), shape.in, shape.out, cluster_size, input_warps);
        if (!plan.ok()) continue;
        LinearWeightCuda weight = allocate(*plan);
        ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
        std::vector<std::vector<uint16_t>> bits;
        for (const int rows : {1, 8, 13, 32, 40}) {
          LinearCall call = call_for(x_device, shape.in, rows);
          call.norm_weight = norm_device.as<__nv_bfloat16>();
          call.norm_eps = kEps;
          bits.push_back(run(weight, call, shape.out));
          const std::vector<float> expected(ref.begin(), ref.begin() + rows * shape.out);
          EXPECT_LT(relative_error(floats(bits.back()), expected), kBf16Tolerance)
              << shape.in << " x " << shape.out << ", " << rows << " rows, cluster " << cluster_size
              << ", input warps " << input_warps;
        }
        for (const std::vector<uint16_t>& part : bits) {
          EXPECT_TRUE(std::equal(part.begin(), part.end(), bits.back().begin()))
              << "a row's bits depend on its companions";
        }
      }
    }
  }
}

TEST_P(LinearCuda, SourcesArePackedSideBySide) {
  const Source q(GetParam(), 256, 96, 51);
  const Source k(GetParam(), 256, 32, 61);
  const Source v(GetParam(), 256, 40, 71);
  const Result<LinearPlan> plan = plan_linear(GetParam(), 256, 168);
  ASSERT_TRUE(plan.ok());
  LinearWeightCuda weight = allocate(*plan);
  ASSERT_OK(q.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
  ASSERT_OK(k.pack(weight, OutputPlacement::kPlain, 96, stream_->get()));
  ASSERT_OK(v.pack(weight, OutputPlacement::kPlain, 128, stream_->get()));
  EXPECT_FALSE(v.pack(weight, OutputPlacement::kPlain, 160, stream_->get()).ok());
  EXPECT_FALSE(v.pack(weight, OutputPlacement::kPlain, 8, stream_->get()).ok());
  const DeviceBuffer x = to_device(random_bf16(5 * 256, 1.0f, 9));
  const std::vector<float> y = floats(run(weight, call_for(x, 256, 5), 168));
  int64_t offset = 0;
  for (const Source* source : {&q, &k, &v}) {
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

// A chain in a graph, every layer reading what the one before wrote, must equal the same chain run
// with a synchronization after each launch: a layer that reads before its predecessor has finished
// would differ.
TEST_P(LinearCuda, DependentChainInAGraphKeepsItsOrder) {
  constexpr int64_t kWidth = 2048;
  constexpr int kLayers = 24;
  const Source source(GetParam(), kWidth, kWidth, 81);
  const Result<LinearPlan> plan = plan_linear(GetParam(), kWidth, kWidth);
  ASSERT_TRUE(plan.ok());
  LinearWeightCuda weight = allocate(*plan);
  ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
  for (const int rows : {1, 8, 32}) {
    const std::vector<uint16_t> start = random_bf16(static_cast<size_t>(rows * kWidth), 0.5f, 6);
    std::vector<std::vector<uint16_t>> results;
    for (const bool graph : {false, true}) {
      DeviceBuffer x[2] = {to_device(start), to_device(start)};
      const auto layer = [&](int index, bool dependent) {
        LinearCall call = call_for(x[index % 2], kWidth, rows);
        call.output = x[(index + 1) % 2].as<__nv_bfloat16>();
        call.output_stride = kWidth;
        call.dependent = dependent;
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
    for (const std::vector<uint16_t>& result : results) EXPECT_EQ(result, results[0]);
  }
}

TEST_P(LinearCuda, RefusesWhatItCannotRun) {
  const Result<LinearPlan> plan = plan_linear(GetParam(), 256, 64);
  ASSERT_TRUE(plan.ok());
  LinearWeightCuda weight = allocate(*plan);
  const DeviceBuffer x = to_device(random_bf16(256, 1.0f, 9));
  LinearCall call = call_for(x, 256, 1);
  call.output = x.as<__nv_bfloat16>();
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
  bad = call;
  bad.gated = true;
  bad.bias = call.input;
  EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
}

TEST_P(LinearCuda, DeviceMemoryThatIsNotThereIsSaidSo) {
  const Result<DeviceBuffer> buffer = DeviceBuffer::allocate(size_t{1} << 50, "a test");
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(buffer.status().message().find("a test"), std::string::npos);
  EXPECT_NE(buffer.status().message().find("are free"), std::string::npos);
}

}  // namespace
}  // namespace forerun::cuda
