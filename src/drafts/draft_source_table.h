// All draft sources, by name: the one place where a source is added. Accepted names, messages, help
// texts and the cases of the lossless tests are derived from this table.
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
  const char* help;  // one line: where its guesses come from
  // A new object for one request. Null: the draft model, whose guesses come from Steps.
  std::unique_ptr<DraftSource> (*make)();

  bool is_model() const { return make == nullptr; }
};

// The first entry is the draft model.
std::span<const DraftSourceEntry> draft_source_table();

// A source as options name it: entries of the table, each at most once. Immutable once parsed.
struct DraftSourceSpec {
  bool model = false;                           // the draft model guesses
  std::vector<const DraftSourceEntry*> others;  // guess beside or instead of it, in table order

  bool empty() const { return !model && others.empty(); }
  // The name that options use for it, such as "model+suffix".
  std::string name() const;
  // The sources in `others` as one source; null where there are none.
  std::unique_ptr<DraftSource> make() const;
};

// `text`: names of the table joined by '+', in any order. kInvalidArgument where it has any other
// name, none, or the same twice.
Result<DraftSourceSpec> parse_draft_source(const std::string& text);

// The names that options accept, for messages and help: "model, ngram, suffix".
std::string draft_source_names();

// What tests run: every single source, every source together with the model, and all of them at
// once.
std::vector<std::string> every_draft_source();

}  // namespace forerun
