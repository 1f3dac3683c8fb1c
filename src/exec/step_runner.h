// One model on its devices, with the sampler: runs a Step and answers the wants of its rows. Each
// backend has one implementation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/model_config.h"
#include "device/collectives.h"
#include "forerun/status.h"
#include "forerun/trace.h"
#include "model/decoder.h"
#include "sampling/logits_row.h"
#include "sampling/sampler.h"
#include "step/meanwhile.h"
#include "step/step.h"
#include "step/work.h"

namespace forerun {

// The task of one row. The executor fills everything except `result`'s answers and `status`; a task
// with an initial status other than ok is not performed.
struct RowTask {
  Want want = Want::kNothing;
  int32_t count = 0;
  TokenId token = -1;  // kScore: the token to score
  bool shared_noise = true;
  int32_t step_row = 0;    // index in the Step
  int32_t logits_row = 0;  // index among the Step's rows that want logits
  RowContext context;
  RowResult* result = nullptr;
  DraftDistribution* distribution = nullptr;  // kDraw: receives the distribution of the draws
  Status status;
  bool skipped = false;  // its row was dropped while in flight (PipelinedRunner::drop())
};

// One node of a tree for verification by rejection; the root comes first, parents before children.
struct RejectionRow {
  NodeId node = kNoNode;
  TokenId token = 0;
  int32_t parent_idx = -1;
  int32_t logits_row = 0;
  RowContext context;                        // context at its children's position
  const DraftDistribution* draft = nullptr;  // distribution from which its children were drawn
  Status status;  // if not ok, the row is faulty, and a walk that reaches it ends with this error
};

struct RejectionTask {
  std::span<const RejectionRow> rows;
  WorkResult* result = nullptr;  // receives `accepted`, `bonus` and `walked`
  Status status;
};

class PipelinedRunner;

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual const ModelConfig& config() const = 0;
  // Only token ids below it are sampled or proposed.
  virtual int32_t live_vocab() const = 0;
  virtual int64_t kv_blocks() const = 0;
  virtual int64_t kv_block_bytes() const = 0;
  // Places for hidden states that Steps may keep (Step::taps); 0 if they keep none.
  virtual int64_t tap_places() const { return 0; }
  // Returns whether the model is a trained head, whose rows start from its target's hidden states
  // (Step::features).
  bool takes_features() const { return config().eagle3.has_value(); }
  // Runs the Step and the tasks on its logits. Returns the Step's error; a task's own error goes to
  // its status. Only one thread at a time may call run() and move_kv().
  virtual Status run(const Step& step, std::span<RowTask> tasks,
                     std::span<RejectionTask> rejections, const Meanwhile& meanwhile) = 0;
  virtual Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) = 0;
  virtual bool has_host_kv() const { return true; }
  // Not null if further Steps may be issued before the first has ended.
  virtual PipelinedRunner* pipelined() { return nullptr; }
};

// An event of an issued Step. Every Step has one event of each kind, in this order.
struct PipelineEvent {
  enum class Kind : uint8_t {
    kEntered,  // the first stage is free for the next Step
    kRetired,  // the Step has run or failed, and its tasks are done; Steps retire in the order of
               // issue
  };
  Kind kind = Kind::kRetired;
  uint64_t step = 0;
  // kRetired: the Step's status.
  Status status;
  int64_t start_ns = 0;                 // kRetired: time at which the first stage began the Step
  int64_t end_ns = 0;                   // time of the event
  std::vector<TraceStage> stages = {};  // as in TraceStep
};

// A row of an issued Step.
struct IssuedRow {
  uint64_t step = 0;
  int32_t row = 0;
};

// A model cut into stages, which work on different Steps at the same time.
class PipelinedRunner : public StepRunner {
 public:
  virtual int32_t num_stages() const = 0;
  // Issues a Step after the moves of move_kv() so far, and returns its number, one more than the
  // last Step's. Rows in `dropped` are dropped at once, as by drop(). The data behind `step` may
  // change afterwards; the tasks and all that they point to must not change until the Step has
  // retired. Other threads call `tell`, which must outlive the runner and must not call it.
  virtual uint64_t issue(const Step& step, std::span<RowTask> tasks,
                         std::span<RejectionTask> rejections, std::span<const int32_t> dropped,
                         const std::function<void(PipelineEvent)>* tell) = 0;
  // Drops rows of Steps in flight with unneeded results: stages that have not begun the Step leave
  // them out, and their tasks come back as skipped. Rows that attend to a dropped row must be
  // dropped in the same call or earlier. Has no effect on a Step that chooses KV or has rejection
  // tasks, since both count rows.
  virtual void drop(std::span<const IssuedRow> rows) = 0;
  PipelinedRunner* pipelined() override { return this; }
};

// The logits of a Step on one device of a group.
struct StepLogits {
  LogitsPart part;               // this device's tokens; the first one is a multiple of 16
  int32_t live_vocab = 0;        // tokens at or past it are never sampled
  Collectives* peers = nullptr;  // null if the part has all tokens

  LogitsRow row(int32_t logits_row) const;
};

// Returns the query by which a task reads its row of `live_vocab` logits.
RowQuery query_of(const RowTask& task, int32_t live_vocab);

// Perform one task. Backends that sample on the host use them; others must give the same results.
// If devices share the vocabulary, every device calls them with the same task and its own `result`.
// They neither read nor write the task's own `result` and `status`.
Status perform_task(const StepLogits& logits, SamplerScratch& scratch, const RowTask& task,
                    RowResult& result);
Status perform_rejection(const StepLogits& logits, SamplerScratch& scratch,
                         std::vector<TokenId>& children, std::span<const RejectionRow> rows,
                         WorkResult& result);

}  // namespace forerun
