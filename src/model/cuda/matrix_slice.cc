#include "model/cuda/matrix_slice.h"

#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/blocks/block_format.h"
#include "checkpoint/float_tensor.h"

namespace forerun::cuda {

size_t MatrixSlice::element_bytes() const {
  if (as_bf16) return sizeof(bf16);
  return tensor->blocks != nullptr ? static_cast<size_t>(tensor->blocks->bytes)
                                   : dtype_bytes(tensor->dtype);
}

void MatrixSlice::copy_rows(int64_t first, int64_t count, std::byte* to) const {
  const bool has_blocks = !as_bf16 && tensor->blocks != nullptr;
  const int64_t width = tensor->shape[1] / (has_blocks ? tensor->blocks->weights : 1);
  const size_t element = element_bytes();
  const size_t lead = static_cast<size_t>(columns.lead) * element;
  const size_t inner = static_cast<size_t>(columns.from.size()) * element;
  const bool converts = as_bf16 && (tensor->dtype != DType::kBf16 || !tensor->is_plain());
  std::vector<float> wide(converts ? static_cast<size_t>(columns.from.size()) : 0);
  for (int64_t row = first; row < first + count; ++row, to += row_bytes()) {
    const int64_t source = row - rows.lead;
    if (source < 0 || source >= rows.from.size()) {
      std::memset(to, 0, row_bytes());
      continue;
    }
    const int64_t row_idx = rows.from.begin + source;
    const int64_t begin =
        (converts ? row_idx : tensor->stored_row(row_idx)) * width + columns.from.begin;
    std::memset(to, 0, lead);
    std::memset(to + lead + inner, 0, row_bytes() - lead - inner);
    if (!converts) {
      std::memcpy(to + lead, tensor->bytes.data() + static_cast<size_t>(begin) * element, inner);
      continue;
    }
    widen(*tensor, begin, columns.from.size(), wide.data());
    for (size_t i = 0; i < wide.size(); ++i) {
      const bf16 narrow = to_bf16(wide[i]);
      std::memcpy(to + lead + i * sizeof(bf16), &narrow, sizeof(bf16));
    }
  }
}

}  // namespace forerun::cuda
