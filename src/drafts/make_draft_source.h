// Draft sources by name.
#pragma once

#include <memory>
#include <string>

#include "drafts/draft_source.h"
#include "forerun/status.h"

namespace forerun {

struct DraftSources {
  bool model = false;                   // a draft model guesses
  std::unique_ptr<DraftSource> source;  // what guesses beside or instead of it; null: nothing
};

// `spec` is one of "model", "ngram", "suffix", or several joined by '+', in any order, such as
// "model+suffix". kInvalidArgument where it names anything else, nothing, or the same twice.
Result<DraftSources> make_draft_source(const std::string& spec);

}  // namespace forerun
