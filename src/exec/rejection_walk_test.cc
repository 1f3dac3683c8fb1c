// Compares verification by rejection through the executor with the rule computed in the test.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "exec/exec_rig.h"
#include "sampling/rejection.h"

namespace forerun {
namespace {

// The draft draws two children of the root and one of each of these; the executor's walk must equal
// the walk that the test computes by the rule.
struct WalkVariant {
  bool threaded;
  std::array<std::vector<int32_t>, kNumRoles> teams = {};
  int32_t device_parts = 0;
};

class RejectionWalk : public ::testing::TestWithParam<WalkVariant> {};

TEST_P(RejectionWalk, IsTheRuleAppliedNodeByNode) {
  int accepted_total = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rig rig({.threaded = GetParam().threaded,
             .teams = GetParam().teams,
             .device_parts = GetParam().device_parts,
             .on_step = {}});
    SequenceSpec spec = plain_spec();
    spec.sampling.temperature = 1.0f;
    spec.sampling.seed = seed;
    if (seed % 2 == 1) spec.sampling.repetition_penalty = 1.4f;
    ASSERT_TRUE(rig.executor->open(1, spec).ok());
    const std::vector<TokenId> prompt = {3, 1, 4};
    rig.executor->submit(prefix_item(1, Role::kTarget, prompt));
    ASSERT_TRUE(rig.next().has_value());
    // The draft runs the root as a tree row or, like its prompt, as a prefix row.
    const bool root_is_prefix = seed % 4 < 2;
    WorkItem draft = prefix_item(1, Role::kDraft, {3, 1, 4, 7});
    draft.rows.back().want = Want::kDraw;
    draft.rows.back().count = 2;
    if (!root_is_prefix) draft.rows.back().node = 100;
    rig.executor->submit(draft);
    const auto roots = rig.next();
    ASSERT_TRUE(roots && roots->status.ok());
    const std::vector<Candidate> level1 = roots->rows.at(0).top;
    ASSERT_EQ(level1.size(), 2u);
    WorkItem draft2;
    draft2.sequence = 1;
    draft2.role = Role::kDraft;
    for (NodeId child = 0; child < 2; ++child) {
      WorkRow row;
      row.token = level1[child].token;
      row.position = 4;
      row.node = 101 + child;
      row.parent = root_is_prefix ? kNoNode : 100;
      row.want = Want::kDraw;
      row.count = 1;
      draft2.rows.push_back(row);
    }
    rig.executor->submit(draft2);
    const auto leaves = rig.next();
    ASSERT_TRUE(leaves && leaves->status.ok());

    WorkItem verify;
    verify.sequence = 1;
    verify.verify_by_rejection = true;
    const auto add = [&](NodeId node, NodeId parent, TokenId token, int32_t position) {
      WorkRow row;
      row.node = node;
      row.parent = parent;
      row.token = token;
      row.position = position;
      verify.rows.push_back(row);
    };
    add(100, kNoNode, 7, 3);
    for (NodeId child = 0; child < 2; ++child) add(101 + child, 100, level1[child].token, 4);
    for (NodeId child = 0; child < 2; ++child) {
      add(103 + child, 101 + child, leaves->rows.at(child).top.at(0).token, 5);
    }
    rig.executor->submit(verify);
    const auto verified = rig.next();
    ASSERT_TRUE(verified && verified->status.ok()) << verified->status.message();

    std::vector<TokenId> tokens = {3, 1, 4, 7};
    NodeId at = 100;
    std::vector<NodeId> accepted;
    TokenId bonus = -1;
    while (bonus < 0) {
      TokenCounts counts;
      for (TokenId token : tokens) counts.add(token, false);
      RowContext context;
      context.params = &spec.sampling;
      context.position = static_cast<int32_t>(tokens.size());
      context.history = &counts;
      const auto logits_of = [&](uint64_t model, int32_t vocab) {
        std::vector<float> logits(static_cast<size_t>(vocab));
        fake_logits(fake_history(tokens, model), vocab, logits.data());
        logits.resize(kVocab);
        return logits;
      };
      std::vector<WorkRow> children;
      std::vector<TokenId> child_tokens;
      for (const WorkRow& row : verify.rows) {
        if (row.parent != at) continue;
        children.push_back(row);
        child_tokens.push_back(row.token);
      }
      SamplerScratch scratch;
      DraftDistribution q;
      std::vector<Candidate> drawn;
      ASSERT_TRUE(draw_candidates(logits_of(2, kVocab), context,
                                  static_cast<int32_t>(children.size()), scratch, &drawn, &q)
                      .ok());
      for (size_t child = 0; child < children.size(); ++child) {
        EXPECT_EQ(drawn[child].token, child_tokens[child]);
      }
      RejectionOutcome outcome;
      ASSERT_TRUE(
          accept_child(logits_of(1, kVocab + 4), context, child_tokens, &q, scratch, &outcome)
              .ok());
      if (outcome.child_idx < 0) {
        bonus = outcome.token;
      } else {
        at = children[static_cast<size_t>(outcome.child_idx)].node;
        accepted.push_back(at);
        tokens.push_back(outcome.token);
      }
    }
    EXPECT_EQ(verified->accepted, accepted);
    EXPECT_EQ(verified->bonus, bonus);
    accepted_total += static_cast<int>(accepted.size());
  }
  EXPECT_GT(accepted_total, 5);
}

INSTANTIATE_TEST_SUITE_P(All, RejectionWalk,
                         ::testing::Values(WalkVariant{false}, WalkVariant{true},
                                           WalkVariant{false, {{{1, 1, 1}, {1}}}},
                                           WalkVariant{true, {{{2, 1}, {1, 1, 1}}}},
                                           WalkVariant{true, {}, 1}));

TEST(RealExecutor, VerificationByRejectionWithoutADistributionIsReported) {
  Rig rig({.on_step = {}});
  SequenceSpec spec = plain_spec();
  spec.sampling.temperature = 1.0f;
  ASSERT_TRUE(rig.executor->open(1, spec).ok());
  WorkItem verify;
  verify.sequence = 1;
  verify.verify_by_rejection = true;
  verify.rows.resize(2);
  verify.rows[0].node = 1;
  verify.rows[1].node = 2;
  verify.rows[1].parent = 1;
  verify.rows[1].position = 1;
  rig.executor->submit(verify);
  EXPECT_EQ(rig.next()->status.code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace forerun
