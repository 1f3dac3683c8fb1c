#include "drafts/make_draft_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "drafts/ngram_source.h"
#include "drafts/suffix_automaton_source.h"
#include "drafts/union_source.h"

namespace forerun {

Result<DraftSources> make_draft_source(const std::string& spec) {
  DraftSources made;
  std::vector<std::string> names;
  std::vector<std::unique_ptr<DraftSource>> sources;
  for (size_t begin = 0; begin <= spec.size();) {
    const size_t end = std::min(spec.find('+', begin), spec.size());
    const std::string name = spec.substr(begin, end - begin);
    begin = end + 1;
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      return Status(StatusCode::kInvalidArgument,
                    "draft source '" + spec + "' names '" + name + "' twice");
    }
    names.push_back(name);
    if (name == "model") {
      made.model = true;
    } else if (name == "ngram") {
      sources.push_back(std::make_unique<NgramSource>());
    } else if (name == "suffix") {
      sources.push_back(std::make_unique<SuffixAutomatonSource>());
    } else {
      return Status(StatusCode::kInvalidArgument,
                    "draft source '" + spec + "': unknown part '" + name +
                        "'; accepted: model, ngram, suffix, or several joined by '+'");
    }
  }
  if (sources.size() == 1) {
    made.source = std::move(sources.front());
  } else if (!sources.empty()) {
    made.source = std::make_unique<UnionSource>(std::move(sources));
  }
  return made;
}

}  // namespace forerun
