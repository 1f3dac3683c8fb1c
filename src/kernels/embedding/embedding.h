// Token embedding: rows of a table, widened to f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "base/dtype.h"
#include "base/tensor_view.h"
#include "device/cpu/team.h"

namespace forerun {

// Rows of blocks, which a function decodes: formats such as Q8_0.
struct BlockTable {
  const std::byte* data;
  int64_t row_bytes;
  int64_t row_blocks;
  void (*decode)(const std::byte* blocks, int64_t count, float* to);
};

// [vocab][hidden] in the checkpoint's format; a view, the caller keeps the memory.
using EmbeddingTable = std::variant<MatrixView<const float>, MatrixView<const bf16>,
                                    MatrixView<const f16>, BlockTable>;

// Collective: y [tokens][hidden] = table[token], exactly, or rounded to bf16 if `round_to_bf16` is
// set. A token is the index of a row of the table. Members take whole rows.
void embedding(const Team& team, const EmbeddingTable& table, std::span<const int32_t> tokens,
               bool round_to_bf16, MatrixView<float> y);

// Reference twin. Single-threaded.
void embedding_ref(const EmbeddingTable& table, std::span<const int32_t> tokens, bool round_to_bf16,
                   MatrixView<float> y);

}  // namespace forerun
