// A Grammar defines the texts that a reply may be, a GrammarState the position of one text in it.
//
// A grammar is compiled once, from a JSON schema (see schema.h for the supported part), as "any
// JSON object", from a regular expression, or from a GBNF grammar (see grammar_text.h). It is then
// immutable and shared: copies refer to one program, and any number of threads may use it. It works
// on bytes, not tokens: a token is accepted if its bytes are, even if they cut a character.
//
// A state is a value: copying it costs two reference counts, so a draft's tree keeps one per node,
// and rolling back means keeping the older one. States that allow the same texts for the same
// reasons compare equal however they were reached; masks are cached by this equality
// (token_masks.h). const functions may run in parallel; accept() needs exclusive access to the
// state.
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

// A rule of a grammar text that is defined by a JSON schema.
struct NamedSchema {
  std::string name;    // name in the text
  std::string schema;  // the schema's JSON text
};

class Grammar {
 public:
  // Compiles `schema`, the JSON text of a schema, read according to `reading`.
  //
  // Fails with kInvalidArgument for text that is not JSON or not a schema, kUnsupported for
  // unsupported parts of JSON Schema, kResourceExhausted above a limit. Messages have the JSON
  // pointer of the place, what was found and what is accepted.
  static Result<Grammar> from_json_schema(std::string_view schema, const GrammarLimits& limits = {},
                                          SchemaReading reading = SchemaReading::kLetter);

  // Accepts any JSON object, in the form that schema.h describes.
  static Result<Grammar> json_object(const GrammarLimits& limits = {});

  // Compiles `text`, rules in GBNF; the rule named "root" is the whole reply.
  //
  // Fails as from_json_schema() does; messages have line and column.
  static Result<Grammar> from_text(std::string_view text, const GrammarLimits& limits = {});

  // Does the same, but rules may also be JSON schemas: JSON between fixed texts, as in tool calls.
  // E.g. the text `root ::= "<tool_call>\n" call "\n</tool_call>"` and a schema named "call".
  // Limits on text size apply to each text, all other limits to the whole grammar. Schemas are read
  // with SchemaReading::kIntent.
  static Result<Grammar> from_text(std::string_view text, std::span<const NamedSchema> schemas,
                                   const GrammarLimits& limits = {});

  // Accepts the texts that `regex` (pattern.h) matches as a whole, anchored or not.
  //
  // Fails as from_json_schema() does; messages have the offset in bytes.
  static Result<Grammar> from_regex(std::string_view regex, const GrammarLimits& limits = {});

  // Returns the state before the first byte.
  GrammarState start() const;

  // Returns the automaton's size: the number of nodes of all rules.
  size_t node_count() const { return program_->nodes.size(); }
  // Returns an identity that is equal for grammars compiled from the same rules.
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
  kRefused,  // no text of the grammar continues with them
  kHalted,   // unknown: it takes more steps than allowed, or than a walker (walker.h) takes
};

class GrammarState {
 public:
  // Advances by `bytes` and returns true, or returns false and leaves the state unchanged if no
  // text of the grammar continues with them. With no bytes, returns true and changes nothing. Also
  // returns false if a walker halts because the text can be read in thousands of ways at once.
  bool accept(std::string_view bytes);
  // Does what accept() does, in at most `max_steps` steps of a walker; adds the steps taken to
  // `steps`. Changes the state only if it returns kAccepted.
  Advance advance(std::string_view bytes, uint64_t max_steps, uint64_t& steps);

  // Returns whether the text so far is a whole text of the grammar, so that a reply may end here.
  bool is_complete() const;
  // Returns whether at least one more byte is possible. A state that cannot continue is complete:
  // from every state some bytes lead to an end.
  bool can_continue() const;

  // Returns a hash of the state; equal states have equal hashes. Equality compares 128 bits of
  // hash.
  Hash128 hash() const;
  friend bool operator==(const GrammarState& a, const GrammarState& b) {
    return a.hash() == b.hash();
  }

  // Return the places of the state, and the program that contains them. For this folder only.
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
