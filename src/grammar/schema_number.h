// Schemas of numbers and integers: bounds and multiples.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "forerun/status.h"
#include "grammar/schema_context.h"

namespace forerun::grammar {

// Writes the rule of each kind of integers once, since schemas usually have many integers of one
// kind.
class NumberReader {
 public:
  // `context` must outlive the object.
  explicit NumberReader(SchemaContext& context) : context_(context) {}

  // Returns the numbers of `schema`. `types`: kIntegerType, kFractionType or both
  // (schema_keywords.h).
  Result<ExprId> read(const Json& schema, const std::string& at, int types);

 private:
  SchemaContext& context_;
  // The rules of integers, keyed by minimum, maximum and multipleOf.
  std::map<std::tuple<int64_t, int64_t, int64_t>, ExprId> integers_;
};

}  // namespace forerun::grammar
