// The tensor types of GGUF files by number, with their names and sizes.
//
// All functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace forerun {

// The block layout of a type. A row of a tensor is a whole number of blocks.
struct GgmlLayout {
  int64_t weights = 1;  // weights per block; 1 for types without blocks
  int64_t bytes = 0;    // bytes per block
};

// Returns ggml's name of the type, e.g. "IQ2_XXS", including types that Forerun does not read and
// those that ggml has removed; "type 99" if ggml has no type with this number.
std::string ggml_type_name(uint32_t type);

// Returns advice for a file with weights of an unsupported type, by the type's name.
std::string way_out_for_ggml_type(std::string_view name);

// Returns the layout of F32, F16, BF16, F64, I8, I16, I32, I64 and the formats of
// blocks/block_format.h; else unset.
std::optional<GgmlLayout> ggml_layout(uint32_t type);

// Returns the dtype of F32, F16, BF16, I8, I16, I32 and I64; else unset.
std::optional<DType> ggml_dtype(uint32_t type);
// Returns the type for such elements; unset if ggml has none.
std::optional<uint32_t> ggml_type_of(DType dtype);

}  // namespace forerun
