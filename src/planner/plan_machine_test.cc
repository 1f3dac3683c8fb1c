#include "planner/plan_machine.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "planner/plan_candidates.h"
#include "planner/planted_costs_rig.h"

namespace forerun {
namespace {

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
  // 16 sequences of 24,000 tokens leave no room for the draft model's KV.
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

// 24 sequences of 36,000 tokens and the weights of an 8B model leave 0.3 GB of an H200.
TEST(PlanBatch, ChargesViewsWhatTheyAllocate) {
  ModelConfig target = shape(32, 4096);
  target.intermediate_size = 14336;
  target.vocab_size = 128256;
  const PlannedMachine machine =
      describe_machine(parse_gpus("h200").value(), target, nullptr).value();
  const auto views_that_fit = [&](int64_t context, int64_t budget) {
    const auto all =
        bare(make_candidates({.views = {"streaming_llm", "snapkv", "vegas", "topk", "pqcache"},
                              .budgets = {budget},
                              .longest_context = context})
                 .value());
    std::set<std::string> names;
    for (const SpeculationForecast& each : plan_batch(machine, {24, context}, all, {}).ranked) {
      if (!each.is_plain()) names.insert(all[static_cast<size_t>(each.candidate)].view);
    }
    return names;
  };
  // StreamingLLM's view consists of blocks of the target's own KV cache.
  EXPECT_EQ(views_that_fit(36000, 512), std::set<std::string>{"streaming_llm"});
  EXPECT_EQ(views_that_fit(34000, 512),
            (std::set<std::string>{"streaming_llm", "snapkv", "vegas", "topk", "pqcache"}));
  // A gathered view takes its heads' KV, and PQCache also its index.
  const double room = machine.memory->usable_bytes - machine.memory->target.resident_bytes;
  const double token = machine.memory->target.kv_token_bytes;
  const auto longest = [&](const char* view) {
    return longest_context(
        machine, 24,
        bare(make_candidates({.views = {view}, .budgets = {1024}, .longest_context = 32000})
                 .value()),
        1 << 20);
  };
  const auto all_tokens = static_cast<int64_t>(room / token / 24);
  EXPECT_EQ(longest("streaming_llm"), all_tokens);
  EXPECT_EQ(longest("snapkv"), all_tokens - 15 * 64);
  EXPECT_EQ(longest("topk"), all_tokens - 15 * 64);
  EXPECT_LT(longest("pqcache"), longest("topk"));
}

TEST(DescribeMachine, SaysWhichModelCannotBe) {
  const ModelConfig target = shape(32, 4096);
  ModelConfig draft = shape(16, 2048);
  draft.sliding_window.front() = 4096;
  const auto machine = describe_machine(parse_gpus("h100").value(), target, &draft);
  ASSERT_FALSE(machine.ok());
  EXPECT_NE(machine.status().message().find("--draft"), std::string::npos);
}

TEST(CriticalContext, IsWhereSpeculationBeginsToPay) {
  // Self-speculation reads the weights for every guess, so it cannot pay at short contexts.
  const PlannedMachine machine = {.costs = planted_costs(false)};
  const StepCosts& costs = machine.costs;
  const std::vector<SpeculationCandidate> self = {planted_candidates().front()};
  for (const int32_t sequences : {4, 16, 64}) {
    const auto critical = critical_context(machine, sequences, self, 1 << 20);
    ASSERT_TRUE(critical.has_value());
    EXPECT_GT(*critical, 16);
    EXPECT_GT(best_speculation(costs, {sequences, *critical}, self).speedup, 1.0);
    EXPECT_LE(best_speculation(costs, {sequences, *critical - 1}, self).speedup, 1.0);
    // The larger the batch, the shorter the critical context.
    const auto later = critical_context(machine, sequences / 2, self, 1 << 20);
    EXPECT_GT(*later, *critical);
  }
  EXPECT_FALSE(critical_context(machine, 4, self, 1000).has_value());
  EXPECT_FALSE(critical_context(machine, 4, {}, 1 << 20).has_value());
}

TEST(CriticalContext, IsOneWhereItAlwaysPays) {
  const std::vector<SpeculationCandidate> small = {planted_candidates().back()};
  EXPECT_EQ(critical_context({.costs = planted_costs()}, 2, small, 100000), 1);
}

TEST(InflectionContext, IsWhereALargerBatchGainsMore) {
  const PlannedMachine machine = {.costs = planted_costs()};
  const StepCosts& costs = machine.costs;
  const auto all = planted_candidates();
  const auto inflection = inflection_context(machine, 4, 64, all, 1 << 20);
  ASSERT_TRUE(inflection.has_value());
  const auto speedup = [&](int32_t sequences, int64_t context) {
    return best_speculation(costs, {sequences, context}, all).speedup;
  };
  EXPECT_GE(speedup(64, *inflection), speedup(4, *inflection));
  EXPECT_LT(speedup(64, *inflection - 1), speedup(4, *inflection - 1));
}

// A target of 12 GB of weights and 128 KB of KV cache per token on a GPU of 80 GB.
TEST(CriticalContext, GoesNoFurtherThanTheMemory) {
  const ModelConfig target = shape(32, 4096);
  PlannedMachine machine = describe_machine(parse_gpus("h100").value(), target, nullptr).value();
  const std::vector<SpeculationCandidate> self = {planted_candidates().front()};
  const int64_t longest = longest_context(machine, 16, self, 1 << 20);
  EXPECT_TRUE(fits(machine, {16, longest}, &self.front()));
  EXPECT_FALSE(fits(machine, {16, longest + 1}, &self.front()));
  EXPECT_LE(critical_context(machine, 16, self, 1 << 20).value(), longest);
  EXPECT_EQ(longest_context(machine, 1 << 20, self, 1 << 20), 0);
  EXPECT_FALSE(critical_context(machine, 1 << 20, self, 1 << 20).has_value());
  // These guesses pay only at contexts that do not fit.
  const std::vector<SpeculationCandidate> unlucky = {
      {.draft = self.front().draft, .view = "snapkv", .acceptance = 0.1}};
  EXPECT_FALSE(critical_context(machine, 16, unlucky, 1 << 20).has_value());
  machine.memory.reset();
  EXPECT_EQ(longest_context(machine, 16, unlucky, 1 << 20), 1 << 20);
  EXPECT_GT(critical_context(machine, 16, unlucky, 1 << 20).value(), longest);
}

}  // namespace
}  // namespace forerun
