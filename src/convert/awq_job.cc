// Quantizes weights to AWQ.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/dtype.h"
#include "base/printable.h"
#include "convert/tensor_job.h"

namespace forerun {
namespace {

constexpr int64_t kGroupFloats = int64_t{1} << 20;  // floats per part
constexpr float kMaxAwqValue = 15.0f;
constexpr float kLeastRange = 1e-5f;  // keeps the scale of a group of zeros above zero
constexpr size_t kQWeight = 0, kQZeros = 1, kScales = 2;

float to_nibble(float value) { return std::clamp(value, 0.0f, kMaxAwqValue); }

// A job that quantizes a weight to AWQ. Each part has some groups of inputs, with all outputs.
class AwqJob : public TensorJob {
 public:
  AwqJob(const std::string& module, WeightSource from, int32_t group_size)
      : from_(std::move(from)), group_size_(group_size) {
    const int64_t rows = from_.rows(), columns = from_.columns();
    const int64_t num_groups = columns / group_size;
    outputs_ = {{module + ".qweight", DType::kI32, nullptr, {columns, rows / 8}},
                {module + ".qzeros", DType::kI32, nullptr, {num_groups, rows / 8}},
                {module + ".scales", DType::kF16, nullptr, {num_groups, rows}}};
    sources_ = from_.tensors();
    part_groups_ = std::clamp<int64_t>(kGroupFloats / (rows * group_size), 1, num_groups);
  }

  int64_t num_parts() const override {
    return (from_.columns() / group_size_ + part_groups_ - 1) / part_groups_;
  }

  Result<std::vector<EncodedPiece>> encode(int64_t part) const override {
    const int64_t first = part * part_groups_;
    const int64_t count = std::min(part_groups_, from_.columns() / group_size_ - first);
    std::vector<EncodedPiece> pieces;
    for (size_t idx = 0; idx < outputs_.size(); ++idx) {
      const int64_t rows_of_group = idx == kQWeight ? group_size_ : 1;
      const int64_t bytes = rows_of_group * outputs_[idx].row_bytes();
      pieces.push_back(
          {idx, first * bytes, std::vector<std::byte>(static_cast<size_t>(count * bytes))});
    }
    std::vector<float> weights(static_cast<size_t>(from_.rows() * group_size_));
    for (int64_t group = 0; group < count; ++group) {
      from_.read(0, from_.rows(), (first + group) * group_size_, group_size_, weights.data());
      for (int64_t row = 0; row < from_.rows(); ++row) {
        Status encoded = encode_group(weights.data() + row * group_size_, group, row, pieces);
        if (!encoded.ok()) return encoded;
      }
    }
    return pieces;
  }

 private:
  Status encode_group(const float* weights, int64_t group, int64_t row,
                      std::vector<EncodedPiece>& pieces) const {
    float low = 0, high = 0, sum = 0;
    for (int32_t i = 0; i < group_size_; ++i) {
      low = std::min(low, weights[i]);
      high = std::max(high, weights[i]);
      sum += weights[i] * 0.0f;  // NaN if a weight is not finite
    }
    const f16 scale = to_f16(std::max(high - low, kLeastRange) / kMaxAwqValue);
    const float step = to_float(scale);
    if (sum != 0.0f || !std::isfinite(step)) {
      return Status(StatusCode::kCorrupt,
                    "tensor " + in_quotes(outputs_[kQWeight].name) +
                        ": found weights that are not finite, or beyond the range of f16 scales; "
                        "accepted: finite weights, or f32 or bf16");
    }
    const float zero = to_nibble(std::nearbyint(-low / step));
    const int64_t rows = from_.rows();
    put_nibble(pieces[kQZeros], group * rows / 8, row, zero);
    std::memcpy(pieces[kScales].bytes.data() + (group * rows + row) * 2, &scale.bits, 2);
    for (int32_t i = 0; i < group_size_; ++i) {
      const float q = to_nibble(std::nearbyint(weights[i] / step) + zero);
      put_nibble(pieces[kQWeight], (group * group_size_ + i) * (rows / 8), row, q);
    }
    return {};
  }

  static void put_nibble(EncodedPiece& piece, int64_t first_word, int64_t row, float value) {
    std::byte* const to = piece.bytes.data() + (first_word + row / 8) * 4;
    uint32_t word;
    std::memcpy(&word, to, sizeof word);
    word |= static_cast<uint32_t>(value) << (4 * kAwqNibbleOfColumn[row % 8]);
    std::memcpy(to, &word, sizeof word);
  }

  WeightSource from_;
  int32_t group_size_;
  int64_t part_groups_ = 1;
};

}  // namespace

std::unique_ptr<TensorJob> quantize_to_awq(const std::string& module, WeightSource from,
                                           int32_t group_size) {
  return std::make_unique<AwqJob>(module, std::move(from), group_size);
}

}  // namespace forerun
