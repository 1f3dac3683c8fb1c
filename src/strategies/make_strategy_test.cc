#include "strategies/make_strategy.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>

#include "strategies/play_strategy_test.h"

namespace forerun {
namespace {

TEST(MakeStrategy, MakesEveryNameShapeAndSource) {
  for (const std::string& name : strategy_names()) {
    StrategyOptions options;
    options.name = name;
    auto made = make_strategy(options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ((*made)->name(), name);
  }
  for (const char* shape : {"adaptive", "best", "chain", "1", "<1,1,3,1,1>", "4,2"}) {
    for (const char* source : {"", "model", "ngram", "suffix", "model+suffix"}) {
      StrategyOptions options;
      options.shape = shape;
      options.source = source;
      EXPECT_TRUE(make_strategy(options).ok()) << shape << " " << source;
    }
  }
}

// What is wrong with the options, and words that the message must have.
struct Refusal {
  std::function<void(StrategyOptions&)> spoil;
  std::vector<std::string> words;
};

TEST(MakeStrategy, RefusesWithTheParameterTheValueAndWhatIsAccepted) {
  const std::vector<Refusal> refusals = {
      {[](auto& o) { o.name = "medusa"; }, {"medusa", "autoregressive", "serial_tree"}},
      {[](auto& o) { o.shape = "round"; }, {"shape", "round", "adaptive", "best", "chain"}},
      {[](auto& o) { o.shape = ""; }, {"shape", "adaptive"}},
      {[](auto& o) { o.shape = "1,0,2"; }, {"shape", "1,0,2"}},
      {[](auto& o) { o.shape = "1,,2"; }, {"shape", "1,,2"}},
      {[](auto& o) { o.shape = "1,2,"; }, {"shape", "1,2,"}},
      {[](auto& o) { o.shape = "99999999999"; }, {"shape", "99999999999"}},
      {[](auto& o) { o.shape = "8,8,8"; }, {"shape", "8,8,8", "128"}},
      {[](auto& o) { o.source = "oracle"; }, {"draft source", "oracle", "ngram"}},
      {[](auto& o) { o.accept = "always"; }, {"accept rule", "always", "match", "rejection"}},
      {[](auto& o) { o.verify_tokens = 0; }, {"verify_tokens", "0", "128"}},
      {[](auto& o) { o.verify_tokens = 129; }, {"verify_tokens", "129"}},
      {[](auto& o) { o.draft_width = -1; }, {"draft_width", "-1"}},
      {[](auto& o) { o.draft_depth = 65; }, {"draft_depth", "65", "64"}},
      {[](auto& o) { o.children_per_leaf = -2; }, {"children_per_leaf", "-2"}},
      {[](auto& o) { o.accept = "rejection"; }, {"rejection", "adaptive", "chain"}},
      {[](auto& o) {
         o.accept = "rejection";
         o.shape = "best";
       },
       {"rejection", "best", "chain"}},
      {[](auto& o) {
         o.accept = "rejection";
         o.shape = "chain";
         o.source = "model+suffix";
       },
       {"rejection", "model+suffix"}},
      {[](auto& o) {
         o.has_draft_model = false;
         o.source = "model+ngram";
       },
       {"model+ngram", "needs a draft model"}},
      {[](auto& o) {
         o.name = "parallel_tree";
         o.shape = "chain";
       },
       {"parallel_tree", "chain", "adaptive, best"}},
      {[](auto& o) {
         o.name = "parallel_tree";
         o.accept = "rejection";
       },
       {"parallel_tree", "rejection", "match"}},
      {[](auto& o) {
         o.name = "parallel_tree";
         o.has_draft_model = false;
       },
       {"parallel_tree", "draft model", "autoregressive, serial_tree"}},
      {[](auto& o) {
         o.name = "parallel_tree";
         o.source = "suffix";
       },
       {"parallel_tree", "suffix", "model+suffix"}},
      {[](auto& o) {
         o.name = "parallel_tree";
         o.draft_width = 0;
       },
       {"draft_width", "0"}},
  };
  for (const Refusal& refusal : refusals) {
    StrategyOptions options;
    refusal.spoil(options);
    const auto made = make_strategy(options);
    ASSERT_FALSE(made.ok()) << refusal.words.front();
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(check_strategy_options(options).message(), made.status().message());
    for (const std::string& word : refusal.words) {
      EXPECT_NE(made.status().message().find(word), std::string::npos)
          << "'" << word << "' missing in: " << made.status().message();
    }
  }
}

TEST(MakeStrategy, WithoutADraftModelTheSourceIsTheSuffixAutomaton) {
  StrategyOptions options;
  options.has_draft_model = false;
  ASSERT_TRUE(make_strategy(options).ok());
  options.accept = "rejection";
  options.shape = "chain";
  const auto made = make_strategy(options);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().message().find("suffix"), std::string::npos);
}

// What a play of few distinct tokens tells of the source: which guesses there were.
std::tuple<int64_t, int64_t, int64_t> guesses_of(StrategyOptions options,
                                                 const std::string& source) {
  Case c;
  options.source = source;
  c.options = options;
  c.models.vocab = c.models.draft_vocab = 4;
  c.models.rank_hit = {0.4, 0.2};
  c.prompt = {1, 2, 3, 1, 2, 3, 1, 2};
  c.max_tokens = 200;
  const Outcome run = play(c);
  expect_lossless(c, run);
  return {run.stats.target_steps, run.stats.drafted_tokens, run.stats.accepted_tokens};
}

TEST(MakeStrategy, OnlySerialTreesOfNoSetSizeTakeTheTextAsASourceUnasked) {
  for (const char* name : {"serial_tree", "parallel_tree"}) {
    for (const char* shape : {"adaptive", "best"}) {
      SCOPED_TRACE(std::string(name) + " " + shape);
      StrategyOptions options;
      options.name = name;
      options.shape = shape;
      const auto model = guesses_of(options, "model");
      const auto with_text = guesses_of(options, "model+suffix");
      ASSERT_NE(model, with_text);
      const bool takes_text = options.name == "serial_tree" && options.shape == "adaptive";
      EXPECT_EQ(guesses_of(options, ""), takes_text ? with_text : model);
    }
  }
}

}  // namespace
}  // namespace forerun
