#include "drafts/draft_source_table.h"

#include <algorithm>
#include <utility>

#include "drafts/ngram_source.h"
#include "drafts/suffix_automaton_source.h"
#include "drafts/union_source.h"

namespace forerun {
namespace {

template <class Source>
std::unique_ptr<DraftSource> make_one() {
  return std::make_unique<Source>();
}

constexpr DraftSourceEntry kTable[] = {
    {"model", "the draft model", nullptr},
    {"ngram", "what followed the last few tokens before", make_one<NgramSource>},
    {"suffix", "what followed the longest repeated end of the text",
     make_one<SuffixAutomatonSource>},
};

Status refused(const std::string& text, const std::string& why) {
  return Status(StatusCode::kInvalidArgument, "draft source '" + text + "'" + why);
}

}  // namespace

std::span<const DraftSourceEntry> draft_source_table() { return kTable; }

std::string DraftSourceSpec::name() const {
  std::string text = model ? kTable[0].name : "";
  for (const DraftSourceEntry* entry : others) {
    text += (text.empty() ? "" : "+") + std::string(entry->name);
  }
  return text;
}

std::unique_ptr<DraftSource> DraftSourceSpec::make() const {
  if (others.empty()) return nullptr;
  if (others.size() == 1) return others.front()->make();
  std::vector<std::unique_ptr<DraftSource>> sources;
  for (const DraftSourceEntry* entry : others) sources.push_back(entry->make());
  return std::make_unique<UnionSource>(std::move(sources));
}

Result<DraftSourceSpec> parse_draft_source(const std::string& text) {
  DraftSourceSpec spec;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('+', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    begin = end + 1;
    const auto entry = std::find_if(std::begin(kTable), std::end(kTable),
                                    [&](const DraftSourceEntry& e) { return e.name == name; });
    if (entry == std::end(kTable)) {
      return refused(text, ": unknown part '" + name + "'; accepted: " + draft_source_names() +
                               ", or several joined by '+'");
    }
    const bool twice = entry->is_model() ? spec.model
                                         : std::find(spec.others.begin(), spec.others.end(),
                                                     entry) != spec.others.end();
    if (twice) return refused(text, " names '" + name + "' twice; accepted: each once");
    if (entry->is_model()) {
      spec.model = true;
    } else {
      spec.others.push_back(entry);
    }
  }
  // Pointers into one array, so this is table order.
  std::sort(spec.others.begin(), spec.others.end());
  return spec;
}

std::string draft_source_names() {
  std::string names;
  for (const DraftSourceEntry& entry : kTable) {
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return names;
}

std::vector<std::string> every_draft_source() {
  std::vector<std::string> all;
  std::string whole;
  const std::string model = kTable[0].name;
  for (const DraftSourceEntry& entry : kTable) {
    all.push_back(entry.name);
    if (!entry.is_model()) all.push_back(model + "+" + entry.name);
    whole += (whole.empty() ? "" : "+") + std::string(entry.name);
  }
  all.push_back(whole);
  return all;
}

}  // namespace forerun
