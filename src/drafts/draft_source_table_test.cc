#include "drafts/draft_source_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace forerun {
namespace {

TEST(DraftSourceTable, NamesAreUniqueAndTheModelComesFirst) {
  std::set<std::string> names;
  for (const DraftSourceEntry& entry : draft_source_table()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(std::string(entry.name).find_first_of("+, "), std::string::npos) << entry.name;
    EXPECT_NE(std::string(entry.help), "") << entry.name;
    EXPECT_EQ(entry.is_model(), &entry == draft_source_table().data()) << entry.name;
    EXPECT_NE(draft_source_names().find(entry.name), std::string::npos);
  }
}

TEST(DraftSourceTable, EveryEntryGuessesAloneAndInUnions) {
  const std::vector<std::string> all = every_draft_source();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  for (const DraftSourceEntry& entry : draft_source_table()) {
    EXPECT_NE(std::find(all.begin(), all.end(), entry.name), all.end()) << entry.name;
    const std::string beside_model = std::string("model+") + entry.name;
    EXPECT_EQ(std::find(all.begin(), all.end(), beside_model) != all.end(), !entry.is_model());
  }
  for (const std::string& text : all) {
    const auto spec = parse_draft_source(text);
    ASSERT_TRUE(spec.ok()) << text << ": " << spec.status().message();
    EXPECT_EQ(spec->name(), text);
    EXPECT_EQ(spec->model, text.find("model") != std::string::npos) << text;
    const std::unique_ptr<DraftSource> source = spec->make();
    ASSERT_EQ(source != nullptr, text != "model") << text;
    if (!source) continue;
    const std::vector<TokenId> seen = {1, 2, 3, 1, 2, 3, 1, 2};
    source->observe(seen);
    std::vector<Candidate> out;
    source->propose({}, 4, out);
    ASSERT_LE(out.size(), 4u) << text;
    for (const Candidate& guess : out) EXPECT_LE(guess.logprob, 0.0f) << text;
  }
}

TEST(DraftSourceTable, TheOrderOfNamesIsNoMatter) {
  const auto spec = parse_draft_source("suffix+model");
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->name(), "model+suffix");
}

TEST(DraftSourceTable, RefusesWhatItDoesNotKnow) {
  const auto unknown = [](const std::string& name) {
    return ": unknown part '" + name +
           "'; accepted: model, ngram, suffix, or several joined by '+'";
  };
  const std::pair<std::string, std::string> cases[] = {
      {"", unknown("")},
      {"eagle", unknown("eagle")},
      {"model+", unknown("")},
      {"+model", unknown("")},
      {"model,suffix", unknown("model,suffix")},
      {"model+model", " names 'model' twice; accepted: each once"},
      {"ngram+suffix+ngram", " names 'ngram' twice; accepted: each once"}};
  for (const auto& [text, said] : cases) {
    const auto spec = parse_draft_source(text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_EQ(spec.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(spec.status().message(), "draft source '" + text + "'" + said);
  }
}

}  // namespace
}  // namespace forerun
