// Replaces keywords of drafts 4 to 7 by those of 2020-12, and further keywords by equivalent ones.
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_keywords.h"

namespace forerun::grammar {

class SchemaResolver;

// The rules of an older draft that a document follows.
struct SchemaDraft {
  bool lone_references = false;  // drafts up to 7: keywords beside $ref are ignored
  // With SchemaReading::kLetter: keywords that were added in drafts 6 and 7 are ignored.
  bool before_draft_6 = false;
};

// Returns whether respelled() would change `schema`, an object; allOf and $ref aside.
bool needs_respelling(const Json& schema, const SchemaDraft& draft);

// Returns the same schema, an object, with keywords of 2020-12 and without `not`, conditions and
// dependencies, which become parts of its allOf. `at` is its pointer, for messages. `depth`: see
// SchemaResolver::flattened(). `resolver` counts the cost of negation.
Result<Json> respelled(SchemaResolver& resolver, const Json& schema, const SchemaDraft& draft,
                       const std::string& at, int depth);

}  // namespace forerun::grammar
