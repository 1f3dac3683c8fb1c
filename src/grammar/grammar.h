// A Grammar says which texts a reply may be, a GrammarState how far one text has come in it.
//
// A grammar is compiled once, from a JSON schema (schema.h says what of it), as "any JSON object",
// from a regular expression, or from a grammar text in GBNF (grammar_text.h says which), and is
// then immutable and shared: copies refer to one program, and any number of threads may use it. It
// knows bytes, not tokens: a token is accepted if its bytes are, wherever they cut a character.
//
// A state is a value: copying it costs two reference counts, so a draft's tree keeps one a node and
// rolling back is keeping the older one. States that allow the same texts for the same reasons
// compare equal however they were reached, which is what masks are cached by (token_masks.h).
// const functions may run in parallel; accept() needs the state to itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "forerun/status.h"
#include "grammar/limits.h"
#include "grammar/program.h"
#include "grammar/schema_reading.h"

namespace forerun::grammar {

class GrammarState;
struct Configuration;

// A rule of a grammar text that is a JSON schema.
struct NamedSchema {
  std::string name;    // as the text refers to it
  std::string schema;  // its JSON text
};

class Grammar {
 public:
  // `schema`: the JSON text of a schema, taken as `reading` says.
  //
  // Fails with kInvalidArgument for text that is no JSON or no schema, kUnsupported for what
  // Forerun does not do of JSON Schema, kResourceExhausted past a limit. Messages hold the JSON
  // pointer of the place, what was found and what is accepted.
  static Result<Grammar> from_json_schema(std::string_view schema, const GrammarLimits& limits = {},
                                          SchemaReading reading = SchemaReading::kLetter);

  // Any JSON object, in the form that schema.h describes.
  static Result<Grammar> json_object(const GrammarLimits& limits = {});

  // `text`: rules in GBNF, of which the one named "root" is the whole reply.
  //
  // Fails as from_json_schema() does; messages hold line and column.
  static Result<Grammar> from_text(std::string_view text, const GrammarLimits& limits = {});

  // Like the above, but rules may also be JSON schemas: JSON between fixed texts, as in tool calls.
  // E.g. the text `root ::= "<tool_call>\n" call "\n</tool_call>"` and a schema named "call".
  // Limits on text size apply to each text, all other limits to the whole grammar. Schemas are read
  // with SchemaReading::kIntent.
  static Result<Grammar> from_text(std::string_view text, std::span<const NamedSchema> schemas,
                                   const GrammarLimits& limits = {});

  // The texts that `regex` (pattern.h) matches as a whole, anchored or not.
  //
  // Fails as from_json_schema() does; messages hold the offset in bytes.
  static Result<Grammar> from_regex(std::string_view regex, const GrammarLimits& limits = {});

  // The state before the first byte.
  GrammarState start() const;

  // Nodes of the automaton, of all rules together: its size.
  size_t node_count() const { return program_->nodes.size(); }
  // Equal for grammars that were compiled from the same rules.
  const Hash128& identity() const { return program_->identity; }

 private:
  explicit Grammar(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  static Result<Grammar> compile(const class RuleSet& rules, uint32_t root,
                                 const GrammarLimits& limits);
  std::shared_ptr<const Program> program_;
};

// The result of advancing a state by some bytes.
enum class Advance : uint8_t {
  kAccepted,
  kRefused,  // no text of the grammar goes on with them
  kHalted,   // unknown: it takes more steps than allowed, or than a walker (walker.h) takes
};

class GrammarState {
 public:
  // Advances by `bytes` and returns true, or returns false and stays as it was if no text of the
  // grammar goes on with them. No bytes: true, and nothing changes. False as well where a walker
  // halts: the text can be read in thousands of ways at once.
  bool accept(std::string_view bytes);
  // Like accept(), in at most so many steps of a walker; adds those taken to `steps`. Changes the
  // state only where it returns kAccepted.
  Advance advance(std::string_view bytes, uint64_t max_steps, uint64_t& steps);

  // Whether the text so far is a whole text of the grammar: a reply may end here.
  bool is_complete() const;
  // Whether at least one more byte is possible. A state that cannot continue is complete: from
  // every state some bytes lead to an end.
  bool can_continue() const;

  // A hash of the state; equal states have equal ones. Equality is by 128 bits of hash.
  Hash128 hash() const;
  friend bool operator==(const GrammarState& a, const GrammarState& b) {
    return a.hash() == b.hash();
  }

  // For this folder: the places of the state, and the program they are in.
  const Configuration& configuration() const { return *configuration_; }
  const Program& program() const { return *program_; }
  const std::shared_ptr<const Program>& shared_program() const { return program_; }

 private:
  friend class Grammar;
  GrammarState(std::shared_ptr<const Program> program,
               std::shared_ptr<const Configuration> configuration)
      : program_(std::move(program)), configuration_(std::move(configuration)) {}

  std::shared_ptr<const Program> program_;
  std::shared_ptr<const Configuration> configuration_;
};

}  // namespace forerun::grammar
