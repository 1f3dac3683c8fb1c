// A rig for tests of linear layers on GPUs: source tensors of all formats, inputs, and a fixture
// that runs calls and checks memory that a kernel must not write. For GoogleTest programs; one file
// of a program instantiates LinearCuda.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/cuda_testing.h"
#include "kernels/linear/cuda/linear.h"
#include "kernels/linear/cuda/stored_rig.h"

namespace forerun::cuda {

// Returns |out - ref| / |ref| over all elements; infinite if any of them is not finite.
inline double relative_error(const std::vector<float>& out, const std::vector<float>& ref) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < ref.size(); ++i) {
    if (!std::isfinite(out[i])) return std::numeric_limits<double>::infinity();
    difference += (static_cast<double>(out[i]) - ref[i]) * (static_cast<double>(out[i]) - ref[i]);
    norm += static_cast<double>(ref[i]) * ref[i];
  }
  return std::sqrt(difference / norm);
}

// A rounding to bf16 with uniformly distributed mantissas has an error of 1.7e-3 of the norm.
inline constexpr double kBf16Tolerance = 2.5e-3;
// Few values get more room: each may be off by 2^-8, and some of them may make up the norm.
inline double bf16_tolerance(size_t values) { return values < 1000 ? 4e-3 : kBf16Tolerance; }

inline std::vector<uint32_t> random_words(size_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<uint32_t> values(count);
  for (uint32_t& v : values) v = static_cast<uint32_t>(engine());
  return values;
}

// Converts a float to the 16 bits that a layer of this format reads, and back.
inline uint16_t to_input(ActivationFormat format, float v) {
  if (format == ActivationFormat::kBf16) return to_bf16(v).bits;
  return to_f16(std::clamp(v * kF16Scale, -65504.0f, 65504.0f)).bits;
}
inline float from_input(ActivationFormat format, uint16_t bits) {
  return format == ActivationFormat::kBf16 ? to_float(bf16{bits}) : to_float(f16{bits}) / kF16Scale;
}
inline std::vector<uint16_t> random_inputs(LinearFormat format, size_t count, float most,
                                           uint32_t seed) {
  std::vector<uint16_t> values = random_bf16(count, most, seed);
  for (uint16_t& v : values) v = to_input(linear_input_format(format), to_float(bf16{v}));
  return values;
}

inline std::vector<LinearFormat> all_linear_formats() {
  std::vector<LinearFormat> formats;
  for (const UnitFormat& each : kUnitFormats) formats.push_back(each.format);
  return formats;
}

// A layer's weight [out][in] on the device in a checkpoint's format: AWQ for int4, bf16 for bf16
// and int8, blocks or e4m3 for grouped formats.
struct SourceTensor {
  LinearFormat format;
  int64_t in, out;
  DeviceBuffer weight, zeros, scales;
  int64_t row_bytes = 0;  // bytes per row of blocks
  DeviceBuffer wide;      // the weights in f32, for grouped formats

  SourceTensor(LinearFormat f, int64_t in_features, int64_t out_features, uint32_t seed)
      : format(f), in(in_features), out(out_features) {
    const auto count = static_cast<size_t>(in * out);
    if (is_grouped(format)) {
      const StoredTensor stored = random_stored(format, in, out, seed);
      weight = to_device(stored.bytes);
      wide = to_device(stored.weights);
      row_bytes = stored.row_bytes;
      if (!stored.scales.empty()) scales = to_device(stored.scales);
      return;
    }
    if (format != LinearFormat::kInt4Group128) {
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
    if (format == LinearFormat::kFp8) {
      return target.pack_stored(StoredFp8{weight.as<uint8_t>(), scales.as<float>()}, out, placement,
                                first, stream);
    }
    if (is_grouped(format)) {
      return target.pack_stored(StoredBlocks{weight.as<std::byte>(), row_bytes, 0}, out, placement,
                                first, stream);
    }
    if (format == LinearFormat::kBf16) {
      return target.pack_bf16(weight.as<__nv_bfloat16>(), out, placement, first, stream);
    }
    if (format == LinearFormat::kInt8Group64) {
      if (placement != OutputPlacement::kPlain || first != 0) {
        return {StatusCode::kUnsupported, "int8 supports a single source only"};
      }
      return target.round_bf16_to_int8(weight.as<__nv_bfloat16>(), out, stream);
    }
    return target.pack_awq(weight.as<uint32_t>(), zeros.as<uint32_t>(), scales.as<__half>(), out,
                           placement, first, stream);
  }
  std::vector<float> reference(const DeviceBuffer& x, int rows, cudaStream_t stream) const {
    const auto count = static_cast<size_t>(rows * out);
    DeviceBuffer y = to_device(std::vector<float>(count, NAN));
    const auto* const values = weight.as<__nv_bfloat16>();
    const auto* const inputs = x.as<uint16_t>();
    const Status status =
        is_grouped(format)
            ? linear_f32_ref_cuda(wide.as<float>(), in, out, inputs, rows, y.as<float>(), stream)
        : format == LinearFormat::kBf16
            ? linear_bf16_ref_cuda(values, in, out, inputs, rows, y.as<float>(), stream)
        : format == LinearFormat::kInt8Group64
            ? linear_int8_ref_cuda(values, in, out, inputs, rows, y.as<float>(), stream)
            : linear_awq_ref_cuda(weight.as<uint32_t>(), zeros.as<uint32_t>(), scales.as<__half>(),
                                  in, out, inputs, rows, y.as<float>(), stream);
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
    EXPECT_EQ(to_host<uint32_t>(failed_, 1)[0], 0) << "a wait of blocks for each other timed out";
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

inline LinearCall call_for(const DeviceBuffer& x, int64_t in, int rows) {
  LinearCall call;
  call.input = x.as<uint16_t>();
  call.input_stride = in;
  call.rows = rows;
  return call;
}

}  // namespace forerun::cuda
