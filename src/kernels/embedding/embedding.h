// Token embedding: rows of a table, widened to f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "base/dtype.h"
#include "base/tensor_view.h"
#include "device/cpu/team.h"
#include "kernels/linear/linear.h"

namespace forerun {

// A table with rows of blocks, which a function decodes: formats such as Q8_0.
struct BlockTable {
  const std::byte* data;
  int64_t row_bytes;
  int64_t row_blocks;
  void (*decode)(const std::byte* blocks, int64_t count, float* to);
};

// The LM head of a model with tied embeddings, packed for the linear kernels without a change of
// values. Tokens beyond its rows, which no tokenizer has, are zeros.
struct PackedTable {
  LinearWeight head;
};

// An embedding table [vocab][hidden]: a view of the checkpoint's format, whose memory the caller
// keeps, or a packed head, whose memory is shared.
using EmbeddingTable = std::variant<MatrixView<const float>, MatrixView<const bf16>,
                                    MatrixView<const f16>, BlockTable, PackedTable>;

// Collective: y [tokens][hidden] = table[token], exactly, or rounded to bf16 if `round_to_bf16` is
// set. A token is the index of a row of the table. Members take whole rows.
void embedding(const Team& team, const EmbeddingTable& table, std::span<const int32_t> tokens,
               bool round_to_bf16, MatrixView<float> y);

// Reference implementation. Single-threaded.
void embedding_ref(const EmbeddingTable& table, std::span<const int32_t> tokens, bool round_to_bf16,
                   MatrixView<float> y);

}  // namespace forerun
