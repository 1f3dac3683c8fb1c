#include "model/rounding_error.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "base/status_macros.h"
#include "checkpoint/float_tensor.h"
#include "device/cpu/portions.h"
#include "model/requantize.h"

namespace forerun {
namespace {

// Rows per portion: too few for requantize() to start its own threads.
constexpr int64_t kErrorRows = 64;

// Returns the stored weight of a module in any format.
Result<FillRows> stored_rows(const Checkpoint& checkpoint, ModuleId module) {
  const RawTensor* const tensor = checkpoint.weight(module);  // open() has checked that it exists
  FORERUN_RETURN_IF_ERROR(check_readable(*tensor));
  return FillRows([tensor](int64_t first, MatrixView<float> rows) {
    for (int64_t row = 0; row < rows.dim(0); ++row) {
      widen(*tensor, (first + row) * rows.dim(1), rows.dim(1), rows.row(row));
    }
  });
}

Result<RoundingError> portion_error(WeightFormat format, MatrixView<float> stored) {
  OwnedBytes owned;
  const auto copy = [&](int64_t first, MatrixView<float> rows) {
    std::copy_n(stored.row(first), rows.dim(0) * rows.dim(1), rows.row(0));
  };
  FORERUN_ASSIGN_OR_RETURN(const LinearWeight made,
                           requantize(format, stored.dim(0), stored.dim(1), copy, owned));
  std::vector<float> rounded(static_cast<size_t>(stored.size()));
  made.dequantize(0, MatrixView<float>(rounded.data(), stored.shape()));
  RoundingError error;
  for (int64_t index = 0; index < stored.size(); ++index) {
    const double weight = double{stored.data()[index]};
    const double off = double{rounded[static_cast<size_t>(index)]} - weight;
    error.squared_error += off * off;
    error.squared_weights += weight * weight;
    error.largest = std::max(error.largest, std::abs(off));
  }
  return error;
}

}  // namespace

void RoundingError::add(const RoundingError& other) {
  squared_error += other.squared_error;
  squared_weights += other.squared_weights;
  largest = std::max(largest, other.largest);
}

double RoundingError::relative() const {
  return squared_weights > 0 ? std::sqrt(squared_error / squared_weights) : 0.0;
}

Result<RoundingError> rounding_error(const Checkpoint& checkpoint, const ModuleRead& read,
                                     const std::function<void(double)>& progress) {
  const ModuleId source = read.is_tied_head ? ModuleId{ModuleKind::kEmbedding} : read.module.id;
  FORERUN_ASSIGN_OR_RETURN(const FillRows fill, stored_rows(checkpoint, source));
  const int64_t out = read.module.out, in = read.module.in;
  const int64_t portions = (out + kErrorRows - 1) / kErrorRows;
  // Sums in row order, so that the result does not depend on the threads.
  std::vector<RoundingError> errors(static_cast<size_t>(portions));
  std::vector<Status> failures(static_cast<size_t>(portions));
  const std::thread::id caller = std::this_thread::get_id();
  share_portions(portions, portions, [&](Portions& queue) {
    std::vector<float> values(static_cast<size_t>(std::min(kErrorRows, out) * in));
    while (const auto portion = queue.next()) {
      const int64_t first = *portion * kErrorRows;
      const MatrixView<float> rows(values.data(), {std::min(kErrorRows, out - first), in});
      fill(first, rows);
      auto error = portion_error(*read.rounded_to, rows);
      if (error.ok()) errors[static_cast<size_t>(*portion)] = *error;
      failures[static_cast<size_t>(*portion)] = error.status();
      if (progress && std::this_thread::get_id() == caller) {
        progress(static_cast<double>(*portion) / static_cast<double>(portions));
      }
    }
  });
  for (const ModuleTensor& each : checkpoint.tensors_of(source)) {
    checkpoint.release_pages(*each.tensor);
  }
  RoundingError sum;
  for (int64_t portion = 0; portion < portions; ++portion) {
    FORERUN_RETURN_IF_ERROR(failures[static_cast<size_t>(portion)].with_context(
        module_name(read.module.id, ModuleNaming::kHuggingFace)));
    sum.add(errors[static_cast<size_t>(portion)]);
  }
  return sum;
}

}  // namespace forerun
