// Work items and results: what a policy asks of a model, and what comes back.
//
// A policy names tree nodes, never KV slots; the executor keeps, per (role, sequence), the map from
// node to slot. Items of one (role, sequence) take effect in the order of their submission.
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

// What the result of a row must hold.
enum class Want : uint8_t {
  kNothing,
  // The token that the request's sampler draws after this row (all logits processors applied to
  // the row's true history, counter-based noise at position + 1).
  kSample,
  // The `count` best continuations with log-probabilities under the processed distribution. With
  // shared noise (WorkItem) at temperature > 0, tokens are ranked by log-probability plus the
  // *target's* noise, and the best ones get the log-softmax of that sum as their log-probability.
  // Best first.
  kTopK,
  // `count` continuations drawn independently from the draft's processed distribution, which stays
  // on the device until the row's node is dropped or committed (rule `rejection`).
  kDraw,
  // The log-probability of a given token, and `count` alternatives, as kSample gives them where
  // log-probabilities are wanted. The executor asks it of the target's prompt rows
  // (SamplingParams::prompt_logprobs); policies never do.
  kScore,
};

struct WorkRow {
  TokenId token = 0;
  int32_t position = 0;  // index of `token` in the sequence; the first token of the prompt is 0
  // kNoNode: a prefix row. Prefix rows extend the role's KV prefix by one position each, come
  // before the tree rows of their item, and need an empty tree region.
  // Otherwise a tree row: its KV goes to the tree region.
  NodeId node = kNoNode;
  // Tree rows: the node it continues, which has KV in this role or is an earlier row of this item;
  // kNoNode: it continues the prefix itself.
  NodeId parent = kNoNode;
  Want want = Want::kNothing;
  int32_t count = 0;  // kTopK, kDraw
  // Tree rows of a verification by match: the probability that the row's token and its whole path
  // are accepted, as far as the policy knows. The executor may leave out a row with a chance below
  // 1 where it does not pay beside the other rows of the Step; the row then has no KV and is
  // missing from the result, as are all rows below it.
  float chance = 1.0f;
};

// A change of the KV of a (role, sequence). Edits are applied in order before the item's rows run.
struct Edit {
  enum class Kind : uint8_t {
    kCommit,  // `nodes` is a path that starts at the end of the prefix: it becomes prefix
    kKeep,    // the tree region keeps exactly `nodes` (parents before children), compacted
  };
  Kind kind = Kind::kKeep;
  std::vector<NodeId> nodes;
};

// How drafted tokens are verified.
enum class AcceptRule : uint8_t {
  kMatch,      // accepted if it is the token that the target's own sampler draws: exact
  kRejection,  // Leviathan et al. for chains, SpecInfer's multi-round rule for sampled children:
               // exact in distribution only
  kRelaxed,    // SpecPipe §3.4 (1): the guess that the target finds most likely; lossy
  kNucleus,  // SpecPipe §3.4 (2): among guesses in the target's nucleus, the draft's most likely;
             // lossy
};

struct KvViewEntry;  // views/view_table.h

// Which part of their prefix's KV rows see: a view by name, of at most `budget` tokens.
struct KvViewSpec {
  const KvViewEntry* kind = nullptr;  // null: all of it
  int32_t budget = 0;                 // tokens

  bool operator==(const KvViewSpec&) const = default;
};

struct WorkItem {
  SequenceId sequence = 0;
  Role role = Role::kTarget;
  uint64_t tag = 0;  // the policy's own; comes back with the result
  // What the rows see of their prefix. Rows that do not see all of it write other KV than plain
  // decoding does: on the target they are tree rows that are never committed.
  KvViewSpec view = {};
  // Where the rows see the whole KV: the view whose head they also choose, if it is one that
  // verifications choose and a choice is due (KvView::layout_by_verification()).
  KvViewSpec chooses_for = {};
  std::vector<Edit> edits;
  std::vector<WorkRow> rows;  // may be empty: then the item only carries edits and gives no result
  // Target items under rule `rejection`: the executor walks the item's tree rows from the first one
  // and reports the accepted path. A parent's children are tried in the order of their rows.
  bool verify_by_rejection = false;
  // Draft items: what the guesses are expected to add to the logarithm of the request's speed.
  // Where that is finite and the draft holds up the target, the executor may leave the item out if
  // it does not pay together with what others gain by the same Step. Then its edits are applied,
  // none of its rows has KV, and the result says so (left_out). Until the result comes, nothing
  // else is submitted for the role.
  float gain = std::numeric_limits<float>::infinity();
  // Draft items of a trained head: the executor leaves them out in the same way where the target's
  // hidden states before the first guess are gone (exec/role/feature_rows.h).
  bool needs_features = false;
  // kTopK rows rank by the target's noise. The strategy sets this by the request's plan.
  bool shared_noise = true;
  // Target items of a strategy that has several under way. An entry notice is wanted
  // (WorkResult::entered). Rows whose nodes are dropped by edits that are submitted while the rows
  // are under way need not be run, and are then missing from the result (left_out where all that
  // wanted something are missing). Nothing may refer to those rows afterwards, and rows that
  // continue them must be in such items too.
  bool tells_entry = false;
};

struct RowResult {
  NodeId node = kNoNode;
  int32_t position = 0;        // position of the row
  TokenId token = -1;          // kSample
  float logprob = 0.0f;        // kSample: log-probability of `token` before temperature and
                               // filters, where SamplingParams::logprobs >= 0
  std::vector<Candidate> top;  // kTopK, kDraw; kSample: alternatives, where logprobs > 0
  // Not ok: the row is faulty (its logits hold NaN, or all are masked) and gives neither a token
  // nor candidates. It becomes the request's error once the text needs this row; in a draft's row,
  // or that of a refused guess, it is no error.
  Status status = {};
};

struct WorkResult {
  SequenceId sequence = 0;
  Role role = Role::kTarget;
  uint64_t tag = 0;
  // Not ok: not all of the rows ran, and the sequence must be dropped. Faults of single rows are in
  // RowResult::status. With `waits_for_memory` the code is kResourceExhausted and the item is kept:
  // it runs once others have given KV blocks back, unless its sequence is dropped first; its result
  // follows.
  Status status;
  bool waits_for_memory = false;
  bool left_out = false;  // no row has run (WorkItem::gain), or all were dropped (tells_entry)
  // An entry notice, not the result, which follows: the first stage of the role's pipeline is done
  // with the item's rows and takes the next item of the sequence. Nothing else is filled. At most
  // one an item, where WorkItem::tells_entry; roles that are not cut into stages send none.
  bool entered = false;
  // Results of the rows that wanted something and have run (WorkRow::chance), in the item's order.
  std::vector<RowResult> rows;
  int32_t reused_rows =
      0;  // prefix rows that were not run, since their KV was cached (share_prefix)
  double step_seconds = 0.0;   // forward and sampling, of all Steps that ran its rows
  int32_t step_sequences = 0;  // sequences in the last of those Steps, this one included
  // The number of that Step among its role's Steps, from 1. 0 for a model that is cut into stages,
  // where Steps of other sequences run in between.
  int64_t step = 0;
  // verify_by_rejection: nodes accepted below the first tree row, in order, and the token drawn
  // after the last of them.
  std::vector<NodeId> accepted;
  TokenId bonus = -1;
  // verify_by_rejection: why there is no bonus, where the last accepted node's row is faulty
  // (RowResult::status).
  Status walk_status;
  // Where SamplingParams::logprobs >= 0: what kSample would say of each accepted token and of the
  // bonus, the bonus last.
  std::vector<RowResult> walked;
  // The prompt's tokens, each scored by the target's prefix row before it, where
  // SamplingParams::prompt_logprobs >= 0: the token with what kSample would say of it.
  std::vector<RowResult> scores;
};

// Salts begin here; lower numbers are texts (kv/prefix_cache.h).
inline constexpr uint64_t kFirstPrefixSalt = uint64_t{1} << 63;

// What an executor must know of a sequence before its first item.
struct SequenceSpec {
  SamplingParams sampling;
  int32_t prompt_tokens = 0;  // positions below it are prompt, for the penalties
  int32_t max_tokens = 0;     // longest length the sequence may reach, drafts included
  bool share_prefix = false;  // takes cached KV of the same beginning, and offers its own
  uint64_t prefix_salt = 0;   // KV is shared only within one salt; 0, or from kFirstPrefixSalt on
  int32_t priority = 0;       // higher priorities go into a Step first
  std::shared_ptr<const TokenConstraint> constraint = {};  // constraint of the output; null: none
};

}  // namespace forerun
