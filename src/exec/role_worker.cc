#include "exec/role_worker.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/clocks.h"
#include "exec/guarded.h"

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
      head_dim_(runner->config().head_dim),
      builder_(role, runner->config().vocab_size) {}

void RoleWorker::open(SequenceId sequence, const SequenceSpec& spec) {
  auto opened = std::make_unique<RoleSequence>(sequence, spec, &pool_, &prefix_cache_, head_dim_);
  opened->arrival = ++openings_;
  sequences_.insert(sequence, std::move(opened));
}

void RoleWorker::submit(PendingItem&& item) {
  RoleSequence* const found = sequences_.find(item.item.sequence);
  if (found == nullptr) return;
  item.result.sequence = item.item.sequence;
  item.result.role = role_;
  item.result.tag = item.item.tag;
  RoleSequence& sequence = *found;
  sequence.queue.push_back(std::move(item));
  if (sequence.queue.size() == 1) ready_.push_back(&sequence);
}

void RoleWorker::close(SequenceId sequence) {
  ++closings_;
  closed_since_out_of_memory_ = true;
  forget(sequence);
}

void RoleWorker::forget(SequenceId sequence) {
  RoleSequence* const found = sequences_.find(sequence);
  if (found == nullptr) return;
  std::erase(ready_, found);
  std::erase(out_of_memory_, found);
  if (found->decodes) --decoding_sequences_;
  sequences_.take(sequence);
}

bool RoleWorker::decodes() const {
  return std::any_of(ready_.begin(), ready_.end(),
                     [](const RoleSequence* sequence) { return !sequence->reads_prompt(); });
}

KvUsage RoleWorker::usage() const {
  return {pool_.used_blocks(), pool_.total_blocks(), runner_->kv_block_bytes()};
}

std::string RoleWorker::describe(const RoleSequence& sequence) const {
  return std::string(role_name(role_)) + ", sequence " + std::to_string(sequence.id);
}

void RoleWorker::finish_front(RoleSequence& sequence, std::vector<FinishedItem>& finished) {
  PendingItem& item = sequence.queue.front();
  if (!item.result.rows.empty() && !std::exchange(sequence.decodes, true)) ++decoding_sequences_;
  if (!item.item.rows.empty()) {
    finished.push_back({item.opening, 0, std::move(item.result), std::move(item.distributions)});
  }
  sequence.queue.pop_front();
}

void RoleWorker::fail_front(RoleSequence& sequence, const Status& status,
                            std::vector<FinishedItem>& finished) {
  if (sequence.failed.ok()) sequence.failed = status.with_context(describe(sequence));
  PendingItem& item = sequence.queue.front();
  item.result.status = sequence.failed;
  item.result.rows.clear();
  item.result.accepted.clear();
  item.result.walked.clear();
  item.result.bonus = -1;
  item.distributions.clear();
  finish_front(sequence, finished);
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
  sequence.kv.publish();
  sequence.kv.release_unused();
  return {};
}

void RoleWorker::step(std::vector<FinishedItem>& finished, int64_t held_up,
                      const Meanwhile& meanwhile) {
  const int64_t start_ns = steady_ns();
  const int64_t start_cpu_ns = trace_ ? thread_cpu_ns() : 0;
  builder_.clear();
  pieces_.clear();
  items_.clear();
  blocks_in_work_.clear();
  compose(finished, held_up);
  if (builder_.empty()) return;
  const StepLoad load = builder_.load();
  const int32_t context_tokens = builder_.context_tokens();
  run_step(finished, meanwhile);
  if (!on_step_) return;
  StepRecord record;
  record.role = role_;
  record.rows = load.rows;
  record.sequences = load.sequences;
  record.context_tokens = context_tokens;
  record.kv_tokens = load.kv_tokens;
  record.attended_tokens = load.attended_tokens;
  record.seconds = 1e-9 * static_cast<double>(run_end_ns_ - run_start_ns_);
  record.host_seconds = 1e-9 * static_cast<double>(steady_ns() - start_ns) - record.seconds;
  record.start_ns = run_start_ns_;
  record.end_ns = run_end_ns_;
  if (trace_) {
    // Two readings of the clock lie outside of the run.
    const int64_t cpu_ns = thread_cpu_ns() - start_cpu_ns - run_cpu_ns_;
    record.host_cpu_ns = std::max<int64_t>(cpu_ns - 2 * thread_cpu_read_ns(), 0);
  }
  record.items = items_;
  on_step_(record);
}

void RoleWorker::run_step(std::vector<FinishedItem>& finished, const Meanwhile& meanwhile) {
  const StepBuilder::Built built = builder_.finish();
  const int64_t start_cpu_ns = trace_ ? thread_cpu_ns() : 0;
  run_start_ns_ = steady_ns();
  const Status status =
      guarded([&] { return runner_->run(*built.step, built.tasks, built.rejections, meanwhile); });
  run_end_ns_ = steady_ns();
  run_cpu_ns_ = trace_ ? thread_cpu_ns() - start_cpu_ns : 0;
  // Tasks and pieces are in the same order.
  size_t task = 0;
  size_t rejection = 0;
  for (RoleSequence* sequence : pieces_) {
    PendingItem& item = sequence->queue.front();
    item.result.step_seconds += 1e-9 * static_cast<double>(run_end_ns_ - run_start_ns_);
    item.result.step_sequences = static_cast<int32_t>(pieces_.size());
    Status outcome = status;
    const auto note = [&outcome](const Status& other) {
      if (outcome.ok() && !other.ok()) outcome = other;
    };
    const std::vector<RowResult>& results = item.result.rows;
    const auto owns = [&results](const RowResult* result) {
      return !results.empty() && result >= results.data() &&
             result < results.data() + results.size();
    };
    for (; task < built.tasks.size() && owns(built.tasks[task].result); ++task) {
      note(built.tasks[task].status);
    }
    for (;
         rejection < built.rejections.size() && built.rejections[rejection].result == &item.result;
         ++rejection) {
      note(built.rejections[rejection].status);
    }
    if (outcome.ok()) sequence->kv.publish();
    if (!outcome.ok()) {
      fail_front(*sequence, outcome, finished);
    } else if (item.rows_done == item.item.rows.size()) {
      finish_front(*sequence, finished);
    }
    if (!sequence->queue.empty()) ready_.push_back(sequence);
  }
}

}  // namespace forerun
