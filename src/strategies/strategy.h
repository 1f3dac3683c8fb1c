// A strategy decides for one request what runs next. It is a pure state machine that owns no
// device, thread, stream or clock, so the same code runs on the real, the emulated and the
// simulated executor.
//
// Calls come one at a time. Every call appends to `out`; the engine submits `out.work` in order and
// passes on `out.tokens` in order. The engine ends a request (stop token, stop string, length,
// cancellation) by closing its sequence; a strategy never sees results after that.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "forerun/guess_origin.h"
#include "forerun/sampling_params.h"
#include "forerun/status.h"
#include "forerun/trace.h"
#include "step/cost_table.h"
#include "step/work.h"

namespace forerun {

// The facts that a strategy receives about its request. Lives as long as the strategy.
struct RequestView {
  SequenceId sequence = 0;
  // The tokens already known: the prompt, and, if a request is rebuilt, its earlier output.
  std::span<const TokenId> tokens;
  int32_t prompt_tokens = 0;  // number of `tokens` that are the prompt
  int32_t max_tokens = 0;     // maximum length of the sequence, drafts included
  // For a strategy that replaces another while the request runs: how many of `tokens` are already
  // in the role's KV prefix. Prefix rows continue after them, and tree regions are empty. The
  // target then has all but the last token, the draft any number of them.
  std::array<int32_t, kNumRoles> kv_tokens{};
  NodeId first_node = 0;  // ids of new nodes begin here; lower ids have been used
  SamplingParams sampling;
};

struct EmittedToken {
  TokenId token = 0;
  float logprob = 0.0f;        // only if SamplingParams::logprobs >= 0
  std::vector<Candidate> top;  // only if SamplingParams::logprobs >= 0
  bool drafted = false;        // the token had been guessed and was accepted
};

// A record of one verification, for --show-tree and traces.
struct RoundRecord {
  struct Node {
    TokenId token = 0;
    int32_t parent = -1;  // index in `nodes`; the root is node 0 with parent -1
    float logprob = 0.0f;
    bool accepted = false;
    GuessOrigin origin = GuessOrigin::kModel;
  };
  std::vector<Node> nodes;  // the verified nodes, parents before children
  TokenId bonus = -1;
  Reroot reroot = Reroot::kNone;
};

struct StrategyOutput {
  std::vector<WorkItem> work;
  std::vector<EmittedToken> tokens;
  std::vector<RoundRecord> rounds;  // only if StrategyParts::record_rounds is set
  // Not ok: no token can follow `tokens`, since the row that would give it is faulty
  // (RowResult::status). The request fails unless one of `tokens` ends it; `work` is then useless.
  Status error;

  void clear() {
    error = {};
    work.clear();
    tokens.clear();
    rounds.clear();
  }
};

struct StrategyStats {
  int64_t target_steps = 0;  // Steps of the target after the prefill
  int64_t draft_steps = 0;
  int64_t drafted_tokens = 0;   // verified tokens, without the roots
  int64_t accepted_tokens = 0;  // accepted ones of these
  int64_t emitted_tokens = 0;

  StrategyStats& operator+=(const StrategyStats& other) {
    target_steps += other.target_steps;
    draft_steps += other.draft_steps;
    drafted_tokens += other.drafted_tokens;
    accepted_tokens += other.accepted_tokens;
    emitted_tokens += other.emitted_tokens;
    return *this;
  }
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual void start(const RequestView& request, StrategyOutput& out) = 0;
  virtual void on_result(const WorkResult& result, StrategyOutput& out) = 0;
  // Sets the costs of Steps at the present load. Called before start(), and between results, on the
  // same thread, whenever they have changed; later decisions use them, items in flight are not
  // affected. Emits nothing and never changes the tokens. With an unmeasured table, the strategy
  // uses ratios typical of a draft that costs a fifth of its target.
  virtual void on_costs(const CostTable& costs) = 0;
  // Does part of the next turn's work in advance. Called between results, on the same thread, while
  // devices work, or not at all. Emits nothing and never changes the tokens.
  virtual void prepare() {}
  virtual StrategyStats stats() const = 0;
  virtual const char* name() const = 0;
};

}  // namespace forerun
