// Tests how options become plans: filled-in options, refusals and their messages, and "auto".
#include "strategies/speculation_plan.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "strategies/run_strategy_rig.h"

namespace forerun {
namespace {

std::string described(const SpeculationOptions& options, const ModelFacts& models = {},
                      const AutoChoice& choice = {}) {
  const auto plan = resolve_speculation(options, models, choice);
  return plan.ok() ? describe(**plan) : "refused: " + plan.status().message();
}

TEST(StrategyTable, NamesAreUniqueAndEveryEntryMakesItsStrategy) {
  std::set<std::string> names;
  for (const StrategyEntry& entry : strategy_table()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_NE(std::string(entry.name), "auto");
    EXPECT_NE(std::string(entry.help), "") << entry.name;
    EXPECT_EQ(find_strategy(entry.name), &entry);
    EXPECT_NE(strategy_names().find(entry.name), std::string::npos);
    EXPECT_EQ(strategy_names(false).find(entry.name) == std::string::npos, entry.needs_draft_model);
    const auto plan = resolve_speculation({.strategy = entry.name});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ((*plan)->strategy, &entry);
    EXPECT_EQ((*plan)->make_strategy({})->name(), std::string(entry.name));
  }
  EXPECT_EQ(find_strategy("auto"), nullptr);
}

TEST(SpeculationPlan, FillsInWhatIsLeftOpen) {
  const ModelFacts no_draft{.has_draft_model = false};
  EXPECT_EQ(described({.strategy = "autoregressive"}), "autoregressive");
  EXPECT_EQ(described({.strategy = "serial_tree"}),
            "serial_tree, shape adaptive, source model+suffix, accept match");
  EXPECT_EQ(described({.strategy = "serial_tree", .shape = "best"}),
            "serial_tree, shape best, source model, accept match");
  EXPECT_EQ(described({.strategy = "serial_tree", .shape = "<2,1>"}, no_draft),
            "serial_tree, shape <2,1>, source suffix, accept match");
  EXPECT_EQ(described({.strategy = "parallel_tree", .source = "suffix+model"}),
            "parallel_tree, shape adaptive, source model+suffix, accept match");
  EXPECT_EQ(described({.strategy = "parallel_tree", .shape = "best"}),
            "parallel_tree, shape best, source model, accept match");

  const auto plan = resolve_speculation({.strategy = "serial_tree", .shape = "4,2"}).value();
  EXPECT_EQ(plan->shape.children, (std::vector<int32_t>{4, 2}));
  EXPECT_EQ(plan->verify_tokens, 8);
  EXPECT_EQ(plan->draft_width, 4);
  EXPECT_EQ(plan->draft_depth, 4);
  EXPECT_TRUE(plan->shared_noise);
  const auto set = resolve_speculation({.strategy = "parallel_tree",
                                        .verify_tokens = 5,
                                        .draft_width = 6,
                                        .draft_depth = 7,
                                        .shared_noise = false,
                                        .extra_draft_steps = 1,
                                        .children_per_leaf = 3})
                       .value();
  EXPECT_EQ(set->verify_tokens, 5);
  EXPECT_EQ(set->draft_width, 6);
  EXPECT_EQ(set->draft_depth, 7);
  EXPECT_EQ(set->extra_draft_steps, 1);
  EXPECT_EQ(set->children_per_leaf, 3);
  EXPECT_FALSE(set->shared_noise);
}

// Options, and words that the message about them must contain.
struct Refusal {
  SpeculationOptions options;
  std::vector<std::string> words;
  ModelFacts models = {};
};

void expect_refused(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    const auto plan = resolve_speculation(refusal.options, refusal.models);
    ASSERT_FALSE(plan.ok()) << refusal.words.front();
    EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
    for (const std::string& word : refusal.words) {
      EXPECT_NE(plan.status().message().find(word), std::string::npos)
          << "'" << word << "' missing in: " << plan.status().message();
    }
  }
}

// Values that no strategy accepts; "auto" refuses them as well.
TEST(SpeculationPlan, RefusesNamesAndNumbersThatNobodyTakes) {
  for (const char* strategy : {"auto", "serial_tree"}) {
    const std::string s = strategy;
    expect_refused({
        {{.strategy = s, .shape = "round"}, {"shape", "round", "adaptive", "best", "chain"}},
        {{.strategy = s, .shape = "1,0,2"}, {"shape", "1,0,2"}},
        {{.strategy = s, .shape = "1,,2"}, {"shape", "1,,2"}},
        {{.strategy = s, .shape = "1,2,"}, {"shape", "1,2,"}},
        {{.strategy = s, .shape = "99999999999"}, {"shape", "99999999999"}},
        {{.strategy = s, .shape = "8,8,8"}, {"shape", "8,8,8", "128"}},
        {{.strategy = s, .source = "oracle"}, {"draft source", "oracle", "ngram", "suffix"}},
        {{.strategy = s, .accept = "always"}, {"accept rule", "always", "match", "rejection"}},
        {{.strategy = s, .verify_tokens = 0}, {"verify_tokens", "0", "1 to 128"}},
        {{.strategy = s, .verify_tokens = 129}, {"verify_tokens", "129"}},
        {{.strategy = s, .draft_width = -1}, {"draft_width", "-1"}},
        {{.strategy = s, .draft_depth = 65}, {"draft_depth", "65", "64"}},
        {{.strategy = s, .extra_draft_steps = 2}, {"extra_draft_steps", "2", "0 to 1"}},
        {{.strategy = s, .children_per_leaf = -2}, {"children_per_leaf", "-2"}},
    });
  }
  expect_refused({{{.strategy = "medusa"}, {"medusa", "auto", "autoregressive", "serial_tree"}},
                  {{.strategy = ""}, {"strategy: found ''", "auto"}}});
}

TEST(SpeculationPlan, RefusesWhatDoesNotGoTogether) {
  const ModelFacts no_draft{.has_draft_model = false};
  expect_refused({
      {{.strategy = "serial_tree", .accept = "rejection"}, {"rejection", "adaptive", "chain"}},
      {{.strategy = "serial_tree", .shape = "best", .accept = "rejection"},
       {"rejection", "best", "chain"}},
      {{.strategy = "serial_tree",
        .source = "model+suffix",
        .shape = "chain",
        .accept = "rejection"},
       {"rejection", "model+suffix"}},
      {{.strategy = "serial_tree", .shape = "chain", .accept = "rejection"},
       {"rejection", "'suffix'"},
       no_draft},
      {{.strategy = "serial_tree", .source = "model+ngram"},
       {"model+ngram", "needs a draft model", "accepted without one", "ngram", "suffix"},
       no_draft},
      {{.strategy = "parallel_tree", .shape = "chain"},
       {"parallel_tree", "chain", "adaptive, best"}},
      {{.strategy = "parallel_tree", .accept = "rejection"},
       {"parallel_tree", "rejection", "match"}},
      {{.strategy = "parallel_tree"},
       {"parallel_tree", "draft model", "autoregressive", "serial_tree"},
       no_draft},
      {{.strategy = "parallel_tree", .source = "suffix"},
       {"parallel_tree", "suffix", "model+suffix"}},
  });
}

TEST(SpeculationPlan, RefusesOptionsThatTheStrategyDoesNotUse) {
  expect_refused({
      {{.strategy = "autoregressive", .draft_width = 4},
       {"draft_width: found 4", "strategy autoregressive does not use it", "no options"}},
      {{.strategy = "autoregressive", .shape = "adaptive"}, {"shape: found 'adaptive'"}},
      {{.strategy = "autoregressive", .source = "suffix"}, {"source: found 'suffix'"}},
      {{.strategy = "autoregressive", .accept = "match"}, {"accept: found 'match'"}},
      {{.strategy = "autoregressive", .shared_noise = false}, {"shared_noise: found false"}},
      {{.strategy = "serial_tree", .verify_tokens = 12},
       {"verify_tokens: found 12", "serial_tree with shape adaptive", "it uses source, shape"}},
      {{.strategy = "serial_tree", .shape = "chain", .draft_width = 2},
       {"draft_width: found 2", "shape chain", "draft_depth"}},
      {{.strategy = "serial_tree", .shape = "2,2", .draft_depth = 2}, {"draft_depth: found 2"}},
      {{.strategy = "serial_tree", .shape = "best", .extra_draft_steps = 1},
       {"extra_draft_steps: found 1", "shape best"}},
      {{.strategy = "parallel_tree", .shape = "best", .extra_draft_steps = 1},
       {"extra_draft_steps: found 1", "parallel_tree"}},
      {{.strategy = "sparse_self", .draft_width = 3},
       {"draft_width: found 3", "sparse_self without a source", "it uses source"}},
  });
  EXPECT_TRUE(resolve_speculation({.strategy = "sparse_self", .source = "suffix", .draft_width = 3},
                                  {.max_context = 4096})
                  .ok());
}

TEST(SpeculationPlan, AutoLeavesAsideWhatItsStrategyDoesNotUse) {
  const AutoChoice beside{.strategy = "parallel_tree", .extra_draft_steps = 1};
  const SpeculationOptions sizes{.verify_tokens = 12, .draft_width = 3, .draft_depth = 2};
  EXPECT_EQ(described(sizes), "serial_tree, shape adaptive, source model+suffix, accept match");
  EXPECT_EQ(described(sizes, {}, beside),
            "parallel_tree, shape adaptive, source model, accept match");
  const auto plan = resolve_speculation(sizes, {}, beside).value();
  EXPECT_EQ(plan->verify_tokens, 12);
  EXPECT_EQ(plan->extra_draft_steps, 1);
  EXPECT_EQ(resolve_speculation({.extra_draft_steps = 0}, {}, beside).value()->extra_draft_steps,
            0);
  // Options that parallel_tree does not accept give serial_tree.
  EXPECT_EQ(described({.shape = "chain", .verify_tokens = 12}, {}, beside),
            "serial_tree, shape chain, source model, accept match");
  EXPECT_EQ(described({.source = "suffix"}, {}, beside),
            "serial_tree, shape adaptive, source suffix, accept match");
  EXPECT_EQ(described({}, {.has_draft_model = false}, beside),
            "serial_tree, shape adaptive, source suffix, accept match");
  // Options that no strategy accepts are refused.
  EXPECT_NE(described({.shape = "best", .accept = "rejection"}, {}, beside)
                .find("exact only for drawn guesses"),
            std::string::npos);
  EXPECT_NE(described({.source = "model"}, {.has_draft_model = false}).find("needs a draft model"),
            std::string::npos);
}

TEST(SpeculationPlan, AutoLeavesADraftThatCannotPayAlone) {
  const AutoChoice choice{.source_without_draft = "suffix"};
  EXPECT_EQ(described({}, {}, choice), "serial_tree, shape adaptive, source suffix, accept match");
  EXPECT_EQ(described({.shape = "chain", .draft_depth = 3}, {}, choice), "autoregressive");
  EXPECT_EQ(described({.shape = "2,2", .accept = "rejection"}, {}, choice), "autoregressive");
  // If the model is requested, it is used.
  EXPECT_EQ(described({.source = "model"}, {}, choice),
            "serial_tree, shape adaptive, source model, accept match");
  EXPECT_EQ(described({.shape = "chain"}, {.has_draft_model = false}, choice),
            "serial_tree, shape chain, source suffix, accept match");
}

TEST(SpeculationPlan, OnePlanMakesAnyNumberOfStrategies) {
  const auto plan = resolve_speculation({.strategy = "serial_tree", .source = "suffix"}).value();
  const auto first = plan->make_strategy({});
  const auto second = plan->make_strategy({});
  const std::vector<TokenId> prompt = {1, 2, 3};
  for (Strategy* strategy : {first.get(), second.get()}) {
    StrategyOutput out;
    strategy->start(
        {.sequence = 1, .tokens = prompt, .prompt_tokens = 3, .max_tokens = 9, .sampling = {}},
        out);
    EXPECT_EQ(out.work.size(), 1u);
  }
}

// Returns counts of guesses that identify a source, in a run with few distinct tokens.
std::tuple<int64_t, int64_t, int64_t> guesses_of(SpeculationOptions options,
                                                 const std::string& source) {
  Case c;
  options.source = source;
  c.options = options;
  c.models.vocab = c.models.draft_vocab = 4;
  c.models.rank_hit = {0.4, 0.2};
  c.prompt = {1, 2, 3, 1, 2, 3, 1, 2};
  c.max_tokens = 200;
  const Outcome run = run_case(c);
  expect_lossless(c, run);
  return {run.stats.target_steps, run.stats.drafted_tokens, run.stats.accepted_tokens};
}

TEST(SpeculationPlan, OnlySerialTreesOfNoSetSizeTakeTheTextAsASourceUnasked) {
  for (const char* name : {"serial_tree", "parallel_tree"}) {
    for (const char* shape : {"adaptive", "best"}) {
      SCOPED_TRACE(std::string(name) + " " + shape);
      const SpeculationOptions options{.strategy = name, .shape = shape};
      const auto model = guesses_of(options, "model");
      const auto with_text = guesses_of(options, "model+suffix");
      ASSERT_NE(model, with_text);
      const bool takes_text = options.strategy == "serial_tree" && options.shape == "adaptive";
      EXPECT_EQ(guesses_of(options, ""), takes_text ? with_text : model);
    }
  }
}

TEST(WithoutDraftModel, WhatIsLeftGuessesOrDecodesPlainly) {
  const auto left = [](const SpeculationOptions& options) {
    return describe(without_draft_model(*resolve_speculation(options).value()));
  };
  EXPECT_EQ(left({.strategy = "serial_tree"}),
            "serial_tree, shape adaptive, source suffix, accept match");
  EXPECT_EQ(left({.strategy = "serial_tree", .view = "streaming_llm", .view_budget = 192}),
            "serial_tree, shape adaptive, source suffix, accept match");
  EXPECT_EQ(left({.strategy = "sparse_self", .source = "model"}),
            "sparse_self, view streaming_llm");
  EXPECT_EQ(left({.strategy = "serial_tree", .source = "model"}), "autoregressive");
  EXPECT_EQ(left({.strategy = "parallel_tree"}), "autoregressive");
  EXPECT_EQ(left({.strategy = "pipelined"}), "autoregressive");
  EXPECT_EQ(left({.strategy = "serial_tree", .shape = "chain", .accept = "rejection"}),
            "autoregressive");
  EXPECT_EQ(left({.strategy = "serial_tree", .source = "ngram"}),
            "serial_tree, shape adaptive, source ngram, accept match");
}

TEST(OptionsFor, AStrategyAreThoseThatItUses) {
  const SpeculationOptions all{.strategy = "auto",
                               .source = "model",
                               .shape = "best",
                               .accept = "match",
                               .verify_tokens = 5,
                               .draft_width = 6,
                               .draft_depth = 7,
                               .shared_noise = false,
                               .extra_draft_steps = 1,
                               .children_per_leaf = 2,
                               .view = "streaming_llm",
                               .view_budget = 512};
  for (const StrategyEntry& strategy : strategy_table()) {
    SpeculationOptions used = without_unused(strategy, all);
    used.strategy = strategy.name;
    EXPECT_TRUE(resolve_speculation(used).ok()) << described(used);
  }
  const SpeculationOptions plain = without_unused(*find_strategy("autoregressive"), all);
  for (int32_t idx = 0; idx < kNumSpeculationOptions; ++idx) {
    const auto option = static_cast<SpeculationOption>(idx);
    EXPECT_TRUE(option_value(all, option).has_value()) << option_name(option);
    EXPECT_FALSE(option_value(plain, option).has_value()) << option_name(option);
  }
  EXPECT_EQ(without_unused(*find_strategy("serial_tree"), all).draft_depth, 7);
  EXPECT_FALSE(without_unused(*find_strategy("serial_tree"), all).extra_draft_steps.has_value());
}

}  // namespace
}  // namespace forerun
