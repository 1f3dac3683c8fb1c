// Resolves $ref, allOf, `not`, conditions and older spellings: holds a schema's document and
// returns any place of it without them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "forerun/status.h"
#include "grammar/limits.h"
#include "grammar/schema_keywords.h"
#include "grammar/schema_reading.h"
#include "grammar/schema_spelling.h"

namespace forerun::grammar {

class SchemaResolver {
 public:
  SchemaResolver(Json document, const GrammarLimits& limits, SchemaReading reading);

  const Json& document() const { return document_; }
  const GrammarLimits& limits() const { return limits_; }
  SchemaReading reading() const { return reading_; }

  // Returns the schema that `ref` refers to: "#", "#/...", an anchor of the document, or these
  // after the document's own identifier; it lives as long as the resolver. `at` is the place of
  // `ref`.
  Result<const Json*> target(const Json& ref, const std::string& at) const;

  // Returns whether `schema`, an object, is a $ref without assertions beside it.
  bool is_reference(const Json& schema) const;
  // Returns whether flattened() would change `schema`, an object.
  bool needs_flattening(const Json& schema) const;

  // Returns `schema` with its own $ref, allOf, `not`, conditions and dependencies, not those of its
  // members, merged into it, and keywords of older drafts replaced by those of 2020-12.
  //
  // Fails with kResourceExhausted if the nesting exceeds the limit, as it does if a schema is
  // merged with itself without end.
  Result<Json> flattened(const Json& schema, const std::string& at, int depth = 0);

 private:
  Json document_;
  const GrammarLimits& limits_;
  const SchemaReading reading_;
  SchemaDraft draft_;
  std::string identifier_;  // the document's identifier, without "#"
  std::map<std::string, const Json*> anchors_;
  size_t merges_ = 0, merged_values_ = 0;
};

}  // namespace forerun::grammar
