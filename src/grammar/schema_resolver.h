// $ref and allOf: a schema's document, and any place of it without them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "forerun/status.h"
#include "grammar/limits.h"
#include "grammar/schema_keywords.h"

namespace forerun::grammar {

class SchemaResolver {
 public:
  SchemaResolver(Json document, const GrammarLimits& limits)
      : document_(std::move(document)), limits_(limits) {}

  const Json& document() const { return document_; }

  // What `ref` ("#" or "#/...") names; lives as long as the resolver. `at`: where it stands.
  Result<const Json*> target(const Json& ref, const std::string& at) const;

  // `schema` with its own $ref and allOf, not those of its members, merged into it.
  //
  // kResourceExhausted where that is nested past the limit, as it is where a schema is merged with
  // itself without end.
  Result<Json> flattened(const Json& schema, const std::string& at, int depth = 0);

 private:
  Json document_;
  const GrammarLimits& limits_;
  size_t merges_ = 0;
};

}  // namespace forerun::grammar
