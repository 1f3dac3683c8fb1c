#include "exec/decoder_step_runner.h"

#include <algorithm>

#include "base/status_macros.h"

namespace forerun {
namespace {

// Logits that refuse to fetch rows, and remember a request to do so.
class SummariesOnly : public DeviceLogits {
 public:
  explicit SummariesOnly(const DeviceLogits* all) : all_(all) {}
  const LogitsSummary* summary(int32_t logits_row) const override {
    return all_->summary(logits_row);
  }
  const RowQuery& query(int32_t logits_row) const override { return all_->query(logits_row); }
  Status fetch(int32_t /*logits_row*/) override {
    refused_ = true;
    return {StatusCode::kInternal, "the row is not to be fetched"};
  }
  bool refused() const { return refused_; }

 private:
  const DeviceLogits* all_;
  bool refused_ = false;
};

// Returns whether the task is to be performed: neither dropped nor failed from the start.
bool is_due(const RowTask& task) { return !task.skipped && task.status.ok(); }

}  // namespace

DecoderStepRunner::DecoderStepRunner(Decoder* decoder, CpuDeviceGroup* devices, int32_t live_vocab)
    : decoder_(decoder),
      devices_(devices),
      live_vocab_(std::min(live_vocab, decoder->config().vocab_size)) {
  for (int32_t rank = 0; rank < devices->degree(); ++rank) {
    workers_.emplace_back(static_cast<size_t>(devices->team_size(rank)));
  }
}

void DecoderStepRunner::perform(size_t index, std::span<RowTask> tasks,
                                std::span<RejectionTask> rejections, Collectives* peers,
                                Worker& worker, DeviceLogits* on_device) {
  const int32_t rank = peers == nullptr ? 0 : peers->rank();
  StepLogits logits{decoder_->logits(rank), live_vocab_, peers};
  if (on_device != nullptr) logits.part.on_device = on_device;
  const bool returned = rank == 0;
  if (index < tasks.size()) {
    RowTask& task = tasks[index];
    if (!returned) worker.row_result.top.clear();
    const Status status =
        perform_task(logits, worker.scratch, task, returned ? *task.result : worker.row_result);
    if (returned) task.status = status;
    return;
  }
  RejectionTask& task = rejections[index - tasks.size()];
  if (!returned) {
    worker.result.accepted.clear();
    worker.result.walked.clear();
  }
  const Status status = perform_rejection(logits, worker.scratch, worker.children, task.rows,
                                          returned ? *task.result : worker.result);
  if (returned) task.status = status;
}

void DecoderStepRunner::ask_row(const RowContext& context, const RowQuery& query,
                                int32_t logits_row) {
  RowQuery& asked = queries_[static_cast<size_t>(logits_row)];
  asked = query;
  if (query.kinds == RowQuery::kLogits || !is_adjusted(context)) return;
  asked.edits = edits_.add(context);
  if (!edits_.fits_devices(asked.edits)) asked.kinds = RowQuery::kLogits;
}

void DecoderStepRunner::ask(const Step& step, std::span<const RowTask> tasks,
                            std::span<const RejectionTask> rejections) {
  const auto wanted = std::count_if(step.rows.begin(), step.rows.end(),
                                    [](const StepRow& row) { return row.wants_logits; });
  const RowQuery best_token{.kinds = 0, .vocab = live_vocab_};
  queries_.assign(static_cast<size_t>(wanted), best_token);
  edits_.clear();
  if (!decoder_->makes_summaries()) return;
  for (const RowTask& task : tasks) {
    if (!is_due(task)) continue;
    ask_row(task.context, query_of(task, live_vocab_), task.logits_row);
  }
  for (const RejectionTask& task : rejections) {
    for (const RejectionRow& row : task.rows) {
      // Rule `rejection` subtracts whole distributions, and log-probabilities need all tokens; a
      // greedy row without log-probabilities only needs the best token.
      const SamplingParams& params = *row.context.params;
      const bool is_brief = is_greedy(params) && params.logprobs < 0;
      ask_row(row.context, is_brief ? best_token : RowQuery{.vocab = live_vocab_}, row.logits_row);
    }
  }
}

bool DecoderStepRunner::is_brief(std::span<const RowTask> tasks, size_t num_rejections) const {
  // Threads that have slept while a GPU worked take a quarter of a millisecond to wake. Sampling
  // from a summary of few tokens takes a microsecond; lists and sums take up to twelve.
  constexpr int kWakingUs = 280;
  constexpr int kDrawUs = 1;
  constexpr int kListUs = 12;
  const DeviceLogits* const on_device = decoder_->logits(0).on_device;
  int summarized_us = 0;
  size_t whole_rows = num_rejections;
  for (const RowTask& task : tasks) {
    if (task.skipped) continue;
    if (on_device == nullptr || on_device->summary(task.logits_row) == nullptr) {
      ++whole_rows;
    } else {
      const RowQuery& query = on_device->query(task.logits_row);
      const bool sums = (query.kinds & (RowQuery::kWeights | RowQuery::kRawWeights)) != 0;
      summarized_us += sums || query.top > 0 ? kListUs : kDrawUs;
    }
  }
  return summarized_us <= kWakingUs && whole_rows <= 1;
}

void DecoderStepRunner::perform_summarized(std::span<RowTask> tasks, size_t num_rejections) {
  DeviceLogits* const on_device = decoder_->logits(0).on_device;
  remaining_.clear();
  for (size_t index = 0; index < tasks.size() + num_rejections; ++index) {
    if (index < tasks.size() && !is_due(tasks[index])) continue;
    const bool summarized = on_device != nullptr && index < tasks.size() &&
                            on_device->summary(tasks[index].logits_row) != nullptr;
    if (summarized) {
      SummariesOnly summaries(on_device);
      perform(index, tasks, {}, nullptr, workers_[0][0], &summaries);
      if (!summaries.refused()) continue;
      tasks[index].status = {};
      tasks[index].result->top.clear();
    }
    remaining_.push_back(index);
  }
}

Status DecoderStepRunner::run(const Step& step, std::span<RowTask> tasks,
                              std::span<RejectionTask> rejections, const Meanwhile& meanwhile) {
  ask(step, tasks, rejections);
  FORERUN_RETURN_IF_ERROR(decoder_->forward_summarized(step, queries_, edits_, meanwhile));
  const size_t count = tasks.size() + rejections.size();
  const bool alone = devices_->degree() == 1;
  if (alone && is_brief(tasks, rejections.size())) {
    perform_summarized(tasks, rejections.size());
    if (remaining_.size() == 1) {
      perform(remaining_[0], tasks, rejections, nullptr, workers_[0][0]);
      return {};
    }
  } else {
    // Selects the tasks before the devices run, since rank 0 then writes statuses.
    remaining_.clear();
    for (size_t index = 0; index < count; ++index) {
      if (index >= tasks.size() || is_due(tasks[index])) remaining_.push_back(index);
    }
  }
  if (remaining_.empty()) return {};
  const auto columns = static_cast<size_t>(devices_->smallest_team());
  return devices_->run([&](const GroupMember& member) {
    const auto rank = static_cast<size_t>(member.team.rank());
    Worker& worker = workers_[static_cast<size_t>(member.peers.rank())][rank];
    // Members with the same rank in their teams, one per device, take the same rows.
    for (size_t place = rank; rank < columns && place < remaining_.size(); place += columns) {
      perform(remaining_[place], tasks, rejections, alone ? nullptr : &member.peers, worker);
    }
  });
}

int32_t common_live_vocab(const ModelConfig& target, const ModelConfig* draft) {
  const int32_t vocab = target.live_vocab_size.value_or(target.vocab_size);
  if (draft == nullptr) return vocab;
  return std::min(vocab, draft->live_vocab_size.value_or(draft->vocab_size));
}

}  // namespace forerun
