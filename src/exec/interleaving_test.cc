// Runs random work of several sequences and checks it against a plain reference model of each.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/sanitized.h"
#include "exec/exec_rig.h"
#include "exec/sequence_mirror_rig.h"
#include "step/hash_constraint_rig.h"

namespace forerun {
namespace {

SequenceSpec random_spec(std::mt19937& rng) {
  SequenceSpec spec;
  spec.sampling.temperature = rng() % 3 == 0 ? 0.0f : 0.9f;
  spec.sampling.seed = rng();
  if (rng() % 2 == 0) {
    spec.sampling.repetition_penalty = 1.2f;
    spec.sampling.frequency_penalty = 0.3f;
  }
  if (rng() % 3 == 0) spec.sampling.logprobs = 2;
  if (rng() % 4 == 0) spec.sampling.logit_bias = {{7, 3.0f}, {kVocab - 1, -100.0f}};
  if (rng() % 3 == 0) spec.constraint = std::make_shared<HashConstraint>(rng());
  spec.prompt_tokens = static_cast<int32_t>(rng() % 30);
  spec.max_tokens = 400;
  return spec;
}

void expect_same(const WorkResult& result, const std::vector<RowResult>& expected) {
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  ASSERT_EQ(result.rows.size(), expected.size());
  for (size_t row = 0; row < expected.size(); ++row) {
    EXPECT_EQ(result.rows[row].node, expected[row].node);
    EXPECT_EQ(result.rows[row].position, expected[row].position);
    EXPECT_EQ(result.rows[row].token, expected[row].token);
    EXPECT_EQ(result.rows[row].logprob, expected[row].logprob);
    ASSERT_EQ(result.rows[row].top.size(), expected[row].top.size());
    for (size_t rank = 0; rank < expected[row].top.size(); ++rank) {
      EXPECT_EQ(result.rows[row].top[rank].token, expected[row].top[rank].token);
      EXPECT_EQ(result.rows[row].top[rank].logprob, expected[row].top[rank].logprob);
    }
  }
}

struct Variant {
  bool threaded;
  int32_t row_budget;
  bool share = false;
  std::array<std::vector<int32_t>, kNumRoles> teams = {};  // threads of each device, by role
  int32_t device_parts = 0;
  int32_t stages = 1;  // stages of the target

  bool has_threads() const {
    return threaded || stages > 1 || !teams[0].empty() || !teams[1].empty();
  }
};

// Returns a function that makes random stages slow in turn.
std::function<void(int32_t)> delays(uint32_t seed) {
  auto steps = std::make_shared<std::atomic<uint64_t>>(seed);
  return [steps](int32_t stage) {
    const uint64_t drawn = fake_mix(++*steps, static_cast<uint64_t>(stage)) >> 32;
    if (drawn % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(drawn % 200));
  };
}

// Counts over all runs of a variant, which show that the runs reached their cases.
struct Tally {
  int64_t reused = 0;
  int64_t summarized = 0;
  int64_t edited = 0;
  int64_t fetched = 0;
  int64_t dropped = 0;
  int64_t notices = 0;
};

// One executor and several sequences, with items of both roles in flight.
class Interleaving {
 public:
  Interleaving(const Variant& variant, uint32_t seed, Tally& tally)
      : variant_(variant),
        tally_(tally),
        rng_(seed),
        rig_({.threaded = variant.threaded,
              .row_budget = variant.row_budget,
              .teams = variant.teams,
              .device_parts = variant.device_parts,
              .stages = variant.stages,
              .in_stage = delays(seed),
              .on_step = {}}) {
    for (int index = 0; index < 4; ++index) open();
  }

  // Submits an item of one sequence, or replaces the sequence; sometimes takes a result.
  void play_round() {
    const size_t pick = rng_() % live_.size();
    Live& sequence = *live_[pick];
    if (++sequence.items > 40 || rng_() % 40 == 0) {
      rig_.executor->close(sequence.id);
      live_.erase(live_.begin() + static_cast<ptrdiff_t>(pick));
      open();
      return;
    }
    const size_t role = rng_() % kNumRoles;
    WorkItem item = sequence.roles[role]->random_item(rng_, next_tag_++);
    if (!item.rows.empty()) sequence.awaited[role].push_back(item.tag);
    item.tells_entry = role == 0 && sequence.tells_entry;
    if (item.tells_entry) sequence.asked.insert(item.tag);
    rig_.executor->submit(std::move(item));
    if (rng_() % 3 == 0) take();
  }

  // Takes all results, then closes all sequences: no KV block may remain in use.
  void finish() {
    while (take()) {
    }
    for (const auto& sequence : live_) {
      EXPECT_TRUE(sequence->awaited[0].empty() && sequence->awaited[1].empty());
      rig_.executor->close(sequence->id);
    }
    EXPECT_FALSE(rig_.next().has_value());
    rig_.wait_until_kv_is_free();
    EXPECT_GT(checked_, variant_.share ? 20 : 40);
    rig_.executor.reset();
    EXPECT_EQ(rig_.target_violations(), 0);
    EXPECT_EQ(rig_.draft.violations, 0);
    EXPECT_LE(rig_.target.largest_step, variant_.row_budget);
    tally_.summarized += rig_.target.summarized;
    tally_.edited += rig_.target.edited;
    tally_.fetched += rig_.target.fetched;
  }

 private:
  struct Live {
    SequenceId id;
    std::unique_ptr<SequenceMirror> roles[kNumRoles];
    std::vector<uint64_t> awaited[kNumRoles];  // tags in submission order
    bool tells_entry = false;                  // whether its target items ask for entry notices
    std::set<uint64_t> asked;                  // tags of items whose entry notice is due
    int items = 0;
  };

  void open() {
    auto sequence = std::make_unique<Live>();
    sequence->id = next_id_++;
    sequence->tells_entry = variant_.stages > 1 && rng_() % 3 > 0;
    SequenceSpec spec = random_spec(rng_);
    spec.share_prefix = variant_.share && rng_() % 8 != 0;
    const auto common = static_cast<int32_t>(variant_.share ? rng_() % 300 : 0);
    ASSERT_TRUE(rig_.executor->open(sequence->id, spec).ok());
    for (int role_idx = 0; role_idx < kNumRoles; ++role_idx) {
      sequence->roles[role_idx] =
          std::make_unique<SequenceMirror>(sequence->id, static_cast<Role>(role_idx), spec, common);
    }
    live_.push_back(std::move(sequence));
  }

  // Takes one result and checks it; returns false if no more come.
  bool take() {
    const auto result = rig_.next();
    if (!result) return false;
    const auto owner = std::find_if(live_.begin(), live_.end(), [&](const auto& sequence) {
      return sequence->id == result->sequence;
    });
    EXPECT_NE(owner, live_.end()) << "a result of a closed sequence";
    if (owner == live_.end()) return true;
    if (result->entered) {
      EXPECT_TRUE(result->rows.empty() && (*owner)->asked.erase(result->tag) == 1);
      ++tally_.notices;
      return true;
    }
    auto& awaited = (*owner)->awaited[static_cast<size_t>(result->role)];
    EXPECT_FALSE(awaited.empty());
    if (awaited.empty()) return false;
    EXPECT_EQ(result->tag, awaited.front()) << "results of a (role, sequence) keep their order";
    awaited.erase(awaited.begin());
    check(**owner, *result);
    return true;
  }

  void check(const Live& owner, const WorkResult& result) {
    const auto role = static_cast<size_t>(result.role);
    const SequenceMirror& mirror = *owner.roles[role];
    const auto found = mirror.expected().find(result.tag);
    auto expected = found == mirror.expected().end() ? std::vector<RowResult>{} : found->second;
    // Rows of dropped nodes may be missing if the item allows it.
    if (role == 0 && owner.tells_entry) {
      const size_t all = expected.size();
      std::erase_if(expected, [&](const RowResult& row) {
        return mirror.is_dropped(row.node) &&
               std::none_of(result.rows.begin(), result.rows.end(),
                            [&](const RowResult& other) { return other.node == row.node; });
      });
      tally_.dropped += static_cast<int64_t>(all - expected.size());
      EXPECT_EQ(result.left_out, all > 0 && expected.empty());
    }
    expect_same(result, expected);
    ++checked_;
    tally_.reused += result.reused_rows;
  }

  const Variant& variant_;
  Tally& tally_;
  std::mt19937 rng_;
  Rig rig_;
  std::vector<std::unique_ptr<Live>> live_;
  SequenceId next_id_ = 100;
  uint64_t next_tag_ = 0;
  int64_t checked_ = 0;
};

class Interleavings : public ::testing::TestWithParam<Variant> {};

// Several sequences have items of both roles in flight and may be closed at any time: every result
// must follow from the sequence's own tokens.
TEST_P(Interleavings, EveryResultFollowsFromItsOwnHistory) {
  if (kThreadSanitized && !GetParam().has_threads()) GTEST_SKIP() << "one thread";
  Tally tally;
  const uint32_t seeds = (GetParam().stages > 1 ? 24 : 12) / (kThreadSanitized ? 4
                                                              : kSanitized     ? 2
                                                                               : 1);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    Interleaving run(GetParam(), seed, tally);
    for (int round = 0; round < 150; ++round) {
      run.play_round();
      if (HasFatalFailure()) return;
    }
    run.finish();
    if (HasFailure()) return;
  }
  EXPECT_EQ(tally.reused > 500, GetParam().share) << tally.reused;
  const bool several_steps = GetParam().stages > 1 && GetParam().threaded;
  EXPECT_EQ(tally.notices > 50, several_steps) << tally.notices;
  EXPECT_EQ(tally.dropped > 0, several_steps) << tally.dropped;
  EXPECT_EQ(tally.summarized > 50, GetParam().device_parts > 0) << tally.summarized;
  EXPECT_EQ(tally.edited > 25, GetParam().device_parts > 0) << tally.edited;
  // Sums of parts with different origins are not known.
  const bool in_parts =
      GetParam().device_parts > 1 || (GetParam().device_parts > 0 && !GetParam().teams[0].empty());
  EXPECT_EQ(tally.fetched > 10, in_parts) << tally.fetched;
}

INSTANTIATE_TEST_SUITE_P(
    All, Interleavings,
    ::testing::Values(Variant{false, 512}, Variant{false, 7}, Variant{false, 1}, Variant{true, 512},
                      Variant{true, 7}, Variant{false, 512, true}, Variant{false, 70, true},
                      Variant{true, 512, true}, Variant{false, 512, false, {{{1, 1}, {2, 1, 2}}}},
                      Variant{true, 7, true, {{{1, 1, 1, 1}, {2, 2}}}},
                      Variant{false, 512, false, {}, 1}, Variant{true, 70, true, {}, 2},
                      Variant{true, 512, false, {{{1, 2}, {2}}}, 1},
                      Variant{false, 512, false, {}, 0, 2}, Variant{false, 70, true, {}, 0, 5},
                      Variant{true, 512, false, {}, 0, 3}, Variant{true, 7, false, {}, 0, 2},
                      Variant{true, 512, true, {}, 0, 8}, Variant{true, 70, true, {}, 2, 4}));

}  // namespace
}  // namespace forerun
