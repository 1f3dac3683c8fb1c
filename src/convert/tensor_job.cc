#include "convert/tensor_job.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/dtype.h"
#include "base/printable.h"
#include "checkpoint/blocks/encode_blocks.h"
#include "checkpoint/float_tensor.h"

namespace forerun {
namespace {

constexpr int64_t kPartFloats = int64_t{1} << 20;
constexpr int64_t kPartBytes = int64_t{4} << 20;
constexpr int64_t kQ4_1Weights = 32;  // weights per block
constexpr float kMaxF16 = 65504.0f;

Status refuse_value(const std::string& name, const std::string& found,
                    const std::string& accepted) {
  return Status(StatusCode::kCorrupt,
                "tensor " + in_quotes(name) + ": found " + found + "; accepted: " + accepted);
}

// Refuses weights for which a block's scale or minimum overflows f16.
Status refuse_scale(const OutputTensor& tensor) {
  return refuse_value(
      tensor.name, "weights beyond the range of the scales of " + std::string(tensor.blocks->name),
      "smaller weights, or f32 or bf16");
}

int64_t divided_up(int64_t count, int64_t by) { return (count + by - 1) / by; }

void store_u16(uint16_t bits, std::byte* to) { std::memcpy(to, &bits, sizeof bits); }

// Fails if rounding turns a number into infinity.
Status encode_floats(const OutputTensor& tensor, const float* from, int64_t count, std::byte* to) {
  if (tensor.dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    return {};
  }
  const bool is_bf16 = tensor.dtype == DType::kBf16;
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = is_bf16 ? to_bf16(from[i]).bits : to_f16(from[i]).bits;
    store_u16(bits, to + 2 * i);
    const float back = is_bf16 ? to_float(bf16{bits}) : to_float(f16{bits});
    if (std::isinf(back) && std::isfinite(from[i])) {
      return refuse_value(tensor.name,
                          std::to_string(from[i]) + ", beyond the range of " +
                              std::string(dtype_name(tensor.dtype)),
                          "f32, or bf16 for f16");
    }
  }
  return {};
}

Status encode_row(const OutputTensor& tensor, const float* from, int64_t count, std::byte* to) {
  if (tensor.blocks == nullptr) return encode_floats(tensor, from, count, to);
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(from[i]));
    if (std::isfinite(from[i])) continue;
    return refuse_value(tensor.name, "a weight that is infinite or not a number",
                        "finite weights, or f32, bf16 or f16");
  }
  const int64_t num_blocks = count / tensor.blocks->weights;
  block_encoder(tensor.blocks->format)(from, num_blocks, to);
  if (largest <= kMaxF16) return {};
  std::vector<float> decoded(static_cast<size_t>(count));
  tensor.blocks->decode(to, num_blocks, decoded.data());
  if (std::ranges::all_of(decoded, [](float value) { return std::isfinite(value); })) return {};
  return refuse_scale(tensor);
}

class CopyJob : public TensorJob {
 public:
  CopyJob(std::string name, const RawTensor& from) : from_(from) {
    outputs_ = {{std::move(name), from.dtype, from.blocks, from.shape}};
    sources_ = {&from};
  }
  int64_t num_parts() const override {
    return divided_up(static_cast<int64_t>(from_.bytes.size()), kPartBytes);
  }
  Result<std::vector<EncodedPiece>> encode(int64_t part) const override {
    const auto all = static_cast<int64_t>(from_.bytes.size());
    const int64_t begin = part * kPartBytes;
    const int64_t end = std::min(all, begin + kPartBytes);
    std::vector<EncodedPiece> pieces(1);
    pieces[0] = {0, begin, {from_.bytes.begin() + begin, from_.bytes.begin() + end}};
    return pieces;
  }

 private:
  const RawTensor& from_;
};

// A job for a small tensor, which it encodes at once.
class VectorJob : public TensorJob {
 public:
  VectorJob(std::string name, const RawTensor* from, DType dtype, RowOrder order)
      : from_(from), order_(order) {
    outputs_ = {{std::move(name), dtype, nullptr, from->shape}};
    sources_ = {from};
  }
  VectorJob(std::string name, std::vector<float> values) : values_(std::move(values)) {
    outputs_ = {{std::move(name), DType::kF32, nullptr, {static_cast<int64_t>(values_.size())}}};
  }
  int64_t num_parts() const override { return 1; }
  Result<std::vector<EncodedPiece>> encode(int64_t) const override {
    const OutputTensor& tensor = outputs_[0];
    std::vector<float> ordered = values_;
    if (from_ != nullptr) {
      std::vector<float> read(static_cast<size_t>(tensor.shape[0]));
      widen(*from_, 0, tensor.shape[0], read.data());
      ordered.resize(read.size());
      for (size_t i = 0; i < read.size(); ++i) {
        ordered[i] = read[static_cast<size_t>(order_.weight_row(static_cast<int64_t>(i)))];
      }
    }
    std::vector<EncodedPiece> pieces(1);
    pieces[0] = {0, 0, std::vector<std::byte>(tensor.bytes())};
    const Status encoded =
        encode_floats(tensor, ordered.data(), tensor.shape[0], pieces[0].bytes.data());
    if (!encoded.ok()) return encoded;
    return pieces;
  }

 private:
  const RawTensor* from_ = nullptr;
  RowOrder order_;
  std::vector<float> values_;
};

// A job for a weight. Each part has some rows, whole heads if they are reordered.
class WeightJob : public TensorJob {
 public:
  WeightJob(std::string name, WeightSource from, const FileFormat& format, RowOrder order)
      : from_(std::move(from)), order_(order) {
    const bool is_blocks = format.kind == FileFormat::Kind::kBlocks;
    outputs_ = {{std::move(name),
                 is_blocks ? DType::kBlocks : format.dtype,
                 format.blocks,
                 {from_.rows(), from_.columns()}}};
    sources_ = from_.tensors();
    const int64_t unit = order.interleaved_head > 0 ? order.interleaved_head : 8;
    part_rows_ = divided_up(std::max<int64_t>(1, kPartFloats / from_.columns()), unit) * unit;
    const RawTensor* const dense = from_.dense();
    is_copy_ = dense != nullptr && dense->dtype == outputs_[0].dtype &&
               dense->blocks == outputs_[0].blocks;
    if (is_blocks && format.blocks->format == BlockFormat::kQ4_1) find_nibbles();
  }

  int64_t num_parts() const override { return divided_up(from_.rows(), part_rows_); }

  Result<std::vector<EncodedPiece>> encode(int64_t part) const override {
    const int64_t first = part * part_rows_;
    const int64_t count = std::min(part_rows_, from_.rows() - first);
    const int64_t row_bytes = outputs_[0].row_bytes();
    std::vector<EncodedPiece> pieces(1);
    pieces[0] = {0, first * row_bytes,
                 std::vector<std::byte>(static_cast<size_t>(count * row_bytes))};
    std::byte* const to = pieces[0].bytes.data();
    Status encoded;
    if (is_copy_) {
      copy_rows(first, count, to);
    } else if (nibbles_) {
      encoded = encode_nibbles(first, count, to);
    } else {
      encoded = encode_rows(first, count, to);
    }
    if (!encoded.ok()) return encoded;
    return pieces;
  }

 private:
  void copy_rows(int64_t first, int64_t count, std::byte* to) const {
    const RawTensor& dense = *from_.dense();
    const int64_t row_bytes = outputs_[0].row_bytes();
    for (int64_t row = 0; row < count; ++row) {
      const int64_t stored = dense.stored_row(order_.weight_row(first + row));
      std::memcpy(to + row * row_bytes, dense.bytes.data() + stored * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  }

  Status encode_rows(int64_t first, int64_t count, std::byte* to) const {
    const int64_t columns = from_.columns();
    const int64_t row_bytes = outputs_[0].row_bytes();
    std::vector<float> rows(static_cast<size_t>(count * columns));
    from_.read(first, count, 0, columns, rows.data());
    for (int64_t row = 0; row < count; ++row) {
      const float* const values = rows.data() + (order_.weight_row(first + row) - first) * columns;
      Status encoded = encode_row(outputs_[0], values, columns, to + row * row_bytes);
      if (!encoded.ok()) return encoded;
    }
    return {};
  }

  // Finds the quantized values of 4-bit layers with groups of whole Q4_1 blocks, to keep them.
  void find_nibbles() {
    nibbles_ = from_.integers();
    if (!nibbles_) return;
    const bool fits = nibbles_->bits == 4 && nibbles_->group % kQ4_1Weights == 0 &&
                      nibbles_->scale_dtype == DType::kF16 && nibbles_->order.empty();
    if (!fits) nibbles_.reset();
  }

  // A Q4_1 block is d * q + m. Here d is the scale, q the unchanged quantized value, and m, the
  // only rounded number, is -zero * scale.
  Status encode_nibbles(int64_t first, int64_t count, std::byte* to) const {
    std::vector<uint8_t> quants(static_cast<size_t>(from_.columns()));
    std::vector<float> scales(static_cast<size_t>(nibbles_->groups()));
    std::vector<int16_t> zeros(scales.size());
    for (int64_t row = 0; row < count; ++row) {
      const int64_t weight_row = order_.weight_row(first + row);
      nibbles_->quants(weight_row, {quants.data(), {1, from_.columns()}});
      nibbles_->scales(weight_row, scales.data());
      nibbles_->zeros(weight_row, zeros.data());
      const uint8_t* q = quants.data();
      for (int64_t column = 0; column < from_.columns(); column += kQ4_1Weights) {
        const auto group = static_cast<size_t>(column / nibbles_->group);
        const f16 scale = to_f16(scales[group]);
        const f16 minimum = to_f16(-static_cast<float>(zeros[group]) * scales[group]);
        if (!std::isfinite(to_float(scale)) || !std::isfinite(to_float(minimum))) {
          return refuse_scale(outputs_[0]);
        }
        store_u16(scale.bits, to);
        store_u16(minimum.bits, to + 2);
        for (int64_t i = 0; i < 16; ++i) to[4 + i] = static_cast<std::byte>(q[i] | q[16 + i] << 4);
        q += kQ4_1Weights;
        to += outputs_[0].blocks->bytes;
      }
    }
    return {};
  }

  WeightSource from_;
  RowOrder order_;
  int64_t part_rows_ = 0;
  bool is_copy_ = false;
  std::optional<StoredIntegers> nibbles_;
};

}  // namespace

int64_t OutputTensor::row_bytes() const {
  const int64_t width = shape.empty() ? 1 : shape.back();
  if (blocks != nullptr) return width / blocks->weights * blocks->bytes;
  return width * static_cast<int64_t>(dtype_bytes(dtype));
}

uint64_t OutputTensor::bytes() const {
  auto total = static_cast<uint64_t>(row_bytes());
  for (size_t i = 0; i + 1 < shape.size(); ++i) total *= static_cast<uint64_t>(shape[i]);
  return total;
}

int64_t RowOrder::weight_row(int64_t row) const {
  if (interleaved_head == 0) return row;
  const int64_t within = row % interleaved_head;
  return row - within + within % 2 * (interleaved_head / 2) + within / 2;
}

std::unique_ptr<TensorJob> copy_tensor(std::string name, const RawTensor& from) {
  return std::make_unique<CopyJob>(std::move(name), from);
}

std::unique_ptr<TensorJob> convert_vector(std::string name, const RawTensor& from, DType dtype,
                                          RowOrder order) {
  return std::make_unique<VectorJob>(std::move(name), &from, dtype, order);
}

std::unique_ptr<TensorJob> write_vector(std::string name, std::vector<float> values) {
  return std::make_unique<VectorJob>(std::move(name), std::move(values));
}

std::unique_ptr<TensorJob> convert_weight(std::string name, WeightSource from,
                                          const FileFormat& format, RowOrder order) {
  return std::make_unique<WeightJob>(std::move(name), std::move(from), format, order);
}

}  // namespace forerun
