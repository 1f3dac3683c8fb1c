#include "exec/role_worker.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/clocks.h"
#include "base/status_macros.h"
#include "exec/guarded.h"
#include "exec/scratch_ids.h"

namespace forerun {
RoleWorker::RoleWorker(Role role, StepRunner* runner, const StepScheduler& scheduler,
                       std::function<void(const StepRecord&)> on_step, bool trace)
    : role_(role),
      runner_(runner),
      scheduler_(scheduler),
      on_step_(std::move(on_step)),
      trace_(trace),
      pool_(runner->kv_blocks()),
      prefix_cache_(&pool_),
      head_dim_(runner->config().head_dim) {
  spare_.push_back(std::make_unique<StepUnderWay>(role, runner->config().vocab_size));
}

void RoleWorker::set_pipelined(std::function<void(PipelineEvent)> tell) {
  pipeline_ = runner_->pipelined();
  tell_ = std::move(tell);
}

void RoleWorker::open(SequenceId sequence, const SequenceSpec& spec) {
  SequenceSpec own = spec;
  if (role_ == Role::kDraft) own.sampling.prompt_logprobs = -1;
  auto opened = std::make_unique<RoleSequence>(sequence, own, &pool_, &prefix_cache_, head_dim_);
  opened->arrival = ++openings_;
  sequences_.insert(sequence, std::move(opened));
}

void RoleWorker::give_turn(RoleSequence& sequence) {
  if (sequence.has_turn || sequence.closed || !sequence.may_run()) return;
  sequence.has_turn = true;
  ready_.push_back(&sequence);
}

void RoleWorker::submit(PendingItem&& item) {
  RoleSequence* const found = sequences_.find(item.item.sequence);
  if (found == nullptr) return;
  item.result.sequence = item.item.sequence;
  item.result.role = role_;
  item.result.tag = item.item.tag;
  if (!item.item.rows.empty() && found->follows != item.item.tells_entry) {
    count(*found, -1);
    found->follows = item.item.tells_entry;
    count(*found, 1);
  }
  const bool drops = is_pipelined() && !found->queue.empty() && !item.item.edits.empty();
  found->queue.push_back(std::move(item));
  if (drops) drop_rows(*found);
  give_turn(*found);
}

void RoleWorker::close(SequenceId sequence) {
  ++closings_;
  closed_since_out_of_memory_ = true;
  forget(sequence);
}

// A closed sequence's blocks return when the last Step that can touch them has retired.
void RoleWorker::forget(SequenceId sequence) {
  std::unique_ptr<RoleSequence> found = sequences_.take(sequence);
  if (found == nullptr) return;
  std::erase(ready_, found.get());
  std::erase(out_of_memory_, found.get());
  std::erase(late_, found.get());
  count(*found, -1);
  if (found->steps_under_way == 0) return;
  found->closed = true;
  closed_.push_back(std::move(found));
}

void RoleWorker::count(const RoleSequence& sequence, int32_t by) {
  if (!sequence.decodes) return;
  decoding_sequences_ += by;
  if (sequence.follows) following_sequences_ += by;
}

void RoleWorker::forget_closed(RoleSequence& sequence) {
  std::erase_if(closed_, [&](const auto& closed) { return closed.get() == &sequence; });
  closed_since_out_of_memory_ = true;
}

bool RoleWorker::decodes() const {
  return std::any_of(ready_.begin(), ready_.end(),
                     [](const RoleSequence* sequence) { return !sequence->reads_prompt(); });
}

KvUsage RoleWorker::usage() const {
  return {pool_.used_blocks(), pool_.total_blocks(), runner_->kv_block_bytes()};
}

std::string RoleWorker::describe(const RoleSequence& sequence) const {
  return std::string(role_name(role_)) + (sequence.id >= kFirstScratch
                                              ? ", while its Steps are measured"
                                              : ", sequence " + std::to_string(sequence.id));
}

void RoleWorker::finish(RoleSequence& sequence, PendingItem& item,
                        std::vector<FinishedItem>& finished) {
  if (!sequence.failed.ok()) {
    item.result.status = sequence.failed;
    item.result.rows.clear();
    item.result.accepted.clear();
    item.result.walked.clear();
    item.result.scores.clear();
    item.result.bonus = -1;
    item.distributions.clear();
  }
  if (!item.result.rows.empty() && !std::exchange(sequence.decodes, true)) count(sequence, 1);
  if (!item.dead_results.empty() && sequence.failed.ok()) {
    std::vector<RowResult>& rows = item.result.rows;
    for (size_t idx = item.dead_results.size(); idx-- > 0;) {
      rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(item.dead_results[idx]));
    }
    item.result.left_out = rows.empty();
  }
  if (item.item.rows.empty()) return;
  finished.push_back({item.opening, 0, std::move(item.result), std::move(item.distributions)});
}

void RoleWorker::finish_next(RoleSequence& sequence, std::vector<FinishedItem>& finished) {
  finish(sequence, sequence.queue.next(), finished);
  sequence.queue.pop_next();
}

// The result comes after those of items that are under way.
void RoleWorker::fail_next(RoleSequence& sequence, const Status& status,
                           std::vector<FinishedItem>& finished) {
  if (sequence.failed.ok()) sequence.failed = status.with_context(describe(sequence));
  if (sequence.steps_under_way == 0) finish_next(sequence, finished);
}

void RoleWorker::fail_all(RoleSequence& sequence, std::vector<FinishedItem>& finished) {
  while (sequence.queue.has_next()) finish_next(sequence, finished);
}

Status RoleWorker::apply_edits(RoleSequence& sequence, const std::vector<Edit>& edits) {
  for (const Edit& edit : edits) {
    if (edit.kind == Edit::Kind::kKeep) {
      FORERUN_RETURN_IF_ERROR(sequence.kv.keep(edit.nodes));
      continue;
    }
    for (NodeId node : edit.nodes) {
      const int32_t tree_idx = sequence.kv.find(node);
      if (tree_idx < 0) break;  // commit() reports it
      const SequenceKv::TreeRow& row = sequence.kv.tree_rows()[static_cast<size_t>(tree_idx)];
      if (row.sparse && role_ == Role::kTarget) {
        return Status(StatusCode::kInternal, "commit: node " + std::to_string(node) +
                                                 " was run through a view and not verified");
      }
      sequence.count_token(row.token, row.position);
    }
    FORERUN_RETURN_IF_ERROR(sequence.kv.commit(edit.nodes));
  }
  sequence.kv.take_moves(moves_);
  if (!moves_.empty()) {
    const StepSequence view{sequence.kv.block_table().data()};
    FORERUN_RETURN_IF_ERROR(guarded([&] { return runner_->move_kv(view, moves_); }));
  }
  // Blocks may be offered to other sequences once their KV has been written.
  if (sequence.steps_under_way == 0) sequence.kv.publish();
  sequence.kv.release_unused();
  return {};
}

std::unique_ptr<StepUnderWay> RoleWorker::compose_step(std::vector<FinishedItem>& finished,
                                                       int64_t held_up) {
  const int64_t start_ns = steady_ns();
  const int64_t start_cpu_ns = trace_ ? thread_cpu_ns() : 0;
  if (spare_.empty()) {
    spare_.push_back(std::make_unique<StepUnderWay>(role_, runner_->config().vocab_size));
  }
  std::unique_ptr<StepUnderWay> step = std::move(spare_.back());
  spare_.pop_back();
  step->clear();
  composed_ = step.get();
  blocks_in_work_.clear();
  compose(finished, held_up);
  composed_ = nullptr;
  if (step->builder.empty()) {
    spare_.push_back(std::move(step));
    return nullptr;
  }
  for (const StepUnderWay::Piece& piece : step->pieces) {
    ++piece.sequence->steps_under_way;
    piece.sequence->samples_under_way += piece.samples ? 1 : 0;
    if (piece.is_last) piece.sequence->queue.pass_next();
    if (piece.item->dead.empty()) continue;
    for (int32_t row = 0; row < piece.count; ++row) {
      if (!piece.item->dead[piece.first_item_row + static_cast<size_t>(row)]) continue;
      step->dead.push_back(piece.first_step_row + row);
    }
  }
  step->built = step->builder.finish();
  step->host_ns = steady_ns() - start_ns;
  if (trace_) step->host_cpu_ns = thread_cpu_ns() - start_cpu_ns;
  return step;
}

void RoleWorker::step(std::vector<FinishedItem>& finished, int64_t held_up,
                      const Meanwhile& meanwhile) {
  max_waiting_ = max_following_rows_ = std::numeric_limits<int32_t>::max();
  std::unique_ptr<StepUnderWay> step = compose_step(finished, held_up);
  if (step == nullptr) return;
  const StepBuilder::Built& built = step->built;
  const int64_t start_cpu_ns = trace_ ? thread_cpu_ns() : 0;
  step->start_ns = steady_ns();
  const Status status =
      guarded([&] { return runner_->run(*built.step, built.tasks, built.rejections, meanwhile); });
  step->end_ns = steady_ns();
  step->run_cpu_ns = trace_ ? thread_cpu_ns() - start_cpu_ns : 0;
  retire(std::move(step), status, finished);
}

bool RoleWorker::issue(std::vector<FinishedItem>& finished) {
  const int32_t stages = pipeline_->num_stages();
  const auto share = [stages](int32_t all) { return std::max(1, (all + stages - 1) / stages); };
  max_waiting_ = share(decoding_sequences_ - following_sequences_);
  max_following_rows_ = scheduler_.nearly_free_rows(share(following_sequences_));
  std::unique_ptr<StepUnderWay> step = compose_step(finished, /*held_up=*/0);
  if (step == nullptr) return false;
  const StepBuilder::Built& built = step->built;
  step->number = pipeline_->issue(*built.step, built.tasks, built.rejections, step->dead, &tell_);
  step->overlaps = !under_way_.empty();
  if (!under_way_.empty()) under_way_.back()->overlaps = true;
  for (const StepUnderWay::Piece& piece : step->pieces) give_turn(*piece.sequence);
  under_way_.push_back(std::move(step));
  return true;
}

void RoleWorker::handle(PipelineEvent&& event, std::vector<FinishedItem>& finished) {
  if (event.kind == PipelineEvent::Kind::kRetired) {
    std::unique_ptr<StepUnderWay> step = std::move(under_way_.front());
    under_way_.pop_front();
    --entered_;
    step->start_ns = event.start_ns;
    step->end_ns = event.end_ns;
    step->stages = std::move(event.stages);
    return retire(std::move(step), event.status, finished);
  }
  for (const StepUnderWay::Piece& piece : under_way_[entered_]->pieces) {
    if (!piece.is_last || !piece.item->item.tells_entry || piece.sequence->closed) continue;
    FinishedItem notice;
    notice.opening = piece.item->opening;
    notice.result.sequence = piece.sequence->id;
    notice.result.role = role_;
    notice.result.tag = piece.item->item.tag;
    notice.result.entered = true;
    finished.push_back(std::move(notice));
  }
  ++entered_;
}

void RoleWorker::retire(std::unique_ptr<StepUnderWay> step, const Status& status,
                        std::vector<FinishedItem>& finished) {
  const int64_t start_ns = steady_ns();
  const int64_t start_cpu_ns = trace_ ? thread_cpu_ns() : 0;
  const StepBuilder::Built& built = step->built;
  const double seconds = 1e-9 * static_cast<double>(step->end_ns - step->start_ns);
  const StepLoad load = step->builder.load();
  // Tasks and pieces are in the same order.
  size_t task = 0;
  size_t rejection = 0;
  for (const StepUnderWay::Piece& piece : step->pieces) {
    RoleSequence& sequence = *piece.sequence;
    PendingItem& item = *piece.item;
    item.result.step_seconds += seconds;
    item.result.step_sequences = static_cast<int32_t>(step->pieces.size());
    Status outcome = failure_of_step(status);
    const auto note = [&outcome](const Status& other) {
      if (outcome.ok() && !other.ok()) outcome = other;
    };
    const std::vector<RowResult>& results = item.result.rows;
    const auto is_of = [](const std::vector<RowResult>& list, const RowResult* result) {
      return !list.empty() && result >= list.data() && result < list.data() + list.size();
    };
    const auto owns = [&](const RowResult* result) {
      return is_of(results, result) || is_of(item.result.scores, result);
    };
    for (; task < built.tasks.size() && owns(built.tasks[task].result); ++task) {
      if (is_of(results, built.tasks[task].result) && is_fault_of_row(built.tasks[task].status)) {
        RowResult& faulty = *built.tasks[task].result;
        faulty.status = built.tasks[task].status.with_context(describe(sequence));
        faulty.token = -1;
        faulty.logprob = 0.0f;
        faulty.top.clear();
      } else {
        note(built.tasks[task].status);
      }
      const auto row = piece.first_item_row +
                       static_cast<size_t>(built.tasks[task].step_row - piece.first_step_row);
      if (item.dead.empty() || !item.dead[row] || !is_of(results, built.tasks[task].result)) {
        continue;
      }
      item.dead_results.push_back(static_cast<size_t>(built.tasks[task].result - results.data()));
    }
    for (;
         rejection < built.rejections.size() && built.rejections[rejection].result == &item.result;
         ++rejection) {
      const Status& walked = built.rejections[rejection].status;
      if (is_fault_of_row(walked)) {
        item.result.walk_status = walked.with_context(describe(sequence));
      } else {
        note(walked);
      }
    }
    --sequence.steps_under_way;
    sequence.samples_under_way -= piece.samples ? 1 : 0;
    if (sequence.closed) {
      if (sequence.steps_under_way == 0) forget_closed(sequence);
      continue;
    }
    if (!outcome.ok() && sequence.failed.ok()) {
      sequence.failed = outcome.with_context(describe(sequence));
    }
    if (piece.is_last) {
      finish(sequence, item, finished);
      sequence.queue.pop_oldest();
    }
    if (sequence.steps_under_way == 0) {
      if (sequence.failed.ok()) {
        sequence.kv.publish();
      } else {
        fail_all(sequence, finished);
      }
    }
    give_turn(sequence);
  }
  step->host_ns += steady_ns() - start_ns;
  if (trace_) step->host_cpu_ns += thread_cpu_ns() - start_cpu_ns;
  if (on_step_) report(*step, load);
  spare_.push_back(std::move(step));
}

void RoleWorker::report(const StepUnderWay& step, const StepLoad& load) {
  StepRecord record;
  record.role = role_;
  record.rows = load.rows;
  record.sequences = load.sequences;
  record.context_tokens = step.builder.context_tokens();
  record.kv_tokens = load.kv_tokens;
  record.attended_tokens = load.attended_tokens;
  record.seconds = 1e-9 * static_cast<double>(step.end_ns - step.start_ns);
  record.host_seconds = 1e-9 * static_cast<double>(step.host_ns);
  record.overlaps = step.overlaps;
  record.start_ns = step.start_ns;
  record.end_ns = step.end_ns;
  // Four readings of the clock lie within.
  if (trace_) {
    record.host_cpu_ns = std::max<int64_t>(step.host_cpu_ns - 2 * thread_cpu_read_ns(), 0);
  }
  record.items = step.items;
  record.stages = step.stages;
  on_step_(record);
}

}  // namespace forerun
