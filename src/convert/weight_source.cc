#include "convert/weight_source.h"

#include "base/status_macros.h"
#include "checkpoint/float_tensor.h"

namespace forerun {

Result<WeightSource> WeightSource::make(const Checkpoint& checkpoint, ModuleId module) {
  WeightSource source;
  source.weight_ = checkpoint.weight(module);  // open() has checked that the weight exists
  FORERUN_RETURN_IF_ERROR(check_readable(*source.weight_));
  return source;
}

std::optional<AwqTensors> WeightSource::awq() const {
  return weight_->parts == nullptr ? std::nullopt : weight_->parts->awq_gemm();
}

std::optional<StoredIntegers> WeightSource::integers() const {
  if (weight_->parts == nullptr) return std::nullopt;
  return weight_->parts->integers(0, rows(), 0, columns());
}

std::vector<const RawTensor*> WeightSource::tensors() const {
  if (weight_->parts == nullptr) return {weight_};
  std::vector<const RawTensor*> tensors;
  for (const ModuleTensor& each : weight_->parts->tensors()) tensors.push_back(each.tensor);
  return tensors;
}

void WeightSource::read(int64_t first_row, int64_t num_rows, int64_t first_column,
                        int64_t num_columns, float* to) const {
  for (int64_t row = 0; row < num_rows; ++row) {
    widen(*weight_, (first_row + row) * columns() + first_column, num_columns,
          to + row * num_columns);
  }
}

}  // namespace forerun
