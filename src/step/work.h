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

// What is wanted of a row once it has run.
enum class Want : uint8_t {
  kNothing,
  // The token that the request's sampler draws after this row (all logits processors applied to
  // the row's true history, counter-based noise at position + 1).
  kSample,
  // The `count` best continuations with log-probabilities under the processed distribution. With
  // shared noise (WorkItem) at temperature > 0 all tokens are ranked by log-probability plus
  // the *target's* noise, and the best weighted by the log-softmax of that sum. Best first.
  kTopK,
  // `count` continuations drawn independently from the draft's processed distribution, which stays
  // on the device until the row's node is dropped or committed (rule `rejection`).
  kDraw,
  // The log-probability of a token that is known, and `count` alternatives: as of kSample where
  // log-probabilities are wanted. The executor asks it of rows of the target's prompts
  // (SamplingParams::prompt_logprobs); policies do not.
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
  // Tree rows of a verification by match: how likely the row's token comes out, its whole path
  // included, as far as the policy knows. A row below 1 need not be run where it does not pay
  // beside the others of its Step; it then has no KV and is missing from the result, as is all
  // below it.
  float chance = 1.0f;
};

// Changes of a (role, sequence)'s KV, applied in order before the item's rows run.
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
  kRelaxed,    // SpecPipe §3.4 (1): the guess that the target finds likeliest; lossy
  kNucleus,    // SpecPipe §3.4 (2): of the guesses in the target's nucleus the draft's likeliest;
               // lossy
};

struct KvViewEntry;  // views/view_table.h

// Which of the KV behind them rows see, by name, of at most so many tokens of their prefix.
struct KvViewSpec {
  const KvViewEntry* kind = nullptr;  // null: all of it
  int32_t budget = 0;                 // tokens

  bool operator==(const KvViewSpec&) const = default;
};

struct WorkItem {
  SequenceId sequence = 0;
  Role role = Role::kTarget;
  uint64_t tag = 0;  // the policy's own; comes back with the result
  // What its rows see of their prefix. KV of rows that do not see all of it is not what plain
  // decoding writes: on the target they are tree rows, which are never committed but dropped.
  KvViewSpec view = {};
  // Of rows that see everything: the view whose head they choose by the way, where it is one that
  // verifications choose and a choice is due (KvView::layout_by_verification()).
  KvViewSpec chooses_for = {};
  std::vector<Edit> edits;
  std::vector<WorkRow> rows;  // may be empty: the edits travel alone and give no result
  // Target items under rule `rejection`: the executor walks the item's tree rows from the first one
  // and reports the accepted path. A parent's children are tried in the order of their rows.
  bool verify_by_rejection = false;
  // Draft items: what their guesses are expected to add to the logarithm of the request's speed.
  // Where that is finite and the draft holds up the target, the item need not run if it does not
  // pay beside what others gain by the same Step. Then its edits are applied, none of its rows has
  // KV, and the result says so. Until it comes nothing else of the role is submitted.
  float gain = std::numeric_limits<float>::infinity();
  // kTopK rows rank by the target's noise. Whoever submits the item sets it, by the request's plan.
  bool shared_noise = true;
  // Target items of who has several under way: an entry notice is wanted (WorkResult::entered); and
  // rows whose nodes are dropped by edits that are submitted while they are under way need not be
  // run, and are then missing from the result (left_out: all that wanted something). Nothing may
  // refer to them afterwards, and what continues them is of such items as well.
  bool tells_entry = false;
};

struct RowResult {
  NodeId node = kNoNode;
  int32_t position = 0;        // of the row
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
  bool left_out = false;  // no row has run (WorkItem::gain), or none is left (tells_entry)
  // An entry notice, not the result, which follows: the first stage of the role's pipeline is done
  // with the item's rows and takes the next item of the sequence. Nothing else is filled. At most
  // one an item, where WorkItem::tells_entry; roles that are not cut into stages send none.
  bool entered = false;
  // In the item's order, of the rows that have run (WorkRow::chance) those that wanted something.
  std::vector<RowResult> rows;
  int32_t reused_rows =
      0;  // prefix rows that were not run, since their KV was there (share_prefix)
  double step_seconds = 0.0;   // of the Step, or Steps, that ran its rows: forward and sampling
  int32_t step_sequences = 0;  // that shared the last one of them, its own included
  // verify_by_rejection: nodes accepted below the first tree row, in order, and the token drawn
  // after the last of them.
  std::vector<NodeId> accepted;
  TokenId bonus = -1;
  // verify_by_rejection: why there is no bonus, where the last accepted node's row is faulty
  // (RowResult::status).
  Status walk_status;
  // Where SamplingParams::logprobs >= 0: what kSample would say of each of them, the bonus last.
  std::vector<RowResult> walked;
  // Of the target's prefix rows whose next token is the prompt's, where
  // SamplingParams::prompt_logprobs >= 0: that token with what kSample would say of it.
  std::vector<RowResult> scores;
};

// Lower numbers are those of texts (kv/prefix_cache.h).
inline constexpr uint64_t kFirstPrefixSalt = uint64_t{1} << 63;

// What an executor must know of a sequence before its first item.
struct SequenceSpec {
  SamplingParams sampling;
  int32_t prompt_tokens = 0;  // positions below it are prompt, for the penalties
  int32_t max_tokens = 0;     // longest length the sequence may reach, drafts included
  bool share_prefix = false;  // takes KV of others with the same beginning, and offers its own
  uint64_t prefix_salt = 0;   // of others with this one; 0, or from kFirstPrefixSalt on
  int32_t priority = 0;       // the higher goes into a Step first
  std::shared_ptr<const TokenConstraint> constraint = {};  // of the output; null: none
};

}  // namespace forerun
