#include "convert/weight_source.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "checkpoint/float_tensor.h"

namespace forerun {
namespace {

constexpr int64_t kOutsOfWord = 8;

uint32_t word_at(const RawTensor& tensor, int64_t index) {
  uint32_t word;
  std::memcpy(&word, tensor.bytes.data() + index * static_cast<int64_t>(sizeof word), sizeof word);
  return word;
}

uint8_t nibble_of(uint32_t word, int64_t out) {
  return static_cast<uint8_t>((word >> (4 * kAwqNibbleOfColumn[out % kOutsOfWord])) & 0xfu);
}

}  // namespace

Result<WeightSource> WeightSource::make(const Checkpoint& checkpoint, ModuleId module) {
  WeightSource source;
  source.dense_ = checkpoint.weight(module);
  if (source.dense_ != nullptr) {
    FORERUN_RETURN_IF_ERROR(check_readable(*source.dense_));
    source.rows_ = source.dense_->shape[0];
    source.columns_ = source.dense_->shape[1];
    return source;
  }
  FORERUN_ASSIGN_OR_RETURN(source.awq_, checkpoint.awq_tensors(module));
  source.rows_ = source.awq_->out_features;
  source.columns_ = source.awq_->in_features;
  return source;
}

std::vector<const RawTensor*> WeightSource::tensors() const {
  if (dense_ != nullptr) return {dense_};
  return {awq_->qweight, awq_->qzeros, awq_->scales};
}

void WeightSource::read(int64_t first_row, int64_t num_rows, int64_t first_column,
                        int64_t num_columns, float* to) const {
  if (dense_ != nullptr) {
    for (int64_t row = 0; row < num_rows; ++row) {
      widen(*dense_, (first_row + row) * columns_ + first_column, num_columns,
            to + row * num_columns);
    }
    return;
  }
  std::vector<uint8_t> q(static_cast<size_t>(num_rows * num_columns));
  unpack_awq(*awq_, first_row, num_rows, first_column, num_columns, q.data());
  for (int64_t row = 0; row < num_rows; ++row) {
    int64_t group = -1;
    float zero = 0, scale = 0;
    for (int64_t column = 0; column < num_columns; ++column) {
      const int64_t own_group = (first_column + column) / awq_->group_size;
      if (own_group != group) {
        group = own_group;
        zero = static_cast<float>(awq_zero(*awq_, group, first_row + row));
        scale = awq_scale(*awq_, group, first_row + row);
      }
      const int64_t at = row * num_columns + column;
      to[at] = (static_cast<float>(q[static_cast<size_t>(at)]) - zero) * scale;
    }
  }
}

void unpack_awq(const AwqTensors& awq, int64_t first_row, int64_t num_rows, int64_t first_column,
                int64_t num_columns, uint8_t* to) {
  const int64_t words = awq.out_features / kOutsOfWord;
  for (int64_t column = 0; column < num_columns; ++column) {
    const int64_t word_row = (first_column + column) * words;
    for (int64_t row = 0; row < num_rows;) {
      const uint32_t word = word_at(*awq.qweight, word_row + (first_row + row) / kOutsOfWord);
      do {
        to[row * num_columns + column] = nibble_of(word, first_row + row);
        ++row;
      } while (row < num_rows && (first_row + row) % kOutsOfWord != 0);
    }
  }
}

uint8_t awq_zero(const AwqTensors& awq, int64_t group, int64_t row) {
  const int64_t words = awq.out_features / kOutsOfWord;
  return nibble_of(word_at(*awq.qzeros, group * words + row / kOutsOfWord), row);
}

float awq_scale(const AwqTensors& awq, int64_t group, int64_t row) {
  float scale = 0;
  widen(*awq.scales, group * awq.out_features + row, 1, &scale);
  return scale;
}

}  // namespace forerun
