#include "kernels/embedding/embedding.h"

#include <algorithm>

namespace forerun {
namespace {

void widen(const MatrixView<const float>& table, int32_t token, int64_t dim, float* to) {
  std::copy_n(table.row(token), dim, to);
}

template <class T>
void widen(const MatrixView<const T>& table, int32_t token, int64_t dim, float* to) {
  for (int64_t index = 0; index < dim; ++index) to[index] = to_float(table.row(token)[index]);
}

void widen(const BlockTable& table, int32_t token, int64_t /*dim*/, float* to) {
  table.decode(table.data + token * table.row_bytes, table.row_blocks, to);
}

void widen(const PackedTable& table, int32_t token, int64_t dim, float* to) {
  if (token >= table.head.out_features()) {
    std::fill_n(to, dim, 0.0f);
  } else {
    table.head.dequantize(token, {to, {1, dim}});
  }
}

}  // namespace

void embedding(const Team& team, const EmbeddingTable& table, std::span<const int32_t> tokens,
               bool round_to_bf16, MatrixView<float> y) {
  const WorkRange share = team.share(static_cast<int64_t>(tokens.size()));
  for (int64_t row = share.begin; row < share.end; ++row) {
    const int32_t token = tokens[static_cast<size_t>(row)];
    std::visit([&](const auto& rows) { widen(rows, token, y.dim(1), y.row(row)); }, table);
    if (!round_to_bf16) continue;
    for (int64_t dim = 0; dim < y.dim(1); ++dim) {
      y.row(row)[dim] = forerun::round_to_bf16(y.row(row)[dim]);
    }
  }
}

}  // namespace forerun
