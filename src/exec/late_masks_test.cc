// A late mask must keep its own sequence out of Steps, and no other; guesses with late masks do not
// run; a failed mask is its row's error.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/exec_rig.h"
#include "step/hash_constraint_rig.h"

namespace forerun {
namespace {

// A constraint with late masks, except at the start, until the test releases them; those after one
// particular token fail.
class HeldConstraint : public HashConstraint {
 public:
  explicit HeldConstraint(uint64_t seed, TokenId failing = -1)
      : HashConstraint(seed, /*astray_one_in=*/0), start_(HashConstraint::start()) {
    if (failing >= 0) failing_ = value(HashConstraint::after(start_, failing));
  }
  State start() const override { return start_; }
  MaskState prepare(const State& state, int64_t& /*steps*/) const override {
    ++asked;
    if (failing_ != 0 && value(state) == failing_) return MaskState::kFailed;
    return is_late(state) ? MaskState::kLate : MaskState::kReady;
  }
  bool is_late(const State& state) const override {
    return held && value(state) != value(start_) && value(state) != failing_;
  }
  Status error(const State& state) const override {
    if (failing_ == 0 || value(state) != failing_) return {};
    return Status(StatusCode::kInvalidArgument, "the mask takes too long");
  }
  void allow(const State& state, std::span<uint32_t> words) const override {
    if (is_late(state)) ++read_too_early;
    HashConstraint::allow(state, words);
  }

  std::atomic<bool> held{true};
  mutable std::atomic<int> asked{0};
  mutable std::atomic<int> read_too_early{0};

 private:
  static uint64_t value(const State& state) { return *static_cast<const uint64_t*>(state.get()); }
  const State start_;
  uint64_t failing_ = 0;
};

SequenceSpec held_spec(std::shared_ptr<const TokenConstraint> constraint) {
  SequenceSpec spec = plain_spec();
  spec.prompt_tokens = 3;
  spec.constraint = std::move(constraint);
  return spec;
}

WorkItem next_item(SequenceId sequence, const WorkResult& last) {
  const RowResult& row = last.rows.back();
  return prefix_item(sequence, Role::kTarget, {row.token}, row.position + 1);
}

struct Runs {
  const char* name;
  bool threaded = false;
  int32_t stages = 1;
};

class LateMasks : public ::testing::TestWithParam<Runs> {};

TEST_P(LateMasks, NobodyElseWaitsForThem) {
  constexpr SequenceId kHeld = 1, kOther = 2;
  const auto tokens_of = [&](bool held, int32_t* shared_steps) {
    std::atomic<int32_t> shared{0};
    Rig rig({.threaded = GetParam().threaded,
             .stages = GetParam().stages,
             .on_step = [&](const StepRecord& record) { shared += record.sequences > 1; }});
    const auto constraint = std::make_shared<HeldConstraint>(7);
    constraint->held = held;
    EXPECT_TRUE(rig.executor->open(kHeld, held_spec(constraint)).ok());
    EXPECT_TRUE(rig.executor->open(kOther, plain_spec()).ok());
    std::map<SequenceId, std::vector<TokenId>> tokens;
    for (const SequenceId id : {kHeld, kOther}) {
      rig.executor->submit(prefix_item(id, Role::kTarget, {1, 2, 3}));
    }
    constexpr size_t kMax = 12;
    size_t others_meanwhile = 0;
    while (tokens[kHeld].size() < kMax || tokens[kOther].size() < kMax) {
      const auto result = rig.next();
      if (!result || !result->status.ok()) {
        ADD_FAILURE() << (result ? result->status.message() : "nothing comes");
        break;
      }
      std::vector<TokenId>& own = tokens[result->sequence];
      own.push_back(result->rows.back().token);
      if (own.size() < kMax) rig.executor->submit(next_item(result->sequence, *result));
      // The first token's mask is the start's; the second one's is held until the other sequence
      // has had ten more tokens.
      if (result->sequence == kOther && tokens[kHeld].size() == 1) ++others_meanwhile;
      if (tokens[kOther].size() >= 11) constraint->held = false;
    }
    if (held) {
      EXPECT_GE(others_meanwhile, 8u);
    }
    EXPECT_EQ(constraint->read_too_early, 0);
    rig.executor->close(kOther);
    rig.end(kHeld);
    *shared_steps = shared;
    return tokens;
  };
  int32_t shared_freely = 0, shared_held = 0;
  const auto freely = tokens_of(false, &shared_freely);
  EXPECT_EQ(tokens_of(true, &shared_held), freely);
  if (GetParam().stages == 1 && !GetParam().threaded) {
    EXPECT_GT(shared_freely, shared_held);
  }
}

TEST_P(LateMasks, ASequenceMayBeClosedThatWaitsForOne) {
  Rig rig({.threaded = GetParam().threaded, .stages = GetParam().stages});
  const auto constraint = std::make_shared<HeldConstraint>(7);
  ASSERT_TRUE(rig.executor->open(1, held_spec(constraint)).ok());
  rig.executor->submit(prefix_item(1, Role::kTarget, {1, 2, 3}));
  const auto first = rig.next();
  ASSERT_TRUE(first.has_value());
  rig.executor->submit(next_item(1, *first));
  EXPECT_FALSE(rig.executor->next(std::chrono::milliseconds(5)).has_value());
  rig.end(1);
}

INSTANTIATE_TEST_SUITE_P(Runs, LateMasks,
                         ::testing::Values(Runs{"Inline"}, Runs{"Threaded", true},
                                           Runs{"Stages", true, 2}),
                         [](const auto& runs) { return std::string(runs.param.name); });

// The root's mask is ready, the guess's is not: the guess is left out, and its child with it.
TEST(LateMasksOfGuesses, ThatNeedNotBeRunAreLeftOut) {
  Rig rig({.on_step = {}});
  const auto constraint = std::make_shared<HeldConstraint>(7);
  ASSERT_TRUE(rig.executor->open(1, held_spec(constraint)).ok());
  WorkItem item = prefix_item(1, Role::kTarget, {1, 2, 3});
  item.rows.push_back(
      {.token = 9, .position = 3, .node = 5, .want = Want::kSample, .chance = 0.5f});
  item.rows.push_back(
      {.token = 4, .position = 4, .node = 6, .parent = 5, .want = Want::kSample, .chance = 0.3f});
  rig.executor->submit(item);
  auto result = rig.next();
  ASSERT_TRUE(result.has_value());
  ASSERT_TRUE(result->status.ok()) << result->status.message();
  ASSERT_EQ(result->rows.size(), 1u);
  EXPECT_EQ(result->rows[0].position, 2);
  EXPECT_EQ(constraint->read_too_early, 0);
  // Once the masks are ready, such rows run.
  constraint->held = false;
  item.rows.erase(item.rows.begin(), item.rows.begin() + 3);
  rig.executor->submit(item);
  result = rig.next();
  ASSERT_TRUE(result.has_value());
  ASSERT_TRUE(result->status.ok()) << result->status.message();
  EXPECT_EQ(result->rows.size(), 2u);
  rig.end(1);
}

// The target draws nothing after a row with a failed mask; a draft does not mask its guesses there.
TEST(FailedMasks, AreTheTargetsErrors) {
  constexpr TokenId kFailing = 9;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    Rig rig({.on_step = {}});
    const auto constraint = std::make_shared<HeldConstraint>(7, kFailing);
    constraint->held = false;
    ASSERT_TRUE(rig.executor->open(1, held_spec(constraint)).ok());
    WorkItem item = prefix_item(1, role, {1, 2, 3});
    item.rows.back().want = Want::kNothing;
    item.rows.push_back({.token = kFailing,
                         .position = 3,
                         .node = 5,
                         .want = role == Role::kTarget ? Want::kSample : Want::kTopK,
                         .count = 2});
    rig.executor->submit(item);
    const auto result = rig.next();
    ASSERT_TRUE(result.has_value());
    const bool nothing_drawn = result->rows.empty() || result->rows[0].token < 0;
    if (role == Role::kTarget) {
      EXPECT_TRUE(nothing_drawn);
    } else {
      ASSERT_TRUE(result->status.ok()) << result->status.message();
      EXPECT_EQ(result->rows[0].top.size(), 2u);
    }
    rig.end(1);
  }
}

}  // namespace
}  // namespace forerun
