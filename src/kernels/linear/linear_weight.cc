#include "kernels/linear/linear_weight.h"

#include <cassert>

#include "kernels/linear/formats/weight_formats.h"

namespace forerun {

const char* weight_format_name(WeightFormat format) { return weight_format_info(format).name; }

std::byte* allocate_blocks(LinearWeight::Storage& storage, int64_t out, size_t& bytes) {
  bytes = static_cast<size_t>(round_up(out, kBlockOuts) / kBlockOuts * storage.block_bytes);
  storage.owner = allocate_weights(bytes);
  auto* const data = static_cast<std::byte*>(storage.owner.get());
  storage.data = data;
  return data;
}

void LinearWeight::dequantize(int64_t first, MatrixView<float> w) const {
  assert(first >= 0 && first + w.dim(0) <= out_ && w.dim(1) == in_);
  const auto dequantize_row = weight_format_info(format_).dequantize;
  for (int64_t row = 0; row < w.dim(0); ++row) {
    dequantize_row(*storage_, first + row, in_, w.row(row));
  }
}

}  // namespace forerun
