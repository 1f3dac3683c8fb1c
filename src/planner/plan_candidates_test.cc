#include "planner/plan_candidates.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

#include "views/view_table.h"

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
  ASSERT_EQ(all.size(), 6u);
  ASSERT_NE(find(all, "self, snapkv 2049"), nullptr);
  EXPECT_EQ(find(all, "self, snapkv 2049")->candidate.acceptance, 0.89);
  EXPECT_EQ(find(all, "self, streaming_llm 512")->candidate.acceptance, 0.83);
  EXPECT_EQ(find(all, "draft")->candidate.acceptance, 0.67);
  EXPECT_EQ(find(all, "draft")->candidate.draft.budget_tokens, 0);
  EXPECT_EQ(find(all, "draft, streaming_llm 512")->candidate.draft.budget_tokens, 512);
  for (const PlanCandidate& each : all) {
    EXPECT_NE(each.source.find("MagicDec"), std::string::npos) << each.source;
  }
  // Both views also check the draft model's tokens, which come through a view of the same budget.
  const PlanCandidate* const hierarchy = find(all, "self, snapkv 2049, checks draft");
  ASSERT_NE(hierarchy, nullptr);
  EXPECT_EQ(hierarchy->candidate.acceptance, 0.89);
  EXPECT_EQ(hierarchy->candidate.draft.checks.budget_tokens, 2049);
  EXPECT_EQ(hierarchy->candidate.draft.checks.acceptance, 0.67);
  EXPECT_NE(find(all, "self, streaming_llm 512, checks draft"), nullptr);
  // Without a draft model there is no hierarchy; views stay, for contexts longer than the given
  // one.
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
  ASSERT_EQ(all.size(), 7u + 4);
  EXPECT_EQ(find(all, "self, snapkv 256, checks draft")->candidate.draft.checks.acceptance, 0.4);
  EXPECT_EQ(find(all, "self, snapkv 1024, checks draft")->candidate.draft.checks.acceptance, 0.5);
  EXPECT_EQ(find(all, "self, snapkv 256")->candidate.acceptance, 0.8);
  EXPECT_EQ(find(all, "self, snapkv 1024")->candidate.acceptance, 0.85);
  EXPECT_EQ(find(all, "self, snapkv 1024")->source, "given");
  EXPECT_EQ(find(all, "draft")->candidate.acceptance, 0.5);
  EXPECT_EQ(find(all, "draft, streaming_llm 256")->candidate.acceptance, 0.4);
  EXPECT_EQ(find(all, "draft, streaming_llm 1024")->candidate.acceptance, 0.5);
  // A smaller budget than the published one is assumed to have a lower acceptance.
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
  ASSERT_NE(find(all, "self, topk 300"), nullptr);  // not planned with by default
  EXPECT_EQ(find(all, "self, topk 300")->candidate.draft.selection_share, 0.5);
}

TEST(MakeCandidates, EveryViewCanBeNamed) {
  for (const KvViewEntry& view : view_table()) {
    const auto all = make_candidates({.views = {view.name}, .longest_context = 32000}).value();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all.front().source, view.facts.acceptance_source);
    EXPECT_EQ(all.front().candidate.acceptance, view.facts.acceptance);
  }
}

TEST(MakeCandidates, RefusesWithWhatIsAccepted) {
  const auto with = [](const std::string& acceptance) {
    CandidateOptions options{.longest_context = 32000};
    options.acceptance = {acceptance};
    return options;
  };
  const std::array<std::pair<CandidateOptions, const char*>, 12> refused = {{
      {{.views = {"snap"}, .longest_context = 32000}, "streaming_llm, snapkv"},
      {{.budgets = {32000}, .longest_context = 32000},
       "the longest context has only 32000 tokens; accepted: budgets below that"},
      {{.budgets = {127}, .longest_context = 32000},
       "found 127; accepted with view streaming_llm: at least 192"},
      {{.views = {"snapkv"}, .budgets = {1}, .longest_context = 32000}, "--budgets: "},
      {with("0.9"), "VIEW:K=A"},
      {with("snapkv=1.1"), "from 0 to 1"},
      {with("snapkv=nan"), "from 0 to 1"},
      {with("snapkv=0.9x"), "from 0 to 1"},
      {with("snapkv:0=0.9"), "VIEW:K=A"},
      {with("snap=0.9"), "streaming_llm"},
      {with("draft=0.6"), "fits no candidate; accepted: a view and a budget that --views and"},
      {with("draft:64=0.6"), "draft/VIEW:K=A"},
  }};
  for (const auto& [options, said] : refused) {
    const auto made = make_candidates(options);
    ASSERT_FALSE(made.ok()) << said;
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(made.status().message().find(said), std::string::npos) << made.status().message();
  }
}

}  // namespace
}  // namespace forerun
