#include <vector>

#include "kernels/embedding/embedding.h"

namespace forerun {

void embedding_ref(const EmbeddingTable& table, std::span<const int32_t> tokens, bool round_to_bf16,
                   MatrixView<float> y) {
  for (size_t row = 0; row < tokens.size(); ++row) {
    std::vector<float> decoded;
    if (const auto* blocks = std::get_if<BlockTable>(&table)) {
      decoded.resize(static_cast<size_t>(y.dim(1)));
      blocks->decode(blocks->data + tokens[row] * blocks->row_bytes, blocks->row_blocks,
                     decoded.data());
    } else if (const auto* packed = std::get_if<PackedTable>(&table)) {
      decoded.resize(static_cast<size_t>(y.dim(1)));
      if (tokens[row] < packed->head.out_features()) {
        packed->head.dequantize(tokens[row], {decoded.data(), {1, y.dim(1)}});
      }
    }
    for (int64_t dim = 0; dim < y.dim(1); ++dim) {
      float value = 0.0f;
      if (const auto* f32_table = std::get_if<MatrixView<const float>>(&table)) {
        value = f32_table->row(tokens[row])[dim];
      } else if (const auto* bf16_table = std::get_if<MatrixView<const bf16>>(&table)) {
        value = to_float(bf16_table->row(tokens[row])[dim]);
      } else if (const auto* f16_table = std::get_if<MatrixView<const f16>>(&table)) {
        value = to_float(f16_table->row(tokens[row])[dim]);
      } else {
        value = decoded[static_cast<size_t>(dim)];
      }
      y.row(static_cast<int64_t>(row))[dim] = round_to_bf16 ? forerun::round_to_bf16(value) : value;
    }
  }
}

}  // namespace forerun
