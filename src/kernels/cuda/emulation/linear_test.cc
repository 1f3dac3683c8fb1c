// Tests the kernels of linear layers, emulated on the host (kernels/cuda/emulation/emulation.h). A
// row must have the same bits beside any other rows and in every kernel, and agree with plain
// loops, in whatever order warps run and copies complete.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/emulation/emulation.h"
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda/kernels.h"
#include "kernels/linear/cuda/linear_rig.h"
#include "kernels/linear/cuda/tile_plan.h"
#include "kernels/linear/cuda/tile_ring.h"

namespace forerun::cuda {
namespace {

struct Shape {
  int64_t in, out;
  int cluster_size, slice_k_warps;
};
std::string name_of(const Shape& shape) {
  return std::to_string(shape.in) + " x " + std::to_string(shape.out) + ", cluster " +
         std::to_string(shape.cluster_size) + ", input warps " +
         std::to_string(shape.slice_k_warps);
}

// A layer with all epilogues: a norm before it, and either bias and residual or gate and up.
struct Layer {
  static constexpr int kRows = 150;  // two tiles of rows
  Shape shape;
  bool gated;
  DeviceBuffer inputs, squares, bias, residual;
  int64_t stride;  // of the outputs, as in run()

  Layer(LinearFormat format, const Shape& of, bool is_gated)
      : shape(of), gated(is_gated), stride((of.out + 3) / 4 * 4 + 8) {
    inputs = to_device(random_inputs(format, static_cast<size_t>(kRows * shape.in), 1.0f, 3));
    std::vector<float> sums(static_cast<size_t>(kRows * shape.in / kNormGroup));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<float>(i % 97) * 0.37f;
    squares = to_device(sums);
    bias = to_device(random_bf16(static_cast<size_t>(shape.out), 1.0f, 4));
    residual = to_device(random_bf16(static_cast<size_t>(kRows * stride), 1.0f, 5));
  }
  int64_t outputs() const { return gated ? shape.out / 2 : shape.out; }
  LinearCall rows(int first, int count) const {
    LinearCall call = call_for(inputs, shape.in, count);
    call.input += first * shape.in;
    call.norm = {.squares = squares.as<float>() + first * (shape.in / kNormGroup), .eps = 0.1f};
    call.gated = gated;
    if (gated) return call;
    call.bias = bias.as<__nv_bfloat16>();
    call.residual = residual.as<__nv_bfloat16>() + first * stride;
    return call;
  }
};

// Whether another grouped format, whose units or parts are of the same kind, stands for this one.
bool is_alike(LinearFormat format) {
  return is_grouped(format) && format != LinearFormat::kQ8_0 && format != LinearFormat::kQ4_K &&
         format != LinearFormat::kQ6_K && format != LinearFormat::kMxfp4;
}

class LinearEmulation : public LinearCuda {
 protected:
  LinearWeightCuda packed(const SourceTensor& source, const LinearPlan& plan) {
    LinearWeightCuda weight = allocate(plan);
    const Status status = source.pack(weight, OutputPlacement::kPlain, 0, stream_->get());
    EXPECT_TRUE(status.ok()) << status.message();
    return weight;
  }
  // Expects rows [first, first + count) of the layer to have the bits of `all`, its outputs for all
  // rows.
  void expect_same(const LinearWeightCuda& weight, const Layer& layer,
                   const std::vector<uint16_t>& all, int first, int count) {
    emulation::set_seed(seed_++);
    const std::vector<uint16_t> part = run(weight, layer.rows(first, count), layer.outputs());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first * layer.outputs()))
        << name_of(layer.shape) << (layer.gated ? ", gated, " : ", ") << count << " rows from "
        << first;
  }
  std::vector<uint16_t> all_rows(const LinearWeightCuda& weight, const Layer& layer) {
    emulation::set_seed(seed_++);
    return run(weight, layer.rows(0, Layer::kRows), layer.outputs());
  }

 private:
  uint32_t seed_ = 1;
};
INSTANTIATE_TEST_SUITE_P(Formats, LinearEmulation, testing::ValuesIn(all_linear_formats()),
                         [](const auto& param) { return unit_format(param.param).name; });

TEST_P(LinearEmulation, RowsHaveTheSameBitsInAnyCompany) {
  const LinearFormat format = GetParam();
  std::set<int> splits;  // blocks that share a tile of many rows
  std::vector<Shape> shapes = {{1024, 64, 2, 4}};
  if (!is_alike(format)) shapes.insert(shapes.end(), {{1152, 136, 3, 1}, {256, 3200, 1, 1}});
  if (!is_grouped(format)) shapes.insert(shapes.end(), {{256, 40, 1, 1}, {1024, 224, 4, 2}});
  for (const Shape& shape : shapes) {
    const SourceTensor source(format, shape.in, shape.out, 17);
    const Result<LinearPlan> plan =
        plan_linear(format, shape.in, shape.out, shape.cluster_size, shape.slice_k_warps);
    ASSERT_TRUE(plan.ok()) << name_of(shape);
    const LinearWeightCuda weight = packed(source, *plan);
    for (const bool gated : {false, true}) {
      if (gated && (shape.out % 32 != 0 || format == LinearFormat::kInt8Group64)) continue;
      const Layer layer(format, shape, gated);
      const std::vector<uint16_t> all = all_rows(weight, layer);
      for (const auto& [first, rows] : std::vector<std::pair<int, int>>{
               {0, 1}, {3, 7}, {50, 16}, {111, 29}, {40, 33}, {70, 64}, {60, 77}}) {
        expect_same(weight, layer, all, first, rows);
        if (rows < kFewestTileRows) continue;
        splits.insert(plan_tiles(*plan, rows, multiprocessor_count().value()).splits);
      }
    }
  }
  EXPECT_GE(splits.size(), is_alike(format) ? 1 : is_grouped(format) ? 2 : 3);
}

// Inputs that do not fit at once are loaded in segments, from 9 rows on by a producer warp.
TEST_P(LinearEmulation, SegmentsThatAreFedAgainHaveTheSameBits) {
  if (is_alike(GetParam())) GTEST_SKIP() << "other grouped formats stand for it";
  constexpr Shape kShape = {14336, 96, 2, 2};
  const SourceTensor source(GetParam(), kShape.in, kShape.out, 3);
  const Result<LinearPlan> plan =
      plan_linear(GetParam(), kShape.in, kShape.out, kShape.cluster_size, kShape.slice_k_warps);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan_launch(*plan, 32, 227 << 10)->producer_warps, 1);
  const LinearWeightCuda weight = packed(source, *plan);
  const Layer layer(GetParam(), kShape, false);
  const std::vector<uint16_t> all = all_rows(weight, layer);
  for (const auto& [first, rows] : std::vector<std::pair<int, int>>{{0, 8}, {55, 16}, {110, 32}}) {
    expect_same(weight, layer, all, first, rows);
  }
}

// Gate and up with many outputs: int4 by the warpgroups kernel, bf16 in tiles of 256 outputs.
TEST_P(LinearEmulation, ManyOutputsHaveTheSameBits) {
  const LinearFormat format = GetParam();
  if (format == LinearFormat::kInt8Group64) GTEST_SKIP() << "int8 is for LM heads only";
  if (is_grouped(format)) GTEST_SKIP() << "has no kernel of its own for these";
  const bool is_int4 = format == LinearFormat::kInt4Group128;
  const Shape shape = is_int4 ? Shape{768, 10592, 2, 1} : Shape{96, 3072, 1, 1};
  const SourceTensor source(format, shape.in, shape.out, 19);
  const Result<LinearPlan> plan =
      plan_linear(format, shape.in, shape.out, shape.cluster_size, shape.slice_k_warps);
  ASSERT_TRUE(plan.ok());
  const LinearWeightCuda weight = packed(source, *plan);
  const Layer layer(format, shape, true);
  if (is_int4) {
    EXPECT_TRUE(takes_warpgroups(*plan, layer.rows(0, 17)));
  } else {
    EXPECT_EQ(plan_tiles(*plan, Layer::kRows, multiprocessor_count().value(), true).block_tiles,
              kWideBlockTiles);
  }
  const std::vector<uint16_t> all = all_rows(weight, layer);
  for (const auto& [first, rows] : std::vector<std::pair<int, int>>{{3, 8}, {61, 24}, {100, 32}}) {
    expect_same(weight, layer, all, first, rows);
  }
}

TEST_P(LinearEmulation, OutputsAreThoseOfPlainLoops) {
  const LinearFormat format = GetParam();
  constexpr Shape kShape = {1024, 224, 2, 2};
  const SourceTensor source(format, kShape.in, kShape.out, 17);
  const Result<LinearPlan> plan =
      plan_linear(format, kShape.in, kShape.out, kShape.cluster_size, kShape.slice_k_warps);
  ASSERT_TRUE(plan.ok());
  const LinearWeightCuda weight = packed(source, *plan);
  const DeviceBuffer x =
      to_device(random_inputs(format, static_cast<size_t>(40 * kShape.in), 1.0f, 3));
  for (const int rows : {8, 40}) {
    const std::vector<uint16_t> bits = run(weight, call_for(x, kShape.in, rows), kShape.out);
    EXPECT_LT(relative_error(floats(bits), source.reference(x, rows, stream_->get())),
              kBf16Tolerance)
        << rows << " rows";
  }
}

// Blocks of integers (model/integer_blocks.h) with a scale and a zero point for 128 inputs, packed
// for the int4 kernels.
TEST(LinearEmulationOfBlocks, OutputsOfInt4AreThoseOfPlainLoops) {
  constexpr int64_t kIn = 1024, kOut = 96, kBlockBytes = 19;
  StoredTensor stored = random_stored(LinearFormat::kInt4Zeros, kIn, kOut, 5);
  std::vector<float> weights;
  for (int64_t block = 0; block < kIn * kOut / 32; ++block) {
    uint8_t* const at = stored.bytes.data() + block * kBlockBytes;
    if (block % 4 == 0) at[2] %= 16;  // zero point
    std::copy_n(stored.bytes.data() + block / 4 * 4 * kBlockBytes, 3, at);
    const float scale = to_float(f16{static_cast<uint16_t>(at[0] | at[1] << 8)});
    for (int i = 0; i < 32; ++i) {
      const int q = i < 16 ? at[3 + i] & 15 : at[3 + i % 16] >> 4;
      weights.push_back(static_cast<float>(q - at[2]) * scale);
    }
  }
  const Result<LinearPlan> plan = plan_linear(LinearFormat::kInt4Group128, kIn, kOut);
  ASSERT_TRUE(plan.ok());
  Result<LinearWeightCuda> weight = LinearWeightCuda::allocate(*plan);
  ASSERT_TRUE(weight.ok());
  const DeviceBuffer blocks = to_device(stored.bytes), wide = to_device(weights);
  ASSERT_OK(weight->pack_stored(StoredBlocks{blocks.data(), stored.row_bytes, 0}, kOut,
                                OutputPlacement::kPlain, 0, nullptr));
  const DeviceBuffer x = to_device(random_inputs(LinearFormat::kInt4Group128, 5 * kIn, 1.0f, 3));
  const DeviceBuffer found = to_device(std::vector<float>(5 * kOut));
  const DeviceBuffer expected = to_device(std::vector<float>(5 * kOut));
  ASSERT_OK(linear_f32_ref_cuda(wide.as<float>(), kIn, kOut, x.as<uint16_t>(), 5,
                                expected.as<float>(), nullptr));
  LinearCall call = call_for(x, kIn, 5);
  call.output_f32 = found.as<float>();
  call.output_stride = kOut;
  ASSERT_OK(linear_cuda(*weight, call, nullptr));
  EXPECT_LT(relative_error(to_host<float>(found, 5 * kOut), to_host<float>(expected, 5 * kOut)),
            1e-5);
}

// TileWork finds a tile's outputs and rows without a division.
TEST(LinearTileWork, IsWhereADivisionSays) {
  LinearKernelArgs args = {};
  args.rows = kMaxLinearRows;
  for (int row_tiles = 1; row_tiles <= kMaxLinearRows / kTileRows; ++row_tiles) {
    for (const int splits : {1, 4}) {
      LinearTiling tiling;
      tiling.row_tiles = row_tiles;
      tiling.tile_rows = 8;
      tiling.splits = splits;
      const TileSplit split(tiling, 4 * 5000, {});
      ASSERT_EQ(split.num_work_tiles, 5000 * row_tiles * splits);
      for (int index = 0; index < split.num_work_tiles; index += 7) {
        const TileWork work(args, split, index);
        ASSERT_EQ(work.split, index % splits);
        ASSERT_EQ(work.first_tile, index / splits / row_tiles * kBlockTiles) << index;
        ASSERT_EQ(work.first_row, index / splits % row_tiles * 8) << index;
      }
    }
  }
}

}  // namespace
}  // namespace forerun::cuda
