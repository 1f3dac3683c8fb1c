// Respells keywords of drafts 4 to 7 as those of 2020-12, and by other keywords what these can say.
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_keywords.h"

namespace forerun::grammar {

class SchemaResolver;

// What an older draft of a document means.
struct SchemaDraft {
  bool lone_references = false;  // drafts up to 7: keywords beside $ref are ignored
  // Read strictly (SchemaReading::kLetter): keywords that came with drafts 6 and 7 are ignored.
  bool before_draft_6 = false;
};

// Whether respelled() would change `schema`, an object; allOf and $ref apart.
bool needs_respelling(const Json& schema, const SchemaDraft& draft);

// The same schema, an object, with keywords of 2020-12 and without `not`, conditions and
// dependencies, which become parts of its allOf. `at`: its pointer, for messages. `depth`: as
// SchemaResolver::flattened(). `resolver` counts what negating takes.
Result<Json> respelled(SchemaResolver& resolver, const Json& schema, const SchemaDraft& draft,
                       const std::string& at, int depth);

}  // namespace forerun::grammar
