// The table of all draft sources, by name. A new source is added only here: accepted names,
// messages, help texts and the cases of the lossless tests are derived from this table.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "drafts/draft_source.h"
#include "forerun/status.h"

namespace forerun {

struct DraftSourceEntry {
  const char* name;  // without '+' and ','
  const char* help;  // one line: how it makes its guesses
  // Makes a new object for one request. Null for the draft model, which makes its guesses in Steps.
  std::unique_ptr<DraftSource> (*make)();

  bool is_model() const { return make == nullptr; }
};

// Returns the table; its first entry is the draft model.
std::span<const DraftSourceEntry> draft_source_table();

// A parsed value of SpeculationOptions::source: entries of the table, each at most once.
struct DraftSourceSpec {
  bool model = false;  // the draft model guesses
  // Sources beside or instead of the draft model, in table order.
  std::vector<const DraftSourceEntry*> others;

  bool empty() const { return !model && others.empty(); }
  // Returns its name in options, such as "model+suffix".
  std::string name() const;
  // Makes one source of those in `others`; null if there are none.
  std::unique_ptr<DraftSource> make() const;
};

// Parses `text`: names of the table joined by '+', in any order. Fails with kInvalidArgument if it
// has any other name, none, or the same twice.
Result<DraftSourceSpec> parse_draft_source(const std::string& text);

// Returns the names that options accept, for messages and help: "model, ngram, suffix".
std::string draft_source_names();

// Returns the sources that tests run: every single source, every source together with the model,
// and all of them at once.
std::vector<std::string> every_draft_source();

}  // namespace forerun
