#include "kernels/linear/linear_weight.h"

#include <algorithm>
#include <cassert>
#include <vector>

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
  const std::span<const int32_t> order = input_order();
  std::vector<float> packed(order.size());
  for (int64_t row = 0; row < w.dim(0); ++row) {
    float* const to = w.row(row);
    dequantize_row(*storage_, first + row, in_, order.empty() ? to : packed.data());
    for (size_t idx = 0; idx < order.size(); ++idx) to[order[idx]] = packed[idx];
  }
}

bool same_input_order(std::span<const int32_t> a, std::span<const int32_t> b) {
  if (a.data() == b.data() && a.size() == b.size()) return true;
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace forerun
