#include "exec/role/role_worker.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/clocks.h"
#include "exec/guarded.h"
#include "exec/role/dropped_rows.h"
#include "exec/role/step_results.h"

namespace forerun {
namespace {

constexpr size_t kMaxAtEntry = 2;  // one Step at the first stage, and one that waits for it
// Steps per stage: the one that it works on, and one on the link to it.
constexpr size_t kMaxUnderWay = 2;

// The limits without stages: a Step takes all there is.
constexpr StepComposer::Limits kNoLimits = {.stages = 0,
                                            .waiting = std::numeric_limits<int32_t>::max(),
                                            .following_rows = std::numeric_limits<int32_t>::max()};

// Records that the rows of the Step are in flight from now on, and which of them need not run.
void begin(StepUnderWay& step) {
  step.live_rows = step.builder.rows();
  for (const StepUnderWay::Piece& piece : step.pieces) {
    ++piece.sequence->steps_under_way;
    piece.sequence->samples_under_way += piece.samples ? 1 : 0;
    if (piece.is_last) piece.sequence->queue.pass_next();
    if (piece.item->dead.empty()) continue;
    for (int32_t row = 0; row < piece.count; ++row) {
      if (!piece.item->dead[piece.first_item_row + static_cast<size_t>(row)]) continue;
      step.dead.push_back(piece.first_step_row + row);
      --step.live_rows;
    }
  }
}

}  // namespace

RoleWorker::RoleWorker(Role role, StepRunner* runner, const StepScheduler& scheduler,
                       std::function<void(const StepRecord&)> on_step, bool trace,
                       RoleWorker* target)
    : role_(role),
      runner_(runner),
      scheduler_(scheduler),
      on_step_(std::move(on_step)),
      trace_(trace),
      pool_(runner->kv_blocks()),
      prefix_cache_(&pool_),
      tap_places_(runner->tap_places()),
      sequences_(role, &pool_, &prefix_cache_, runner->config().head_dim,
                 runner->tap_places() > 0 ? &tap_places_ : nullptr),
      features_(runner->takes_features() ? std::optional<FeatureRows>(&target->sequences_)
                                         : std::nullopt),
      edits_(role, runner),
      finisher_(role, &sequences_),
      composer_({.scheduler = &scheduler_,
                 .sequences = &sequences_,
                 .edits = &edits_,
                 .finisher = &finisher_,
                 .pool = &pool_,
                 .features = features(),
                 .traces = trace}),
      measurer_(role, runner, &pool_) {
  spare_.push_back(make_step());
}

void RoleWorker::set_pipelined(std::function<void(PipelineEvent)> tell) {
  pipeline_ = runner_->pipelined();
  tell_ = std::move(tell);
}

void RoleWorker::submit(PendingItem&& item) {
  RoleSequence* const found = sequences_.find(item.item.sequence);
  if (found == nullptr) return;
  told_ns_ = std::max(told_ns_, item.submit_ns);
  item.result.sequence = item.item.sequence;
  item.result.role = role_;
  item.result.tag = item.item.tag;
  if (!item.item.rows.empty()) sequences_.set_follows(*found, item.item.tells_entry);
  const bool drops = is_pipelined() && !found->queue.empty() && !item.item.edits.empty();
  found->queue.push_back(std::move(item));
  if (drops) {
    rows_to_drop_.clear();
    mark_dropped_rows(*found, under_way_, rows_to_drop_);
    if (!rows_to_drop_.empty()) pipeline_->drop(rows_to_drop_);
  }
  sequences_.enqueue(*found);
}

void RoleWorker::close(SequenceId sequence) {
  RoleSequence* const found = sequences_.find(sequence);
  composer_.note_closing(found);
  if (found != nullptr) sequences_.close(*found);
}

bool RoleWorker::decodes() const {
  const std::span<RoleSequence* const> ready = sequences_.ready();
  return std::any_of(ready.begin(), ready.end(),
                     [](const RoleSequence* sequence) { return !sequence->reads_prompt(); });
}

KvUsage RoleWorker::usage() const {
  return {pool_.used_blocks(), pool_.total_blocks(), runner_->kv_block_bytes()};
}

std::unique_ptr<StepUnderWay> RoleWorker::compose_step(const StepComposer::Limits& limits,
                                                       int64_t held_up,
                                                       std::vector<FinishedItem>& finished) {
  const int64_t start_ns = steady_ns();
  const int64_t start_cpu_ns = trace_ ? thread_cpu_ns() : 0;
  if (spare_.empty()) spare_.push_back(make_step());
  std::unique_ptr<StepUnderWay> step = std::move(spare_.back());
  spare_.pop_back();
  step->clear();
  composer_.compose(*step, limits, held_up, finished);
  if (step->builder.empty()) {
    spare_.push_back(std::move(step));
    return nullptr;
  }
  begin(*step);
  step->built = step->builder.finish();
  step->host_ns = steady_ns() - start_ns;
  if (trace_) step->host_cpu_ns = thread_cpu_ns() - start_cpu_ns;
  return step;
}

void RoleWorker::step(std::vector<FinishedItem>& finished, int64_t held_up,
                      const Meanwhile& meanwhile) {
  std::unique_ptr<StepUnderWay> step = compose_step(kNoLimits, held_up, finished);
  if (step == nullptr) return;
  const StepBuilder::Built& built = step->built;
  const int64_t start_cpu_ns = trace_ ? thread_cpu_ns() : 0;
  step->start_ns = steady_ns();
  const Status status =
      guarded([&] { return runner_->run(*built.step, built.tasks, built.rejections, meanwhile); });
  step->end_ns = steady_ns();
  step->run_cpu_ns = trace_ ? thread_cpu_ns() - start_cpu_ns : 0;
  ++steps_run_;
  retire(std::move(step), status, finished);
}

bool RoleWorker::may_issue() const {
  const bool follow = sequences_.following() > 0;
  const size_t max_at_entry = follow ? 1 : kMaxAtEntry;
  if (follow && result_is_due()) return false;
  return ready() && under_way_.size() - entered_ < max_at_entry &&
         under_way_.size() < kMaxUnderWay * static_cast<size_t>(pipeline_->num_stages());
}

bool RoleWorker::result_is_due() const {
  const auto live = std::find_if(under_way_.begin(), under_way_.end(),
                                 [](const auto& step) { return step->live_rows > 0; });
  return live != under_way_.end() && (*live)->entered_ns > 0 &&
         pace_.is_due((*live)->entered_ns, told_ns_);
}

bool RoleWorker::issue(std::vector<FinishedItem>& finished) {
  const int32_t stages = pipeline_->num_stages();
  const auto share = [stages](int32_t all) { return std::max(1, (all + stages - 1) / stages); };
  const int32_t following = sequences_.following();
  std::unique_ptr<StepUnderWay> step =
      compose_step({.stages = stages,
                    .waiting = share(sequences_.decoding() - following),
                    .following_rows = scheduler_.nearly_free_rows(share(following))},
                   /*held_up=*/0, finished);
  if (step == nullptr) return false;
  const StepBuilder::Built& built = step->built;
  step->number = pipeline_->issue(*built.step, built.tasks, built.rejections, step->dead, &tell_);
  step->overlaps = !under_way_.empty();
  if (!under_way_.empty()) under_way_.back()->overlaps = true;
  for (const StepUnderWay::Piece& piece : step->pieces) sequences_.enqueue(*piece.sequence);
  under_way_.push_back(std::move(step));
  return true;
}

void RoleWorker::note_entries(std::vector<FinishedItem>& finished) {
  for (; noted_ < entered_ && !result_is_due(); ++noted_) note_entry(*under_way_[noted_], finished);
}

void RoleWorker::note_entry(const StepUnderWay& step, std::vector<FinishedItem>& finished) const {
  for (const StepUnderWay::Piece& piece : step.pieces) {
    if (!piece.is_last || !piece.item->item.tells_entry || piece.sequence->closed) continue;
    FinishedItem notice = finisher_.notice(*piece.sequence, *piece.item);
    notice.result.entered = true;
    finished.push_back(std::move(notice));
  }
}

void RoleWorker::handle(PipelineEvent&& event, std::vector<FinishedItem>& finished) {
  told_ns_ = std::max(told_ns_, event.end_ns);
  if (event.kind != PipelineEvent::Kind::kRetired) {
    under_way_[entered_++]->entered_ns = event.end_ns;
    note_entries(finished);
    return;
  }
  std::unique_ptr<StepUnderWay> step = std::move(under_way_.front());
  under_way_.pop_front();
  --entered_;
  if (noted_ > 0) --noted_;
  step->start_ns = event.start_ns;
  step->end_ns = event.end_ns;
  step->stages = std::move(event.stages);
  if (step->live_rows > 0) pace_.observe(step->start_ns, step->entered_ns, step->end_ns);
  retire(std::move(step), event.status, finished);
  note_entries(finished);
}

void RoleWorker::retire_piece(const StepUnderWay::Piece& piece, const Status& outcome,
                              std::vector<FinishedItem>& finished) {
  RoleSequence& sequence = *piece.sequence;
  --sequence.steps_under_way;
  sequence.samples_under_way -= piece.samples ? 1 : 0;
  if (sequence.closed) {
    if (sequence.steps_under_way > 0) return;
    sequences_.forget_closed(sequence);
    composer_.note_blocks_returned();
    return;
  }
  if (!outcome.ok() && sequence.failed.ok()) {
    sequence.failed = finisher_.in_context(outcome, sequence);
  }
  if (piece.is_last) {
    finisher_.finish(sequence, *piece.item, finished);
    sequence.queue.pop_oldest();
  }
  if (sequence.steps_under_way == 0) {
    if (sequence.failed.ok()) {
      sequence.kv.publish();
    } else {
      finisher_.fail_all(sequence, finished);
    }
  }
  sequences_.enqueue(sequence);
}

void RoleWorker::retire(std::unique_ptr<StepUnderWay> step, const Status& status,
                        std::vector<FinishedItem>& finished) {
  const int64_t start_ns = steady_ns();
  const int64_t start_cpu_ns = trace_ ? thread_cpu_ns() : 0;
  const double seconds = 1e-9 * static_cast<double>(step->end_ns - step->start_ns);
  StepResults results(role_, *step, status);
  for (const StepUnderWay::Piece& piece : step->pieces) {
    WorkResult& result = piece.item->result;
    result.step_seconds += seconds;
    result.step_sequences = static_cast<int32_t>(step->pieces.size());
    result.step = steps_run_;
    const Status outcome = results.take(piece);
    retire_piece(piece, outcome, finished);
  }
  step->host_ns += steady_ns() - start_ns;
  if (trace_) step->host_cpu_ns += thread_cpu_ns() - start_cpu_ns;
  if (on_step_) on_step_(record_of(role_, *step, trace_));
  spare_.push_back(std::move(step));
}

}  // namespace forerun
