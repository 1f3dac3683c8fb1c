// Implements grammar/grammar.h for a program built without the compiler of grammars: it refuses
// them.
#include "grammar/grammar.h"

namespace forerun::grammar {
namespace {

Status refused(const char* what) {
  return {StatusCode::kUnsupported,
          std::string("output format: found ") + what +
              ", but the demo's build has no grammars; configure with the preset cpu-release"};
}

}  // namespace

Result<Grammar> Grammar::from_json_schema(std::string_view /*schema*/,
                                          const GrammarLimits& /*limits*/,
                                          SchemaReading /*reading*/) {
  return refused("a JSON schema");
}

Result<Grammar> Grammar::json_object(const GrammarLimits& /*limits*/) { return refused("JSON"); }

Result<Grammar> Grammar::from_text(std::string_view text, const GrammarLimits& limits) {
  return from_text(text, {}, limits);
}

Result<Grammar> Grammar::from_text(std::string_view /*text*/,
                                   std::span<const NamedSchema> /*schemas*/,
                                   const GrammarLimits& /*limits*/) {
  return refused("a grammar");
}

Result<Grammar> Grammar::from_regex(std::string_view /*regex*/, const GrammarLimits& /*limits*/) {
  return refused("a regular expression");
}

}  // namespace forerun::grammar
