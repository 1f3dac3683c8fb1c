#include "simulation/recording_runner.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/status_macros.h"

namespace forerun {

RecordingRunner::RecordingRunner(std::unique_ptr<StepRunner> runner)
    : ForwardingRunner(std::move(runner)), histories_(kv_blocks()) {}

Status RecordingRunner::run(const Step& step, std::span<RowTask> tasks,
                            std::span<RejectionTask> rejections, const Meanwhile& meanwhile) {
  FORERUN_RETURN_IF_ERROR(inner().run(step, tasks, rejections, meanwhile));
  std::vector<Heard> wanted;  // by logits row
  for (const StepRow& row : step.rows) {
    const uint64_t before = histories_.before(step, row);
    const uint64_t history = histories_.append(step, row);
    if (row.wants_logits) {
      wanted.push_back({.before = before, .history = history, .token = row.token, .guesses = {}});
    }
  }
  for (const RowTask& task : tasks) {
    Heard& heard = wanted[static_cast<size_t>(task.logits_row)];
    if (task.want != Want::kTopK || !task.status.ok() || !known_.insert(heard.history).second) {
      continue;
    }
    heard.guesses = task.result->top;
    heard_.push_back(std::move(heard));
  }
  return {};
}

Status RecordingRunner::move_kv(const StepSequence& sequence, std::span<const KvMove> moves) {
  histories_.move(sequence, moves);
  return inner().move_kv(sequence, moves);
}

void RecordingRunner::take_branches(int32_t count, RecordedText& text) {
  // Maps the hash of a history to a RecordedBranch::parent: negative in the text, the index of a
  // branch otherwise.
  std::unordered_map<uint64_t, int32_t> parents;
  uint64_t history = 0;
  for (size_t position = 0; position + 1 < text.tokens.size(); ++position) {
    history = mix_hash(history, static_cast<uint64_t>(text.tokens[position]));
    const int32_t output = static_cast<int32_t>(position) + 1 - text.prompt_tokens;
    if (output >= 0) parents[history] = -1 - output;
  }
  for (Heard& heard : heard_) {
    const auto parent = parents.find(heard.before);
    if (parent == parents.end() || parents.contains(heard.history)) continue;
    parents[heard.history] = static_cast<int32_t>(text.branches.size());
    const size_t kept = std::min(heard.guesses.size(), static_cast<size_t>(std::max(count, 0)));
    heard.guesses.resize(kept);
    text.branches.push_back({parent->second, heard.token, std::move(heard.guesses)});
  }
  heard_.clear();
  known_.clear();
}

}  // namespace forerun
