// The numbers that GGUF files give to the types of tensors: their names and sizes.
//
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace forerun {

// A row of a tensor is a whole number of blocks.
struct GgmlLayout {
  int64_t weights = 1;  // weights of one block; 1 for the types that have no blocks
  int64_t bytes = 0;    // bytes of one block
};

// The name that ggml gives the type, e.g. "IQ2_XXS", also for types that Forerun does not read and
// for those that ggml has removed; "type 99" where ggml has no type of that number.
std::string ggml_type_name(uint32_t type);

// What to do with a file whose weights have a type, by its name, that is not read.
std::string way_out_for_ggml_type(std::string_view name);

// F32, F16, BF16, F64, I8, I16, I32, I64 and the formats of blocks/block_format.h; else unset.
std::optional<GgmlLayout> ggml_layout(uint32_t type);

// F32, F16, BF16, I8, I16, I32 and I64; else unset.
std::optional<DType> ggml_dtype(uint32_t type);
// The type of such elements; unset where ggml has none.
std::optional<uint32_t> ggml_type_of(DType dtype);

}  // namespace forerun
