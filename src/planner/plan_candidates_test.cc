#include "planner/plan_candidates.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

#include "planner/plan_machine.h"

namespace forerun {
namespace {

const PlanCandidate* find(const std::vector<PlanCandidate>& all, const std::string& name) {
  for (const PlanCandidate& each : all) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

TEST(MakeCandidates, PublishedOnesByDefault) {
  const auto all = make_candidates({.has_draft_model = true, .longest_context = 32000}).value();
  ASSERT_EQ(all.size(), 4u);
  ASSERT_NE(find(all, "self, snapkv 2049"), nullptr);
  EXPECT_EQ(find(all, "self, snapkv 2049")->candidate.acceptance, 0.89);
  EXPECT_EQ(find(all, "self, streaming_llm 512")->candidate.acceptance, 0.83);
  EXPECT_EQ(find(all, "draft")->candidate.acceptance, 0.67);
  EXPECT_EQ(find(all, "draft")->candidate.draft.budget_tokens, 0);
  EXPECT_EQ(find(all, "draft, streaming_llm 512")->candidate.draft.budget_tokens, 512);
  for (const PlanCandidate& each : all) {
    EXPECT_NE(each.source.find("MagicDec"), std::string::npos) << each.source;
  }
  // Without a draft model there is none; views stay, for longer contexts than those asked about.
  EXPECT_EQ(make_candidates({.longest_context = 100}).value().size(), 2u);
}

TEST(MakeCandidates, BudgetsAndAcceptanceAsGiven) {
  const auto all = make_candidates({.has_draft_model = true,
                                    .views = {"snapkv", "streaming_llm"},
                                    .budgets = {256, 1024},
                                    .acceptance = {"snapkv=0.8", "snapkv:1024=0.85", "draft=0.5",
                                                   "draft/streaming_llm:256=0.4"},
                                    .longest_context = 32000})
                       .value();
  ASSERT_EQ(all.size(), 7u);
  EXPECT_EQ(find(all, "self, snapkv 256")->candidate.acceptance, 0.8);
  EXPECT_EQ(find(all, "self, snapkv 1024")->candidate.acceptance, 0.85);
  EXPECT_EQ(find(all, "self, snapkv 1024")->source, "given");
  EXPECT_EQ(find(all, "draft")->candidate.acceptance, 0.5);
  EXPECT_EQ(find(all, "draft, streaming_llm 256")->candidate.acceptance, 0.4);
  EXPECT_EQ(find(all, "draft, streaming_llm 1024")->candidate.acceptance, 0.5);
  // Of a smaller budget less is assumed than of the published one.
  const PlanCandidate& assumed = *find(all, "self, streaming_llm 256");
  EXPECT_LT(assumed.candidate.acceptance, 0.83);
  EXPECT_NE(assumed.source.find("assumed"), std::string::npos);
  EXPECT_EQ(find(all, "self, streaming_llm 1024")->candidate.acceptance, 0.83);
}

TEST(MakeCandidates, AnAcceptancesBudgetIsPlanned) {
  const auto all =
      make_candidates({.acceptance = {"snapkv:1000=0.8", "topk:300=0.95"}, .longest_context = 4000})
          .value();
  ASSERT_NE(find(all, "self, snapkv 1000"), nullptr);
  EXPECT_EQ(find(all, "self, snapkv 2049"), nullptr);
  ASSERT_NE(find(all, "self, topk 300"), nullptr);  // of which nothing is published
  EXPECT_EQ(find(all, "self, topk 300")->candidate.draft.selection_share, 0.5);
}

TEST(MakeCandidates, RefusesWithWhatIsAccepted) {
  const auto with = [](const std::string& acceptance) {
    CandidateOptions options{.longest_context = 32000};
    options.acceptance = {acceptance};
    return options;
  };
  const std::array<std::pair<CandidateOptions, const char*>, 13> refused = {{
      {{.views = {"snap"}, .longest_context = 32000}, "streaming_llm, snapkv"},
      {{.views = {"topk"}, .longest_context = 32000}, "--acceptance topk:512=A"},
      {{.budgets = {32000}, .longest_context = 32000}, "budgets below it"},
      {{.budgets = {127}, .longest_context = 32000}, "found 127, view streaming_llm accepts 192"},
      {{.views = {"snapkv"}, .budgets = {1}, .longest_context = 32000}, "--budgets: "},
      {with("0.9"), "VIEW:K=A"},
      {with("snapkv=1.1"), "from 0 to 1"},
      {with("snapkv=nan"), "from 0 to 1"},
      {with("snapkv=0.9x"), "from 0 to 1"},
      {with("snapkv:0=0.9"), "VIEW:K=A"},
      {with("snap=0.9"), "streaming_llm"},
      {with("draft=0.6"), "no --draft"},
      {with("draft:64=0.6"), "draft/VIEW:K=A"},
  }};
  for (const auto& [options, said] : refused) {
    const auto made = make_candidates(options);
    ASSERT_FALSE(made.ok()) << said;
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(made.status().message().find(said), std::string::npos) << made.status().message();
  }
}

ModelConfig shape(int32_t layers, int32_t hidden) {
  ModelConfig config;
  config.num_layers = layers;
  config.hidden_size = hidden;
  config.intermediate_size = 3 * hidden;
  config.num_heads = hidden / 128;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  config.vocab_size = 32000;
  config.sliding_window.assign(static_cast<size_t>(layers), 0);
  return config;
}

TEST(PlanBatch, LeavesOutWhatTheMemoryCannotHold) {
  const ModelConfig target = shape(32, 4096);
  const ModelConfig draft = shape(16, 2048);
  const PlannedMachine machine =
      describe_machine(parse_gpus("h100").value(), target, &draft).value();
  EXPECT_EQ(machine.name, "1 x h100");
  const auto all =
      bare(make_candidates({.has_draft_model = true, .longest_context = 32000}).value());
  // 16 sequences of 24,000 tokens leave no room for as many of the draft model's.
  const BatchPlan tight = plan_batch(machine, {16, 28000}, all, {});
  EXPECT_TRUE(tight.fits);
  ASSERT_NE(tight.best_guessing(), nullptr);
  bool whole_cache_draft = false;
  for (const SpeculationForecast& each : tight.ranked) {
    if (each.is_plain()) continue;
    const DraftOption& option = all[static_cast<size_t>(each.candidate)].draft;
    whole_cache_draft |= option.model == Role::kDraft && option.budget_tokens == 0;
  }
  EXPECT_FALSE(whole_cache_draft);
  const BatchPlan roomy = plan_batch(machine, {4, 24000}, all, {});
  EXPECT_GT(roomy.ranked.size(), tight.ranked.size());
  const BatchPlan over = plan_batch(machine, {64, 32000}, all, {});
  EXPECT_FALSE(over.fits);
  EXPECT_TRUE(over.ranked.empty());
  EXPECT_EQ(over.best_guessing(), nullptr);
}

TEST(DescribeMachine, SaysWhichModelCannotBe) {
  const ModelConfig target = shape(32, 4096);
  ModelConfig draft = shape(16, 2048);
  draft.sliding_window.front() = 4096;
  const auto machine = describe_machine(parse_gpus("h100").value(), target, &draft);
  ASSERT_FALSE(machine.ok());
  EXPECT_NE(machine.status().message().find("--draft"), std::string::npos);
}

}  // namespace
}  // namespace forerun
