// Compares the kernels of taps and of a trained head's input with plain loops. Runs on a GPU of
// compute capability 9.0 and, emulated, on the host (kernels/cuda/emulation).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/cuda_testing.h"
#include "kernels/features/cuda/gather_taps.h"
#include "kernels/features/cuda/join_features.h"
#include "kernels/features/cuda/keep_taps.h"
#include "kernels/features/cuda/row_features.h"
#include "kernels/features/cuda/spread_logits.h"

namespace forerun::cuda {
namespace {

constexpr float kEps = 1e-5f;
constexpr uint16_t kPoison = 0x7fc1;  // NaN

// Returns a Step's data: two words, then a list; the second word is its offset.
template <class T>
std::vector<std::byte> step_of(const std::vector<T>& list) {
  constexpr int32_t kListOffset = 32;
  std::vector<std::byte> bytes(kListOffset + list.size() * sizeof(T));
  const int32_t words[] = {static_cast<int32_t>(list.size()), kListOffset};
  std::memcpy(bytes.data(), words, sizeof(words));
  if (!list.empty()) std::memcpy(bytes.data() + kListOffset, list.data(), list.size() * sizeof(T));
  return bytes;
}

std::vector<float> random_weights(int64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(0.1f, 2.0f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = uniform(engine);
  return values;
}

std::vector<double> wide(const std::vector<uint16_t>& values, int64_t begin, int64_t count) {
  std::vector<double> out;
  for (int64_t i = begin; i < begin + count; ++i) {
    out.push_back(to_float(bf16{values[static_cast<size_t>(i)]}));
  }
  return out;
}

void normalize(std::span<double> x, std::span<const float> weights) {
  double squares = 0.0;
  for (const double v : x) squares += v * v;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + kEps);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= scale * static_cast<double>(weights[i]);
}

std::vector<double> rounded(std::vector<double> x) {
  for (double& v : x) v = static_cast<double>(to_float(to_bf16(static_cast<float>(v))));
  return x;
}

double value_of(ActivationFormat format, uint16_t bits) {
  if (format == ActivationFormat::kBf16) return static_cast<double>(to_float(bf16{bits}));
  return static_cast<double>(to_float(f16{bits})) / static_cast<double>(kF16Scale);
}

// Expects each value to be within one rounding of the expected one, or within two of bf16 if it was
// rounded `before`; NaN is always wrong.
void expect_row(const std::vector<uint16_t>& found, int64_t begin, ActivationFormat format,
                const std::vector<double>& expected, const std::string& what, bool before = false) {
  const double rounding = format == ActivationFormat::kBf16 || before ? 1.0 / 128 : 1.0 / 1024;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double value = value_of(format, found[static_cast<size_t>(begin) + i]);
    const double allowed = std::fabs(expected[i]) * rounding + 1e-6;
    ASSERT_TRUE(std::fabs(value - expected[i]) <= allowed)
        << what << ", column " << i << ": " << value << " instead of " << expected[i];
  }
}

TEST(FeaturesCuda, KeepsTheRowsOfTheListInTheirPlaces) {
  SKIP_WITHOUT_GPUS(1);
  const Result<Stream> stream = Stream::create();
  ASSERT_OK(stream.status());
  ASSERT_OK(prepare_keep_taps_cuda());
  constexpr int64_t kPlaces = 7;
  constexpr int64_t kRows = 5;
  for (const int64_t dim : {8, 64, 2056, 4096}) {
    const int64_t hidden_stride = dim + 8;
    const int64_t store_stride = 3 * dim;
    for (const std::vector<TapPlaceCuda>& taps : {std::vector<TapPlaceCuda>{},
                                                  {{0, 6}, {3, 0}, {4, 2}},
                                                  {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}}}) {
      const auto rows = random_bf16(static_cast<size_t>(kRows * hidden_stride), 1.0f, 3);
      const DeviceBuffer step = to_device(step_of(taps));
      const DeviceBuffer hidden = to_device(rows);
      std::vector<uint16_t> expected(static_cast<size_t>(kPlaces * store_stride), kPoison);
      const DeviceBuffer store = to_device(expected);
      ASSERT_OK(keep_taps_cuda({.step = step.data(),
                                .count_offset = 0,
                                .taps_offset_offset = 4,
                                .hidden = hidden.as<__nv_bfloat16>(),
                                .hidden_stride = hidden_stride,
                                .store = store.as<__nv_bfloat16>() + dim,
                                .store_stride = store_stride,
                                .dim = dim,
                                .rows = static_cast<int32_t>(kRows)},
                               stream->get()));
      ASSERT_OK(stream->synchronize());
      for (const TapPlaceCuda& tap : taps) {
        std::copy_n(rows.begin() + tap.row * hidden_stride, dim,
                    expected.begin() + tap.place * store_stride + dim);
      }
      EXPECT_TRUE(to_host<uint16_t>(store, expected.size()) == expected) << dim;
    }
  }
  EXPECT_EQ(keep_taps_cuda({}, stream->get()).code(), StatusCode::kInvalidArgument);
}

TEST(FeaturesCuda, GathersAndNormalizesTapsOfTheTarget) {
  SKIP_WITHOUT_GPUS(1);
  const Result<Stream> stream = Stream::create();
  ASSERT_OK(stream.status());
  ASSERT_OK(prepare_gather_taps_cuda());
  constexpr int64_t kPlaces = 4;
  const std::vector<RowFeatureCuda> features = {{RowFeatureCuda::kTarget, 3},
                                                {RowFeatureCuda::kOwn, 1},
                                                {RowFeatureCuda::kTarget, 0},
                                                {RowFeatureCuda::kNone, 0}};
  const auto rows = static_cast<int64_t>(features.size());
  const DeviceBuffer step = to_device(step_of(features));
  for (const int64_t tap : {64, 72, 2048}) {
    const int64_t width = 3 * tap;
    const int64_t stride = width + 8;
    const auto stored = random_bf16(static_cast<size_t>(kPlaces * width), 3.0f, 5);
    const DeviceBuffer store = to_device(stored);
    const std::vector<float> weights = random_weights(width, 7);
    const DeviceBuffer norms = to_device(weights);
    for (const int64_t norm_width : {int64_t{0}, tap, width}) {
      for (const ActivationFormat format : {ActivationFormat::kBf16, ActivationFormat::kF16}) {
        const DeviceBuffer output =
            to_device(std::vector<uint16_t>(static_cast<size_t>(rows * stride), kPoison));
        ASSERT_OK(gather_taps_cuda({.step = step.data(),
                                    .features_offset_offset = 4,
                                    .store = store.as<__nv_bfloat16>(),
                                    .width = width,
                                    .norms = norm_width == 0 ? nullptr : norms.as<float>(),
                                    .norm_width = norm_width,
                                    .eps = kEps,
                                    .output = output.as<uint16_t>(),
                                    .output_stride = stride,
                                    .format = format,
                                    .rows = static_cast<int32_t>(rows)},
                                   stream->get()));
        ASSERT_OK(stream->synchronize());
        const auto found = to_host<uint16_t>(output, static_cast<size_t>(rows * stride));
        for (int64_t row = 0; row < rows; ++row) {
          const RowFeatureCuda& feature = features[static_cast<size_t>(row)];
          if (feature.source != RowFeatureCuda::kTarget) {
            EXPECT_EQ(found[static_cast<size_t>(row * stride)], kPoison);
            continue;
          }
          std::vector<double> expected = wide(stored, feature.place * width, width);
          for (int64_t begin = 0; norm_width > 0 && begin < width; begin += norm_width) {
            normalize(std::span(expected).subspan(static_cast<size_t>(begin),
                                                  static_cast<size_t>(norm_width)),
                      std::span(weights).subspan(static_cast<size_t>(begin),
                                                 static_cast<size_t>(norm_width)));
          }
          expect_row(found, row * stride, format, expected,
                     std::to_string(tap) + ", norms over " + std::to_string(norm_width));
          EXPECT_EQ(found[static_cast<size_t>(row * stride + width)], kPoison);
        }
      }
    }
  }
  EXPECT_EQ(gather_taps_cuda({}, stream->get()).code(), StatusCode::kInvalidArgument);
}

struct Join {
  bool own_norm;
  bool norm_before_residual;
  ActivationFormat format;
};

void expect_join(int64_t dim, const Join& how, const Stream& stream) {
  const std::vector<RowFeatureCuda> features = {{RowFeatureCuda::kTarget, 0},
                                                {RowFeatureCuda::kOwn, 2},
                                                {RowFeatureCuda::kNone, 0},
                                                {RowFeatureCuda::kOwn, 0}};
  const auto rows = static_cast<int64_t>(features.size());
  const int64_t stride = dim + 8;
  const int64_t joined_stride = 2 * dim + 8;
  const auto row_values = static_cast<size_t>(rows * stride);
  const auto embedded = random_bf16(row_values, 1.0f, 11);
  const auto projected = random_bf16(row_values, 4.0f, 12);
  const auto own = random_bf16(static_cast<size_t>(3 * dim), 2.0f, 13);
  const std::vector<float> embedding_norm = random_weights(dim, 14);
  const std::vector<float> feature_norm = random_weights(dim, 15);
  const std::vector<float> own_norm = random_weights(dim, 16);
  const DeviceBuffer step = to_device(step_of(features));
  const DeviceBuffer on_device[] = {to_device(embedded), to_device(projected), to_device(own)};
  const DeviceBuffer norms[] = {to_device(embedding_norm), to_device(feature_norm),
                                to_device(own_norm)};
  const DeviceBuffer residual = to_device(std::vector<uint16_t>(row_values, kPoison));
  const DeviceBuffer joined =
      to_device(std::vector<uint16_t>(static_cast<size_t>(rows * joined_stride), kPoison));
  ASSERT_OK(join_features_cuda({.step = step.data(),
                                .features_offset_offset = 4,
                                .embedded = on_device[0].as<__nv_bfloat16>(),
                                .projected = on_device[1].as<__nv_bfloat16>(),
                                .stream = residual.as<__nv_bfloat16>(),
                                .stride = stride,
                                .own = on_device[2].as<__nv_bfloat16>(),
                                .own_norm = how.own_norm ? norms[2].as<float>() : nullptr,
                                .embedding_norm = norms[0].as<float>(),
                                .feature_norm = norms[1].as<float>(),
                                .eps = kEps,
                                .norm_before_residual = how.norm_before_residual,
                                .joined = joined.as<uint16_t>(),
                                .joined_stride = joined_stride,
                                .format = how.format,
                                .dim = dim,
                                .rows = static_cast<int32_t>(rows)},
                               stream.get()));
  ASSERT_OK(stream.synchronize());
  const auto found = to_host<uint16_t>(joined, static_cast<size_t>(rows * joined_stride));
  const auto stream_found = to_host<uint16_t>(residual, row_values);
  for (int64_t row = 0; row < rows; ++row) {
    SCOPED_TRACE("row " + std::to_string(row) + " of " + std::to_string(dim));
    const RowFeatureCuda& feature = features[static_cast<size_t>(row)];
    std::vector<double> x(static_cast<size_t>(dim), 0.0);
    if (feature.source == RowFeatureCuda::kTarget) x = wide(projected, row * stride, dim);
    if (feature.source == RowFeatureCuda::kOwn) x = wide(own, feature.place * dim, dim);
    const bool before = feature.source == RowFeatureCuda::kOwn && how.own_norm;
    if (before) {
      normalize(x, own_norm);
      x = rounded(x);
    }
    std::vector<double> left = wide(embedded, row * stride, dim);
    normalize(left, embedding_norm);
    std::vector<double> right = x;
    normalize(right, feature_norm);
    expect_row(found, row * joined_stride, how.format, left, "embedding");
    expect_row(found, row * joined_stride + dim, how.format, right, "feature", before);
    expect_row(stream_found, row * stride, ActivationFormat::kBf16,
               how.norm_before_residual ? right : x, "stream", before);
    EXPECT_EQ(found[static_cast<size_t>(row * joined_stride + 2 * dim)], kPoison);
    EXPECT_EQ(stream_found[static_cast<size_t>(row * stride + dim)], kPoison);
  }
}

TEST(FeaturesCuda, JoinsEmbeddingsAndFeatures) {
  SKIP_WITHOUT_GPUS(1);
  const Result<Stream> stream = Stream::create();
  ASSERT_OK(stream.status());
  ASSERT_OK(prepare_join_features_cuda());
  for (const int64_t dim : {32, 2056, 4096}) {
    for (const bool own_norm : {false, true}) {
      for (const bool norm_before_residual : {false, true}) {
        for (const ActivationFormat format : {ActivationFormat::kBf16, ActivationFormat::kF16}) {
          expect_join(dim, {own_norm, norm_before_residual, format}, *stream);
        }
      }
    }
  }
  EXPECT_EQ(join_features_cuda({}, stream->get()).code(), StatusCode::kInvalidArgument);
}

TEST(FeaturesCuda, SpreadsLogitsOverTheirTokens) {
  SKIP_WITHOUT_GPUS(1);
  const Result<Stream> stream = Stream::create();
  ASSERT_OK(stream.status());
  ASSERT_OK(prepare_spread_logits_cuda());
  constexpr int32_t kRows = 3;
  constexpr int32_t kDrafts = 40;
  for (const int32_t tokens : {41, 1024, 3000}) {
    const int64_t stride = tokens + 3;
    std::vector<int32_t> columns(static_cast<size_t>(tokens), -1);
    for (int32_t draft = 0; draft < kDrafts; ++draft) {
      columns[static_cast<size_t>(draft * (tokens / kDrafts))] = kDrafts - 1 - draft;
    }
    const std::vector<float> drafts = random_weights(int64_t{kRows} * 48, 9);
    const DeviceBuffer column_of = to_device(columns);
    const DeviceBuffer from = to_device(drafts);
    std::vector<float> expected(static_cast<size_t>(kRows * stride), -5.0f);
    const DeviceBuffer logits = to_device(expected);
    ASSERT_OK(spread_logits_cuda({.drafts = from.as<float>(),
                                  .drafts_stride = 48,
                                  .column_of = column_of.as<int32_t>(),
                                  .logits = logits.as<float>(),
                                  .logits_stride = stride,
                                  .tokens = tokens,
                                  .rows = kRows},
                                 stream->get()));
    ASSERT_OK(stream->synchronize());
    for (int32_t row = 0; row < kRows; ++row) {
      for (int32_t token = 0; token < tokens; ++token) {
        const int32_t column = columns[static_cast<size_t>(token)];
        expected[static_cast<size_t>(row * stride + token)] =
            column < 0 ? -INFINITY : drafts[static_cast<size_t>(row * 48 + column)];
      }
    }
    EXPECT_TRUE(to_host<float>(logits, expected.size()) == expected) << tokens;
  }
  EXPECT_EQ(spread_logits_cuda({}, stream->get()).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace forerun::cuda
