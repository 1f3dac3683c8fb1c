// Compares the first kernel of a forward pass with plain loops, for tables of all formats. Runs on
// a GPU of compute capability 9.0 and, emulated, on the host (kernels/cuda/emulation).
#include "kernels/embedding/cuda/embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/cuda_testing.h"
#include "kernels/linear/cuda/stored_rig.h"

namespace forerun::cuda {
namespace {

constexpr int64_t kDim = 768;
constexpr int64_t kStride = 776;
constexpr int32_t kTableTokens = 40;
constexpr int32_t kBytes = 9040;  // bytes of the Step's data: more than are loaded before their
                                  // number is known

class EmbeddingCuda : public testing::TestWithParam<LinearFormat> {
 protected:
  void SetUp() override { SKIP_WITHOUT_GPUS(1); }
};

// Returns two words, `tokens`, then numbers.
std::vector<std::byte> step_of(const std::vector<int32_t>& tokens) {
  std::vector<int32_t> words(kBytes / 4);
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<int32_t>(i * 7);
  words[0] = kBytes;
  std::copy(tokens.begin(), tokens.end(), words.begin() + 2);
  std::vector<std::byte> bytes(kBytes);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

TEST_P(EmbeddingCuda, LooksRowsUpAndBeginsTheNorm) {
  const LinearFormat format = GetParam();
  std::vector<uint8_t> table;
  std::vector<float> weights;  // [tokens][dim]
  int64_t row_bytes = 2 * kDim;
  if (format == LinearFormat::kBf16) {
    const std::vector<uint16_t> values = random_bf16(kTableTokens * kDim, 1.0f, 1);
    for (const uint16_t v : values) weights.push_back(to_float(bf16{v}));
    table.resize(values.size() * 2);
    std::memcpy(table.data(), values.data(), table.size());
  } else {
    const StoredTensor stored = random_stored(format, kDim, kTableTokens, 1);
    table = stored.bytes;
    row_bytes = stored.row_bytes;
    weights = stored.weights;
  }
  const std::vector<int32_t> tokens = {7, 0, kTableTokens - 1, kTableTokens, -1, 7};
  const auto rows = static_cast<int32_t>(tokens.size());
  std::vector<float> norm(kDim);
  for (size_t i = 0; i < norm.size(); ++i) norm[i] = 0.5f + static_cast<float>(i % 13);
  const std::vector<std::byte> step = step_of(tokens);
  const DeviceBuffer device_table = to_device(table), device_norm = to_device(norm);
  const DeviceBuffer source = to_device(step), target = to_device(std::vector<std::byte>(kBytes));
  const auto values = static_cast<size_t>(rows * kStride);
  const DeviceBuffer output = to_device(std::vector<uint16_t>(values));
  const DeviceBuffer scaled = to_device(std::vector<uint16_t>(values));
  const auto groups = static_cast<size_t>(rows * kDim / kNormGroup);
  const DeviceBuffer squares = to_device(std::vector<float>(groups));
  const DeviceBuffer cleared = to_device(std::vector<uint32_t>(5000, 1));
  const Result<Stream> stream = Stream::create();
  ASSERT_TRUE(stream.ok());
  ASSERT_OK(prepare_embedding_cuda());
  ASSERT_OK(embedding_cuda({.source = source.data(),
                            .target = target.as<std::byte>(),
                            .bytes_offset = 0,
                            .tokens_offset = 8,
                            .table = {.rows = device_table.data(),
                                      .row_bytes = row_bytes,
                                      .tokens = kTableTokens,
                                      .format = format},
                            .dim = kDim,
                            .output = output.as<__nv_bfloat16>(),
                            .output_stride = kStride,
                            .next_norm = {.weight = device_norm.as<float>(),
                                          .scaled = scaled.as<uint16_t>(),
                                          .squares = squares.as<float>()},
                            .rows = rows,
                            .to_clear = cleared.as<uint32_t>(),
                            .clear_count = 4999},
                           stream->get()));
  ASSERT_OK(stream->synchronize());

  const auto found = to_host<uint16_t>(output, values);
  const auto found_scaled = to_host<uint16_t>(scaled, values);
  const auto found_squares = to_host<float>(squares, groups);
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t token = tokens[static_cast<size_t>(row)];
    const bool is_there = token >= 0 && token < kTableTokens;
    double sum = 0;
    for (int64_t i = 0; i < kDim; ++i) {
      const float weight = is_there ? weights[static_cast<size_t>(token * kDim + i)] : 0.0f;
      const bf16 expected = to_bf16(weight);
      const auto at = static_cast<size_t>(row * kStride + i);
      ASSERT_EQ(to_float(bf16{found[at]}), to_float(expected)) << "row " << row << ", " << i;
      const float product = to_float(expected) * norm[static_cast<size_t>(i)];
      ASSERT_EQ(to_float(bf16{found_scaled[at]}), to_float(to_bf16(product)));
      sum += static_cast<double>(to_float(expected)) * to_float(expected);
      if (i % kNormGroup != kNormGroup - 1) continue;
      const auto group = static_cast<size_t>((row * kDim + i) / kNormGroup);
      ASSERT_NEAR(found_squares[group], sum, 1e-5 * sum);
      sum = 0;
    }
  }
  EXPECT_EQ(to_host<std::byte>(target, kBytes), step);
  const auto words = to_host<uint32_t>(cleared, 5000);
  EXPECT_EQ(std::count(words.begin(), words.end(), 0u), 4999);
}

TEST_P(EmbeddingCuda, RefusesWhatItHasNoKernelFor) {
  const DeviceBuffer buffer = to_device(std::vector<float>(64));
  EmbeddingCallCuda call = {.dim = 32,
                            .output_stride = 32,
                            .next_norm = {.weight = buffer.as<float>(),
                                          .scaled = buffer.as<uint16_t>(),
                                          .squares = buffer.as<float>()},
                            .rows = 1};
  call.table.format = LinearFormat::kFp8;
  EXPECT_EQ(embedding_cuda(call, nullptr).code(), StatusCode::kInvalidArgument);
  call.table.format = GetParam();
  call.dim = 33;
  EXPECT_EQ(embedding_cuda(call, nullptr).code(), StatusCode::kInvalidArgument);
}

std::vector<LinearFormat> table_formats() {
  std::vector<LinearFormat> formats = {LinearFormat::kBf16};
  for (const UnitFormat& each : kUnitFormats) {
    if (is_grouped(each.format) && each.format != LinearFormat::kFp8)
      formats.push_back(each.format);
  }
  return formats;
}
INSTANTIATE_TEST_SUITE_P(Formats, EmbeddingCuda, testing::ValuesIn(table_formats()),
                         [](const auto& param) { return unit_format(param.param).name; });

}  // namespace
}  // namespace forerun::cuda
