// Tests batch invariance: a row's bits must be the same beside any other rows, whichever kernel
// runs it. Runs on a GPU of compute capability 9.0; skips itself elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "kernels/linear/cuda/kernels.h"
#include "kernels/linear/cuda/linear_rig.h"

namespace forerun::cuda {
namespace {

TEST_P(LinearCuda, RowsHaveTheSameBitsInAnyCompany) {
  const LinearFormat format = GetParam();
  struct Shape {
    int64_t in, out;
    bool before_attention = false;
  };
  // There are shapes for every tile schedule, and for a cluster of 4 (before attention); 14336 and
  // 28672 are gate and up.
  std::vector<Shape> shapes = {
      {8192, 2560, true}, {2048, 8192}, {3072, 5120}, {4096, 6144}, {14336, 4096}};
  if (format == LinearFormat::kInt4Group128) {
    shapes.push_back({8192, 14336});
    shapes.push_back({4096, 28672});
    shapes.push_back({9600, 1024});  // 8 rows at once, with kOverHalf
  }
  std::set<TileSchedule> schedules;
  std::set<int> splits;  // blocks that share a tile of many rows
  int warpgroup_calls = 0;
  for (const Shape& shape : shapes) {
    const SourceTensor source(format, shape.in, shape.out, 11);
    const Result<LinearPlan> plan =
        plan_linear(format, shape.in, shape.out, /*may_idle_sms=*/shape.before_attention);
    ASSERT_TRUE(plan.ok());
    for (const int rows : {8, 16, 24}) {
      const Result<LinearLaunch> launch = plan_launch(*plan, rows, 232448);
      ASSERT_TRUE(launch.ok());
      schedules.insert(launch->schedule);
    }
    LinearWeightCuda weight = allocate(*plan);
    ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
    constexpr int kRows = 1024;
    const bool gated = shape.out % 14336 == 0;
    const int64_t width = gated ? shape.out / 2 : shape.out;
    const DeviceBuffer x =
        to_device(random_inputs(format, static_cast<size_t>(kRows * shape.in), 1.0f, 5));
    LinearCall every_row = call_for(x, shape.in, kRows);
    every_row.gated = gated;
    const std::vector<uint16_t> all = run(weight, every_row, width);
    for (const int rows : {1, 2, 5, 8, 16, 17, 24, 32, 33, 64, 65, 96, 128, 129, 192, 256, 512}) {
      for (const int first : {0, 5, kRows - rows}) {
        LinearCall call = call_for(x, shape.in, rows);
        call.input += first * shape.in;
        call.gated = gated;
        call.shares_reduce_kernel = first == 5;  // another kernel with the same bits
        // The footprint may lead to another schedule.
        call.footprint = first == 0   ? LinearFootprint::kOverHalf
                         : first == 5 ? LinearFootprint::kHalf
                                      : LinearFootprint::kBesideAttention;
        if (takes_warpgroups(*plan, call)) ++warpgroup_calls;
        if (rows >= kFewestTileRows) splits.insert(plan_tiles(*plan, rows, 132).splits);
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
  EXPECT_EQ(schedules.size(), format == LinearFormat::kInt4Group128 ? 3 : 2);
  EXPECT_GE(splits.size(), 3);
  // There are two shapes, three numbers of rows (17, 24 and 32), and three calls.
  EXPECT_EQ(warpgroup_calls, format == LinearFormat::kInt4Group128 ? 18 : 0);
}

// There are more segments of activations than buffers, with one and two passes over the tiles. From
// 9 rows on a producer warp loads them.
TEST_P(LinearCuda, SegmentsThatAreFedAgainHaveTheSameBits) {
  const LinearFormat format = GetParam();
  for (const int64_t out : {96, 16896}) {
    const int64_t in = out == 96 ? 14336 : 7168;
    const SourceTensor source(format, in, out, 3);
    const Result<LinearPlan> plan =
        plan_linear(format, in, out, /*cluster_size=*/2, /*slice_k_warps=*/2);
    ASSERT_TRUE(plan.ok());
    LinearWeightCuda weight = allocate(*plan);
    ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
    constexpr int kRows = 32;
    const DeviceBuffer x =
        to_device(random_inputs(format, static_cast<size_t>(kRows * in), 1.0f, 5));
    const std::vector<uint16_t> all = run(weight, call_for(x, in, kRows), out);
    EXPECT_EQ(plan_launch(*plan, kRows, 232448)->producer_warps, 1) << in << " x " << out;
    for (const int rows : {8, 16}) {
      for (int first = 0; first < kRows; first += rows) {
        LinearCall call = call_for(x, in, rows);
        call.input += first * in;
        const std::vector<uint16_t> part = run(weight, call, out);
        EXPECT_EQ(
            std::memcmp(part.data(), all.data() + first * out, part.size() * sizeof(uint16_t)), 0)
            << in << " x " << out << ", " << rows << " rows from " << first;
      }
    }
  }
}

// Tests every split and ragged edge, with all epilogues: a row must have the same bits among
// hundreds of rows as among few.
TEST_P(LinearCuda, ManyRowsHaveTheBitsOfFewForEverySplit) {
  constexpr int kRows = 300;
  constexpr int kFew = 29;
  std::set<int> splits, piece_lengths;  // for tiles that several blocks share
  struct Shape {
    int64_t in, out;
  };
  for (const Shape shape :
       {Shape{128, 8}, {1152, 264}, {2048, 1056}, {1024, 4288}, {4480, 160}, {7168, 512}}) {
    const SourceTensor source(GetParam(), shape.in, shape.out, 17);
    const int64_t input_stride = linear_input_stride(shape.in, 1);
    std::vector<uint16_t> inputs =
        random_inputs(GetParam(), static_cast<size_t>(kRows * input_stride), 1.0f, 3);
    for (size_t i = 0; i < inputs.size(); ++i) {  // elements between rows must not be read
      if (static_cast<int64_t>(i) % input_stride >= shape.in) inputs[i] = 0x7fc1;
    }
    const DeviceBuffer x = to_device(inputs);
    const int64_t groups = shape.in / kNormGroup;
    std::vector<float> sums(static_cast<size_t>(kRows * groups));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<float>(i % 97) * 0.37f;
    const DeviceBuffer squares = to_device(sums);
    const DeviceBuffer bias = to_device(random_bf16(static_cast<size_t>(shape.out), 1.0f, 4));
    const int64_t stride = (shape.out + 3) / 4 * 4 + 8;  // the stride of run()
    const DeviceBuffer residual =
        to_device(random_bf16(static_cast<size_t>(kRows * stride), 1.0f, 5));
    for (const int cluster_size : {1, 2, 3, 4, 5}) {
      for (const int slice_k_warps : {1, 2, 4, 8}) {
        const Result<LinearPlan> plan =
            plan_linear(GetParam(), shape.in, shape.out, cluster_size, slice_k_warps);
        if (!plan.ok()) continue;
        LinearWeightCuda weight = allocate(*plan);
        ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
        for (const bool gated : {false, true}) {
          if (gated && (shape.out % 32 != 0 || GetParam() == LinearFormat::kInt8Group64)) continue;
          const auto rows_from = [&](int first, int rows, bool shares_reduce_kernel = false) {
            LinearCall call = call_for(x, input_stride, rows);
            call.shares_reduce_kernel = shares_reduce_kernel;
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
          const auto expect_same = [&](int first, int rows, bool shares_reduce_kernel) {
            const std::vector<uint16_t> part = rows_from(first, rows, shares_reduce_kernel);
            EXPECT_TRUE(std::equal(part.begin(), part.end(),
                                   all.begin() + static_cast<int64_t>(first * width)))
                << shape.in << " x " << shape.out << ", cluster " << cluster_size
                << ", input warps " << slice_k_warps << (gated ? ", gated" : "") << ", " << rows
                << " rows from " << first << (shares_reduce_kernel ? ", beside sums" : "");
          };
          for (const int first : {0, 111, kRows - kFew}) expect_same(first, kFew, first == 111);
          for (const int rows : {3, 13}) {
            for (const bool shares_reduce_kernel : {false, true})
              expect_same(50, rows, shares_reduce_kernel);
          }
          for (const int rows : {33, 40, 64, 65, 77, 128, 129, kRows}) {
            expect_same(kRows - rows, rows, false);
            const LinearTiling tiling = plan_tiles(*plan, rows, 132);
            splits.insert(tiling.splits);
            if (tiling.splits > 1) piece_lengths.insert(tiling.chains_per_piece);
          }
        }
      }
    }
  }
  EXPECT_GE(splits.size(), 5);
  EXPECT_GE(piece_lengths.size(), 3);
}

// Tests gate and up, and unrounded outputs of an LM head, in tiles of 256 outputs.
TEST_P(LinearCuda, WideTilesHaveTheBitsOfFewRows) {
  if (GetParam() != LinearFormat::kBf16) GTEST_SKIP() << "integers have none";
  constexpr int kRows = 300;
  constexpr int kFew = 29;
  for (const int64_t in : {96, 2048}) {         // 96: the last stage is half full
    for (const int64_t out : {20032, 20001}) {  // ragged: the LM head only
      const SourceTensor source(GetParam(), in, out, 19);
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
      for (const int rows : {64, 65, 77, 128, 129, kRows}) {
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

}  // namespace
}  // namespace forerun::cuda
