// The weight of one module of the input as f32, whether it is stored as floats, blocks or AWQ's
// three tensors.
//
// Thread rules: const methods may be called from many threads. The checkpoint must outlive this.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"

namespace forerun {

class WeightSource {
 public:
  // A weight of two dimensions.
  static Result<WeightSource> make(const Checkpoint& checkpoint, ModuleId module);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  // The tensor, or null where the weight is AWQ.
  const RawTensor* dense() const { return dense_; }
  const std::optional<AwqTensors>& awq() const { return awq_; }
  // All tensors that hold the weight.
  std::vector<const RawTensor*> tensors() const;

  // Writes [num_rows][num_columns].
  void read(int64_t first_row, int64_t num_rows, int64_t first_column, int64_t num_columns,
            float* to) const;

 private:
  const RawTensor* dense_ = nullptr;
  std::optional<AwqTensors> awq_;
  int64_t rows_ = 0, columns_ = 0;
};

// The quantized values 0..15 of AWQ weights, [num_rows][in_features].
void unpack_awq(const AwqTensors& awq, int64_t first_row, int64_t num_rows, int64_t first_column,
                int64_t num_columns, uint8_t* to);
// The zero point and the scale of row `row` in group `group`.
uint8_t awq_zero(const AwqTensors& awq, int64_t group, int64_t row);
float awq_scale(const AwqTensors& awq, int64_t group, int64_t row);

}  // namespace forerun
