// The part of a tokenizer.json that decides how text is split, in one spelling, for comparisons.
#pragma once

#include <string>

#include "json/json_value.h"

namespace forerun::text {

// Returns normalizer and pre-tokenizer without the parts that change only reported offsets, with
// flattened sequences and without empty ones.
std::string canonical_splitting(const JsonValue& root);

}  // namespace forerun::text
