// The part of a tokenizer.json that decides how text is cut, in one spelling, for comparisons.
#pragma once

#include <string>

#include "json/json_value.h"

namespace forerun::text {

// Normalizer and pre-tokenizer without what changes only reported offsets, with sequences
// flattened and sequences of nothing dropped.
std::string canonical_splitting(const JsonValue& root);

}  // namespace forerun::text
