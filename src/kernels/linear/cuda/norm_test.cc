// Tests the two halves of a norm that linear layers compute: the outputs of the layer before the
// norm, and the factor by which the layer after the norm multiplies its sums. Runs on a GPU of
// compute capability 9.0; skips itself elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/peer_group.h"
#include "kernels/linear/cuda/linear_rig.h"

namespace forerun::cuda {
namespace {

// The norm data that the layer before a norm writes for rows x [rows][width].
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

// Runs a call with `next_norm`: products and sums of squares must match the outputs, and rows past
// the last row must keep their poison. Returns the sums of squares.
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
  // The sizes have tiles for at most 8 warps at once, and for more: int4 with 12 warps, or several
  // passes.
  for (const int64_t out : {32, 96, 2528, 20032}) {
    const SourceTensor source(GetParam(), kIn, out, 7);
    const DeviceBuffer x = to_device(random_inputs(GetParam(), kRows * kIn, 1.0f, 3));
    const DeviceBuffer residual =
        to_device(random_bf16(static_cast<size_t>(kRows * out), 3.0f, 12));
    std::vector<float> weight_of_norm = random_floats(static_cast<size_t>(out), 4);
    weight_of_norm[7] = 1e7f;  // beyond the range of f16
    // Two GPUs have the same sums: the norm must work after an all-reduce as without it.
    Result<PeerGroup> group = PeerGroup::loopback(0, 2, {.max_rows = kRows, .width = out});
    ASSERT_TRUE(group.ok()) << group.status().message();
    int exchanges = 0;
    for (const int cluster_size : {1, 2, 3, 4}) {
      for (const int slice_k_warps : {1, 2}) {
        const Result<LinearPlan> plan =
            plan_linear(GetParam(), kIn, out, cluster_size, slice_k_warps);
        if (!plan.ok()) continue;
        LinearWeightCuda weight = allocate(*plan);
        ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
        for (const bool reduce : {false, true}) {
          if (reduce && GetParam() == LinearFormat::kInt8Group64) continue;  // not supported
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
                         ", input warps " + std::to_string(slice_k_warps) +
                         (reduce ? ", a sum over two" : ""));
            std::vector<float> squares = expect_norm_parts(
                weight, call, weight_of_norm, linear_input_format(GetParam()), *stream_);
            EXPECT_TRUE(std::equal(fewer_rows.begin(), fewer_rows.end(), squares.begin()))
                << "a row's bits depend on the other rows";
            fewer_rows = std::move(squares);
          }
        }
      }
    }
    ASSERT_OK(group->check());
  }
}

// The rows of the outputs come from chosen rows of `parts`' input, in another order.
TEST_P(LinearCuda, NormOfTheInputAndChosenRowsMatchReferenceForEverySplitAndRowCount) {
  struct Shape {
    int64_t in, out;
  };
  constexpr int kRows = 40;
  constexpr float kEps = 0.05f;  // large enough that the test fails without it
  std::vector<int32_t> index;
  for (int32_t i = 0; i < kRows; ++i) index.push_back(i * 7 % 25 + 3);
  const DeviceBuffer index_device = to_device(index);
  for (const Shape shape : {Shape{128, 40}, {1152, 264}, {4096, 5000}}) {
    const auto in = static_cast<size_t>(shape.in);
    const auto out = static_cast<size_t>(shape.out);
    const SourceTensor source(GetParam(), shape.in, shape.out, 7);
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
      for (const int slice_k_warps : {1, 2, 8}) {
        const Result<LinearPlan> plan =
            plan_linear(GetParam(), shape.in, shape.out, cluster_size, slice_k_warps);
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
              << ", input warps " << slice_k_warps;
        }
        for (const std::vector<uint16_t>& part : bits) {
          EXPECT_TRUE(std::equal(part.begin(), part.end(), bits.back().begin()))
              << "a row's bits depend on the other rows";
        }
      }
    }
  }
}

}  // namespace
}  // namespace forerun::cuda
