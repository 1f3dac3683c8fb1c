// Work items and results: a policy's requests to a model, and the model's answers.
//
// A policy names tree nodes, never KV slots; the executor maps nodes to slots for each (role,
// sequence). Items of one (role, sequence) take effect in the order of their submission.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "forerun/sampling_params.h"
#include "forerun/status.h"
#include "step/token_constraint.h"
#include "step/types.h"

namespace forerun {

// The kind of result that a row must give.
enum class Want : uint8_t {
  kNothing,
  // The token that the request's sampler draws after this row, with all logits processors applied
  // to the row's true history and counter-based noise at position + 1.
  kSample,
  // The `count` best continuations with log-probabilities under the processed distribution, best
  // first. With shared noise (WorkItem) at temperature > 0, the order is by log-probability plus
  // the *target's* noise, and the log-softmax of that sum is their log-probability.
  kTopK,
  // `count` continuations drawn independently from the draft's processed distribution. That
  // distribution stays on the device until the row's node is dropped or committed (rule
  // `rejection`).
  kDraw,
  // The log-probability of a given token, and `count` alternatives as for kSample with
  // log-probabilities. Only the executor asks for it, for the target's prompt rows
  // (SamplingParams::prompt_logprobs); policies never do.
  kScore,
};

struct WorkRow {
  TokenId token = 0;
  int32_t position = 0;  // index of `token` in the sequence, from 0
  // kNoNode for a prefix row. Prefix rows extend the role's KV prefix by one position each, come
  // before the tree rows of their item, and need an empty tree region. The KV of a tree row goes to
  // the tree region.
  NodeId node = kNoNode;
  // For tree rows: the node that the row continues, which has KV in this role or is an earlier row
  // of this item; kNoNode if the row continues the prefix itself.
  NodeId parent = kNoNode;
  Want want = Want::kNothing;
  int32_t count = 0;  // kTopK, kDraw
  // For tree rows of a verification by match: the probability that the token and its whole path are
  // accepted, as far as the policy knows. The executor may leave out a row with a chance below 1 if
  // it does not pay off beside the other rows of the Step; then the row and all rows below it have
  // no KV and no result.
  float chance = 1.0f;
};

// A change to the KV of a (role, sequence). The executor applies edits in order before the item's
// rows run.
struct Edit {
  enum class Kind : uint8_t {
    kCommit,  // `nodes` is a path from the end of the prefix, which becomes prefix
    kKeep,    // the tree region keeps only `nodes` (parents before children), compacted
  };
  Kind kind = Kind::kKeep;
  std::vector<NodeId> nodes;
};

// The rule by which the target verifies drafted tokens.
enum class AcceptRule : uint8_t {
  kMatch,      // accepts the token that the target's own sampler draws: exact
  kRejection,  // Leviathan et al. for chains, SpecInfer's multi-round rule for sampled children:
               // exact in distribution only
  kRelaxed,    // SpecPipe §3.4 (1): takes the guess that the target finds most likely; lossy
  kNucleus,    // SpecPipe §3.4 (2): takes the draft's most likely guess in the target's nucleus;
               // lossy
};

struct KvViewEntry;  // views/view_table.h

// The part of the prefix's KV that rows attend to: a view by name, of at most `budget` tokens.
struct KvViewSpec {
  const KvViewEntry* kind = nullptr;  // null for the whole KV
  int32_t budget = 0;                 // tokens

  bool operator==(const KvViewSpec&) const = default;
};

struct WorkItem {
  SequenceId sequence = 0;
  Role role = Role::kTarget;
  uint64_t tag = 0;  // for the policy; the result repeats it
  // The view through which rows attend to their prefix. Rows with a view write other KV than plain
  // decoding does: on the target they are tree rows that the policy never commits.
  KvViewSpec view = {};
  // For rows that attend to the whole KV: the view for which they also choose the head, if
  // verifications choose for it and a choice is due (KvView::layout_by_verification()).
  KvViewSpec chooses_for = {};
  std::vector<Edit> edits;
  std::vector<WorkRow> rows;  // an item without rows only carries edits and has no result
  // For target items under rule `rejection`: the executor walks the item's tree rows from the first
  // one and reports the accepted path. It tries a parent's children in row order.
  bool verify_by_rejection = false;
  // For draft items: the expected gain in the logarithm of the request's speed. If it is finite and
  // the draft holds up the target, the executor may leave out the item when all gains from the same
  // Step together do not pay for it. Then it applies the edits, runs no row, and sets left_out in
  // the result. The policy submits nothing else for the role until the result comes.
  float gain = std::numeric_limits<float>::infinity();
  // For draft items of a trained head: the executor also leaves out the item if the target's hidden
  // states before the first guess are gone (exec/role/feature_rows.h).
  bool needs_features = false;
  // True if kTopK rows rank by the target's noise. The strategy sets this by the request's plan.
  bool shared_noise = true;
  // For target items of a strategy that keeps several items in flight: asks for an entry notice
  // (WorkResult::entered). The executor may skip rows if edits drop their nodes while the rows are
  // in flight. Skipped rows are missing from the result; left_out is set if no row that wanted a
  // result remains. Nothing may refer to those rows afterwards, and rows that continue them must be
  // in such items too.
  bool tells_entry = false;
};

struct RowResult {
  NodeId node = kNoNode;
  int32_t position = 0;  // position of the row
  TokenId token = -1;    // kSample
  float logprob = 0.0f;  // kSample: log-probability of `token` before temperature and filters, if
                         // SamplingParams::logprobs >= 0
  std::vector<Candidate> top;  // kTopK, kDraw; kSample: alternatives, if logprobs > 0
  // Not ok if the row is faulty (its logits hold NaN, or all are masked) and gives neither a token
  // nor candidates. It becomes the request's error once the output needs this row; for a draft row,
  // or the row of a refused guess, it is no error.
  Status status = {};
};

struct WorkResult {
  SequenceId sequence = 0;
  Role role = Role::kTarget;
  uint64_t tag = 0;
  // Not ok if some rows did not run; the sequence must then be dropped. RowResult::status holds
  // faults of single rows. With `waits_for_memory` the code is kResourceExhausted and the executor
  // keeps the item: it runs once other sequences have freed KV blocks, unless its sequence is
  // dropped first, and its result follows.
  Status status;
  bool waits_for_memory = false;
  bool left_out = false;  // no row has run (WorkItem::gain), or all were dropped (tells_entry)
  // True for an entry notice, which precedes the result: the first stage of the role's pipeline is
  // done with the item's rows and takes the next item of the sequence. No other field is set. An
  // item gets at most one, if WorkItem::tells_entry is set; roles without stages send none.
  bool entered = false;
  // Results of the rows that wanted one and have run (WorkRow::chance), in the item's order.
  std::vector<RowResult> rows;
  int32_t reused_rows =
      0;  // prefix rows that did not run, because their KV was cached (share_prefix)
  double step_seconds = 0.0;   // forward and sampling, of all Steps that ran its rows
  int32_t step_sequences = 0;  // sequences in the last of those Steps, this one included
  // The number of that Step among its role's Steps, from 1. It is 0 for a model that is cut into
  // stages, because Steps of other sequences run in between.
  int64_t step = 0;
  // For verify_by_rejection: nodes accepted below the first tree row, in order, and the token drawn
  // after the last of them.
  std::vector<NodeId> accepted;
  TokenId bonus = -1;
  // For verify_by_rejection: the reason for a missing bonus token, if the last accepted node's row
  // is faulty (RowResult::status).
  Status walk_status;
  // If SamplingParams::logprobs >= 0: the kSample result of each accepted token and of the bonus
  // token, the bonus last.
  std::vector<RowResult> walked;
  // If SamplingParams::prompt_logprobs >= 0: one kSample result per prompt token, by the target's
  // prefix row before it.
  std::vector<RowResult> scores;
};

// The lowest salt; lower numbers are prefixes (kv/prefix_cache.h).
inline constexpr uint64_t kFirstPrefixSalt = uint64_t{1} << 63;

// The facts that an executor needs about a sequence before its first item.
struct SequenceSpec {
  SamplingParams sampling;
  int32_t prompt_tokens = 0;  // length of the prompt, for the penalties
  int32_t max_tokens = 0;     // largest length that the sequence may reach, drafts included
  bool share_prefix = false;  // takes cached KV of the same beginning, and offers its own
  // Sequences share KV only within one salt: 0, or a number from kFirstPrefixSalt on.
  uint64_t prefix_salt = 0;
  int32_t priority = 0;                                    // higher priorities go into a Step first
  std::shared_ptr<const TokenConstraint> constraint = {};  // null if the output has no constraint
};

}  // namespace forerun
