// The weight of one input module as f32, in whichever format it is stored.
//
// Const methods may be called from many threads. The checkpoint must outlive this object.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/layouts/weight_parts.h"
#include "forerun/status.h"

namespace forerun {

class WeightSource {
 public:
  // Makes the source of a two-dimensional weight.
  static Result<WeightSource> make(const Checkpoint& checkpoint, ModuleId module);

  int64_t rows() const { return weight_->shape[0]; }
  int64_t columns() const { return weight_->shape[1]; }
  // Returns the tensor, or null if several tensors store the weight.
  const RawTensor* dense() const { return weight_->parts == nullptr ? weight_ : nullptr; }
  // Returns the tensors of AutoAWQ's "gemm" version.
  std::optional<AwqTensors> awq() const;
  // Returns the whole weight as integers of 4 or 8 bits in groups.
  std::optional<StoredIntegers> integers() const;
  // Returns all tensors that hold the weight.
  std::vector<const RawTensor*> tensors() const;

  // Writes f32 values [num_rows][num_columns].
  void read(int64_t first_row, int64_t num_rows, int64_t first_column, int64_t num_columns,
            float* to) const;

 private:
  const RawTensor* weight_ = nullptr;
};

}  // namespace forerun
