// The part of a tokenizer.json that decides how text is cut, in one spelling, for comparisons.
#pragma once

#include <string>

#include "text/json_field.h"

namespace forerun::text {

// Normalizer and pre-tokenizer without what changes only reported offsets, with sequences
// flattened and sequences of nothing dropped.
std::string canonical_splitting(const Field& root);

}  // namespace forerun::text
