// Runs on a GPU of compute capability 9.0; skips itself elsewhere.
#include "kernels/linear/linear_cuda.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/cuda_testing.h"
#include "device/cuda/peer_group.h"

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

// Of 16 bits as a layer of this format reads them, and back.
uint16_t to_input(ActivationFormat format, float v) {
  if (format == ActivationFormat::kBf16) return to_bf16(v).bits;
  return to_f16(std::clamp(v * kF16Scale, -65504.0f, 65504.0f)).bits;
}
float from_input(ActivationFormat format, uint16_t bits) {
  return format == ActivationFormat::kBf16 ? to_float(bf16{bits}) : to_float(f16{bits}) / kF16Scale;
}
std::vector<uint16_t> random_inputs(LinearFormat format, size_t count, float most, uint32_t seed) {
  std::vector<uint16_t> values = random_bf16(count, most, seed);
  for (uint16_t& v : values) v = to_input(linear_input_format(format), to_float(bf16{v}));
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
            ? linear_bf16_ref_cuda(weight.as<__nv_bfloat16>(), in, out, x.as<uint16_t>(), rows,
                                   y.as<float>(), stream)
            : linear_awq_ref_cuda(weight.as<uint32_t>(), zeros.as<uint32_t>(), scales.as<__half>(),
                                  in, out, x.as<uint16_t>(), rows, y.as<float>(), stream);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return to_host<float>(y, count);
  }
};

class LinearCuda : public ::testing::TestWithParam<LinearFormat> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPUS(1);
    ASSERT_OK(prepare_linear_cuda());
    Result<Stream> stream = Stream::create();
    ASSERT_TRUE(stream.ok());
    stream_ = std::make_unique<Stream>(std::move(stream).value());
    Result<LinearScratchBuffer> scratch = LinearScratchBuffer::allocate();
    ASSERT_TRUE(scratch.ok()) << scratch.status().message();
    scratch_ = std::move(scratch).value();
    failed_ = to_device(std::vector<uint32_t>(1));
  }
  void TearDown() override {
    if (stream_ == nullptr) return;
    EXPECT_EQ(to_host<uint32_t>(failed_, 1)[0], 0) << "blocks have waited for each other in vain";
    std::vector<uint32_t> counters(LinearScratchBuffer::kCounters, 1);
    ASSERT_EQ(cudaMemcpy(counters.data(), scratch().arrivals, counters.size() * sizeof(uint32_t),
                         cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(counters, std::vector<uint32_t>(counters.size()));
  }
  LinearScratchCuda scratch() const { return scratch_.view(failed_.as<uint32_t>()); }
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
    call.output = y.as<uint16_t>();
    call.output_stride = stride;
    call.scratch = scratch();
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
  static std::vector<float> floats(const std::vector<uint16_t>& bits,
                                   ActivationFormat format = ActivationFormat::kBf16) {
    std::vector<float> values;
    for (const uint16_t b : bits) values.push_back(from_input(format, b));
    return values;
  }
  std::unique_ptr<Stream> stream_;
  LinearScratchBuffer scratch_;
  DeviceBuffer failed_;
};

INSTANTIATE_TEST_SUITE_P(Formats, LinearCuda,
                         ::testing::Values(LinearFormat::kInt4Group128, LinearFormat::kBf16),
                         [](const auto& format) {
                           return format.param == LinearFormat::kBf16 ? "bf16" : "int4";
                         });

LinearCall call_for(const DeviceBuffer& x, int64_t in, int rows) {
  LinearCall call;
  call.input = x.as<uint16_t>();
  call.input_stride = in;
  call.rows = rows;
  return call;
}

TEST_P(LinearCuda, MatchesReferenceForEverySplitAndRowCount) {
  const LinearFormat format = GetParam();
  struct Shape {
    int64_t in, out;
  };
  // The last: split over two blocks of eight warps, one block has a segment of activations less
  // than the other, and both pass over the tiles twice.
  const int64_t uneven = format == LinearFormat::kBf16 ? 4128 : 4224;
  for (const Shape shape :
       {Shape{128, 8}, {256, 40}, {1152, 264}, {2048, 1056}, {8192, 512}, {uneven, 2144}}) {
    const Source source(format, shape.in, shape.out, 7);
    const DeviceBuffer x =
        to_device(random_inputs(format, static_cast<size_t>(70 * shape.in), 1.0f, 3));
    const std::vector<float> ref = source.reference(x, 70, stream_->get());
    for (const int cluster_size : {1, 2, 3, 4, 5, 8}) {
      for (const int input_warps : {1, 2, 4, 8}) {
        const Result<LinearPlan> plan =
            plan_linear(format, shape.in, shape.out, cluster_size, input_warps);
        if (!plan.ok()) continue;
        LinearWeightCuda weight = allocate(*plan);
        ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
        for (const int rows : {1, 3, 8, 9, 16, 31, 32, 33, 70}) {
          if (!plan_launch(*plan, rows, 232448).ok()) continue;
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
    bool before_attention = false;
  };
  // Of every walk, and a cluster of 4 (before attention); {8192, 14336} is gate and up.
  std::vector<Shape> shapes = {
      {8192, 2560, true}, {2048, 8192}, {3072, 5120}, {4096, 6144}, {14336, 4096}};
  if (format == LinearFormat::kInt4Group128) {
    shapes.push_back({8192, 14336});
    shapes.push_back({9600, 1024});  // all at once at 8 rows with over half of a multiprocessor
  }
  std::set<LinearWalk> walks;
  std::set<int> splits;  // blocks that share a tile of many rows
  for (const Shape& shape : shapes) {
    const Source source(format, shape.in, shape.out, 11);
    const Result<LinearPlan> plan =
        plan_linear(format, shape.in, shape.out, /*gaps=*/shape.before_attention);
    ASSERT_TRUE(plan.ok());
    for (const int rows : {8, 16, 24}) {
      const Result<LinearLaunch> launch = plan_launch(*plan, rows, 232448);
      ASSERT_TRUE(launch.ok());
      walks.insert(launch->walk);
    }
    LinearWeightCuda weight = allocate(*plan);
    ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
    constexpr int kRows = 1024;
    const bool gated = shape.out == 14336;
    const int64_t width = gated ? shape.out / 2 : shape.out;
    const DeviceBuffer x =
        to_device(random_inputs(format, static_cast<size_t>(kRows * shape.in), 1.0f, 5));
    LinearCall every_row = call_for(x, shape.in, kRows);
    every_row.gated = gated;
    const std::vector<uint16_t> all = run(weight, every_row, width);
    for (const int rows : {1, 2, 5, 8, 16, 24, 33, 64, 65, 96, 128, 129, 192, 256, 512}) {
      for (const int first : {0, 5, kRows - rows}) {
        LinearCall call = call_for(x, shape.in, rows);
        call.input += first * shape.in;
        call.gated = gated;
        call.beside_sums = first == 5;  // another kernel, the same bits
        call.over_half = first == 0;    // another walk, perhaps
        if (rows >= fewest_tile_rows(format)) splits.insert(plan_tiles(*plan, rows, 132).splits);
        const std::vector<uint16_t> part = run(weight, call, width);
        EXPECT_EQ(
            std::memcmp(part.data(), all.data() + first * width, part.size() * sizeof(uint16_t)), 0)
            << shape.in << " x " << shape.out << ", " << rows << " rows from " << first;
      }
    }
    if (gated) continue;
    const std::vector<float> ref = source.reference(x, 8, stream_->get());
    const std::vector<uint16_t> first_rows(all.begin(), all.begin() + 8 * shape.out);
    EXPECT_LT(relative_error(floats(first_rows), ref), kBf16Tolerance);
  }
  EXPECT_EQ(walks.size(), format == LinearFormat::kBf16 ? 2 : 4);
  EXPECT_GE(splits.size(), 3);
}

// Every split and ragged edge, with all that the epilogue does: rows among hundreds have the bits
// that they have among few.
TEST_P(LinearCuda, ManyRowsHaveTheBitsOfFewForEverySplit) {
  constexpr int kRows = 300;
  constexpr int kFew = 29;
  std::set<int> splits, foldings;  // of tiles that several blocks share
  struct Shape {
    int64_t in, out;
  };
  for (const Shape shape :
       {Shape{128, 8}, {1152, 264}, {2048, 1056}, {1024, 4288}, {4480, 160}, {7168, 512}}) {
    const Source source(GetParam(), shape.in, shape.out, 17);
    const int64_t input_stride = linear_input_stride(shape.in, 1, GetParam());
    std::vector<uint16_t> inputs =
        random_inputs(GetParam(), static_cast<size_t>(kRows * input_stride), 1.0f, 3);
    for (size_t i = 0; i < inputs.size(); ++i) {  // nothing between rows is read
      if (static_cast<int64_t>(i) % input_stride >= shape.in) inputs[i] = 0x7fc1;
    }
    const DeviceBuffer x = to_device(inputs);
    const int64_t groups = shape.in / kNormGroup;
    std::vector<float> sums(static_cast<size_t>(kRows * groups));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<float>(i % 97) * 0.37f;
    const DeviceBuffer squares = to_device(sums);
    const DeviceBuffer bias = to_device(random_bf16(static_cast<size_t>(shape.out), 1.0f, 4));
    const int64_t stride = (shape.out + 3) / 4 * 4 + 8;  // as run()
    const DeviceBuffer residual =
        to_device(random_bf16(static_cast<size_t>(kRows * stride), 1.0f, 5));
    for (const int cluster_size : {1, 2, 3, 4, 5}) {
      for (const int input_warps : {1, 2, 4, 8}) {
        const Result<LinearPlan> plan =
            plan_linear(GetParam(), shape.in, shape.out, cluster_size, input_warps);
        if (!plan.ok()) continue;
        LinearWeightCuda weight = allocate(*plan);
        ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
        for (const bool gated : {false, true}) {
          if (gated && shape.out % 32 != 0) continue;
          const auto rows_from = [&](int first, int rows, bool beside_sums = false) {
            LinearCall call = call_for(x, input_stride, rows);
            call.beside_sums = beside_sums;
            call.input += first * input_stride;
            call.norm = {.squares = squares.as<float>() + first * groups, .eps = 0.1f};
            call.gated = gated;
            if (!gated) {
              call.bias = bias.as<__nv_bfloat16>();
              call.residual = residual.as<__nv_bfloat16>() + first * stride;
            }
            return run(weight, call, gated ? shape.out / 2 : shape.out);
          };
          const std::vector<uint16_t> all = rows_from(0, kRows);
          const auto width = static_cast<size_t>(gated ? shape.out / 2 : shape.out);
          const auto expect_same = [&](int first, int rows, bool beside_sums) {
            const std::vector<uint16_t> part = rows_from(first, rows, beside_sums);
            EXPECT_TRUE(std::equal(part.begin(), part.end(),
                                   all.begin() + static_cast<int64_t>(first * width)))
                << shape.in << " x " << shape.out << ", cluster " << cluster_size
                << ", input warps " << input_warps << (gated ? ", gated" : "") << ", " << rows
                << " rows from " << first << (beside_sums ? ", beside sums" : "");
          };
          for (const int first : {0, 111, kRows - kFew}) expect_same(first, kFew, first == 111);
          for (const int rows : {3, 13}) {
            for (const bool beside_sums : {false, true}) expect_same(50, rows, beside_sums);
          }
          for (const int rows : {65, 77, 128, 129, kRows}) {
            expect_same(kRows - rows, rows, false);
            const LinearTiling tiling = plan_tiles(*plan, rows, 132);
            splits.insert(tiling.splits);
            if (tiling.splits > 1) foldings.insert(tiling.folded);
          }
        }
      }
    }
  }
  EXPECT_GE(splits.size(), 5);
  EXPECT_GE(foldings.size(), 3);
}

// Gate and up, and unrounded outputs of a head, in tiles of 256 outputs.
TEST_P(LinearCuda, WideTilesHaveTheBitsOfFewRows) {
  if (GetParam() != LinearFormat::kBf16) GTEST_SKIP() << "int4 has none";
  constexpr int kRows = 300;
  constexpr int kFew = 29;
  for (const int64_t in : {96, 2048}) {         // 96: the last stage is half a one
    for (const int64_t out : {20032, 20001}) {  // ragged: the head alone
      const Source source(GetParam(), in, out, 19);
      const Result<LinearPlan> plan = plan_linear(GetParam(), in, out, 1, 1);
      ASSERT_TRUE(plan.ok());
      LinearWeightCuda weight = allocate(*plan);
      ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
      const DeviceBuffer x =
          to_device(random_inputs(GetParam(), static_cast<size_t>(kRows * in), 1.0f, 3));
      const int64_t groups = in / kNormGroup;
      std::vector<float> sums(static_cast<size_t>(kRows * groups));
      for (size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<float>(i % 97) * 0.37f;
      const DeviceBuffer squares = to_device(sums);
      const auto call_from = [&](int first, int rows) {
        LinearCall call = call_for(x, in, rows);
        call.input += first * in;
        call.norm = {.squares = squares.as<float>() + first * groups, .eps = 0.1f};
        call.scratch = scratch();
        return call;
      };
      const auto unrounded = [&](int first, int rows) {
        const int64_t stride = (out + 3) / 4 * 4;
        const auto count = static_cast<size_t>(rows * stride);
        const DeviceBuffer y = to_device(std::vector<float>(count, -7.0f));
        LinearCall call = call_from(first, rows);
        call.output_f32 = y.as<float>();
        call.output_stride = stride;
        EXPECT_TRUE(linear_cuda(weight, call, stream_->get()).ok());
        EXPECT_TRUE(stream_->synchronize().ok());
        return to_host<float>(y, count);
      };
      const auto gated = [&](int first, int rows) {
        LinearCall call = call_from(first, rows);
        call.gated = true;
        return run(weight, call, out / 2);
      };
      for (const int rows : {65, 77, 128, 129, kRows}) {
        ASSERT_EQ(plan_tiles(*plan, rows, 132, /*may_be_wide=*/true).block_tiles, kWideBlockTiles);
        const std::vector<float> all = unrounded(0, rows);
        for (const int first : {0, 20, rows - kFew}) {
          const std::vector<float> few = unrounded(first, kFew);
          const size_t stride = few.size() / kFew;
          EXPECT_EQ(std::memcmp(few.data(), all.data() + static_cast<size_t>(first) * stride,
                                few.size() * sizeof(float)),
                    0)
              << in << " x " << out << ", " << rows << " rows, from " << first;
        }
        if (out % kTileOutputs != 0) continue;
        const std::vector<uint16_t> all_gated = gated(0, rows);
        for (const int first : {0, 20, rows - kFew}) {
          const std::vector<uint16_t> few = gated(first, kFew);
          EXPECT_TRUE(std::equal(few.begin(), few.end(), all_gated.begin() + first * (out / 2)))
              << in << " x " << out << ", gated, " << rows << " rows, from " << first;
        }
      }
    }
  }
}

TEST_P(LinearCuda, AddsBiasAndResidualBeforeTheOneRounding) {
  const Source source(GetParam(), 512, 200, 21);
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
    const Source gate(GetParam(), 1024, features, 31);
    const Source up(GetParam(), 1024, features, 41);
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

// What the layer in front of a norm leaves behind for rows x [rows][width].
struct NormParts {
  std::vector<uint16_t> scaled;
  std::vector<float> squares;  // [rows][width / kNormGroup]
};
NormParts norm_parts(const std::vector<uint16_t>& x, const std::vector<float>& weight,
                     ActivationFormat format) {
  NormParts parts;
  for (size_t i = 0; i < x.size(); ++i) {
    const float v = to_float(bf16{x[i]});
    parts.scaled.push_back(to_input(format, v * weight[i % weight.size()]));
    if (i % kNormGroup == 0) parts.squares.push_back(0);
    parts.squares.back() += v * v;
  }
  return parts;
}

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(0.1f, 2.0f);
  std::vector<float> values(count);
  for (float& v : values) v = uniform(engine);
  return values;
}

// Runs a call that leaves what a norm needs: products and sums of squares must be those of the
// outputs, and rows past the last keep their poison. Returns the sums.
std::vector<float> expect_norm_parts(const LinearWeightCuda& weight, LinearCall call,
                                     const std::vector<float>& weight_of_norm,
                                     ActivationFormat format, const Stream& stream) {
  constexpr uint16_t kPoison = 0x7fc1;
  const size_t width = weight_of_norm.size();
  const size_t count = static_cast<size_t>(call.rows) * width;
  const size_t room = count + 3 * width;
  const DeviceBuffer norm = to_device(weight_of_norm);
  const DeviceBuffer y = to_device(std::vector<uint16_t>(room, kPoison));
  const DeviceBuffer scaled = to_device(std::vector<uint16_t>(room, kPoison));
  const DeviceBuffer squares = to_device(std::vector<float>(room / kNormGroup, NAN));
  call.output = y.as<uint16_t>();
  call.output_stride = static_cast<int64_t>(width);
  call.next_norm = {norm.as<float>(), scaled.as<uint16_t>(), squares.as<float>(), format};
  const Status status = linear_cuda(weight, call, stream.get());
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(stream.synchronize().ok());
  std::vector<uint16_t> outputs = to_host<uint16_t>(y, room);
  EXPECT_TRUE(std::all_of(outputs.begin() + static_cast<ptrdiff_t>(count), outputs.end(),
                          [](uint16_t v) { return v == kPoison; }));
  outputs.resize(count);
  NormParts expected = norm_parts(outputs, weight_of_norm, format);
  expected.scaled.resize(room, kPoison);
  EXPECT_TRUE(to_host<uint16_t>(scaled, room) == expected.scaled) << call.rows << " rows";
  std::vector<float> found = to_host<float>(squares, room / kNormGroup);
  for (size_t i = 0; i < expected.squares.size(); ++i) {
    EXPECT_NEAR(found[i], expected.squares[i], 2e-6f * expected.squares[i])
        << call.rows << " rows, group " << i;
  }
  EXPECT_TRUE(std::all_of(found.begin() + static_cast<ptrdiff_t>(expected.squares.size()),
                          found.end(), [](float v) { return std::isnan(v); }));
  found.resize(expected.squares.size());
  return found;
}

TEST_P(LinearCuda, LeavesWhatTheNextNormNeedsForEverySplitAndRowCount) {
  constexpr int kRows = 70;
  constexpr int64_t kIn = 512;
  // Tiles for 8 warps at once, and for more: 12 of int4, or passes.
  for (const int64_t out : {32, 96, 2528, 20032}) {
    const Source source(GetParam(), kIn, out, 7);
    const DeviceBuffer x = to_device(random_inputs(GetParam(), kRows * kIn, 1.0f, 3));
    const DeviceBuffer residual =
        to_device(random_bf16(static_cast<size_t>(kRows * out), 3.0f, 12));
    std::vector<float> weight_of_norm = random_floats(static_cast<size_t>(out), 4);
    weight_of_norm[7] = 1e7f;  // more than f16 holds
    // Two GPUs whose sums are the same: behind the exchange as without.
    Result<PeerGroup> group = PeerGroup::loopback(0, 2, {.most_rows = kRows, .width = out});
    ASSERT_TRUE(group.ok()) << group.status().message();
    int exchanges = 0;
    for (const int cluster_size : {1, 2, 3, 4}) {
      for (const int input_warps : {1, 2}) {
        const Result<LinearPlan> plan =
            plan_linear(GetParam(), kIn, out, cluster_size, input_warps);
        if (!plan.ok()) continue;
        LinearWeightCuda weight = allocate(*plan);
        ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
        for (const bool reduce : {false, true}) {
          std::vector<float> fewer_rows;
          for (const int rows : {1, 8, 13, 16, 31, 70}) {
            LinearCall call = call_for(x, kIn, rows);
            call.residual = residual.as<__nv_bfloat16>();
            call.scratch = scratch();
            if (reduce) {
              call.reduce = &group->rank(0);
              call.mailbox = exchanges++ % 2;
            }
            SCOPED_TRACE(std::to_string(out) + " outputs, cluster " + std::to_string(cluster_size) +
                         ", input warps " + std::to_string(input_warps) +
                         (reduce ? ", a sum over two" : ""));
            std::vector<float> squares = expect_norm_parts(
                weight, call, weight_of_norm, linear_input_format(GetParam()), *stream_);
            EXPECT_TRUE(std::equal(fewer_rows.begin(), fewer_rows.end(), squares.begin()))
                << "a row's bits depend on its companions";
            fewer_rows = std::move(squares);
          }
        }
      }
    }
    ASSERT_OK(group->check());
  }
}

// The rows of `parts`' input that the outputs are made of, in an order of their own.
TEST_P(LinearCuda, NormOfTheInputAndChosenRowsMatchReferenceForEverySplitAndRowCount) {
  struct Shape {
    int64_t in, out;
  };
  constexpr int kRows = 40;
  constexpr float kEps = 0.05f;  // large enough to be missed
  std::vector<int32_t> index;
  for (int32_t i = 0; i < kRows; ++i) index.push_back(i * 7 % 25 + 3);
  const DeviceBuffer index_device = to_device(index);
  for (const Shape shape : {Shape{128, 40}, {1152, 264}, {4096, 5000}}) {
    const auto in = static_cast<size_t>(shape.in);
    const auto out = static_cast<size_t>(shape.out);
    const Source source(GetParam(), shape.in, shape.out, 7);
    const std::vector<uint16_t> x = random_bf16(kRows * in, 0.4f, 3);
    const NormParts parts = norm_parts(x, random_floats(in, 4), linear_input_format(GetParam()));
    const DeviceBuffer scaled = to_device(parts.scaled);
    const DeviceBuffer squares = to_device(parts.squares);
    std::vector<uint16_t> bias = random_bf16(out, 3.0f, 10);
    const DeviceBuffer bias_device = to_device(bias);
    const std::vector<float> sums = source.reference(scaled, kRows, stream_->get());
    std::vector<float> ref(sums.size());
    for (size_t i = 0; i < ref.size(); ++i) {
      const auto row = static_cast<size_t>(index[i / out]);
      double square = 0;
      for (size_t at = 0; at < in; ++at) square += std::pow(to_float(bf16{x[row * in + at]}), 2);
      ref[i] = static_cast<float>(sums[row * out + i % out] /
                                  std::sqrt(square / static_cast<double>(in) + kEps)) +
               to_float(bf16{bias[i % out]});
    }
    for (const int cluster_size : {1, 2, 3, 4}) {
      for (const int input_warps : {1, 2, 8}) {
        const Result<LinearPlan> plan =
            plan_linear(GetParam(), shape.in, shape.out, cluster_size, input_warps);
        if (!plan.ok()) continue;
        LinearWeightCuda weight = allocate(*plan);
        ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
        std::vector<std::vector<uint16_t>> bits;
        for (const int rows : {1, 8, 13, 32, 40}) {
          LinearCall call = call_for(scaled, shape.in, rows);
          call.row_index = index_device.as<int32_t>();
          call.bias = bias_device.as<__nv_bfloat16>();
          call.norm = {squares.as<float>(), kEps};
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

TEST_P(LinearCuda, UnroundedOutputsOfAnyWidth) {
  for (const int64_t out : {30, 97, 500}) {
    const auto width = static_cast<size_t>(out);
    // int4 tensors come in eights; the plan may hold fewer.
    const Source source(GetParam(), 256, (out + 7) / 8 * 8, 7);
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
  const DeviceBuffer x = to_device(random_inputs(GetParam(), 5 * 256, 1.0f, 9));
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
        call.over_half = index % 2 != 0;
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
  bad.scratch = scratch();
  bad.rows = kMostLinearRows + 1;
  EXPECT_EQ(linear_cuda(weight, bad, stream_->get()).code(), StatusCode::kInvalidArgument);
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
  bad.next_norm.weight = floats.as<float>();  // and nowhere to write to
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

}  // namespace
}  // namespace forerun::cuda
