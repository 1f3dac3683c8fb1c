#include "hosts/step_tasks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "sampling/validate.h"
#include "wire/sampling_lists.h"

namespace forerun {

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<TokenCount> auto& count) {
  visit("token", count.token);
  visit("output_count", count.output_count);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<DraftDistribution> auto& distribution) {
  visit("weights", distribution.weights);
  visit("total", distribution.total);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<Candidate> auto& candidate) {
  visit("token", candidate.token);
  visit("logprob", candidate.logprob);
}

namespace {

// Objects of one kind that several rows point to, each written once; rows have their indices.
template <class T>
class Written {
 public:
  // Returns the object's index; -1 for null.
  int32_t add(const T* thing) {
    if (thing == nullptr) return -1;
    const auto found = std::find(things_.begin(), things_.end(), thing);
    if (found != things_.end()) return static_cast<int32_t>(found - things_.begin());
    things_.push_back(thing);
    return static_cast<int32_t>(things_.size()) - 1;
  }
  auto begin() const { return things_.begin(); }
  auto end() const { return things_.end(); }
  size_t size() const { return things_.size(); }

 private:
  std::vector<const T*> things_;
};

// The writer's counterpart of SharedThings.
struct WrittenThings {
  Written<SamplingParams> params;
  Written<TokenCounts> histories;
  Written<DraftDistribution> drafts;

  void add(const RowContext& context) {
    params.add(context.params);
    if (needs_history(*context.params)) histories.add(context.history);
  }
};

template <class T>
void visit_thing(WireWriter& visit, const T* thing) {
  visit_fields(visit, *thing);
}

template <class T>
void visit_thing(WireReader& visit, T& thing) {
  visit_fields(visit, thing);
}

void visit_thing(WireWriter& visit, const TokenCounts* history) {
  visit("entries", history->entries());
}

void visit_thing(WireReader& visit, TokenCounts& history) {
  for (const TokenCount& entry : visit.get<std::vector<TokenCount>>("entries")) {
    history.restore(entry);
  }
}

// Visits a pointer to one of the objects as its index.
template <class T>
void visit_pointer(WireWriter& visit, const char* name, const T* thing, Written<T>& things) {
  visit(name, things.add(thing));
}

template <class T>
void visit_pointer(WireReader& visit, const char* name, const T*& thing, std::vector<T>& things) {
  const auto idx = visit.get<int32_t>(name);
  if (idx < -1 || idx >= static_cast<int64_t>(things.size())) {
    return visit.fail(name, "found " + std::to_string(idx) + "; accepted: -1 to " +
                                std::to_string(static_cast<int64_t>(things.size()) - 1));
  }
  thing = idx < 0 ? nullptr : &things[static_cast<size_t>(idx)];
}

void visit_path(WireWriter& visit, std::span<const TokenId> path, const WrittenThings& /*things*/) {
  visit("path", path);
}

void visit_path(WireReader& visit, std::span<const TokenId>& path, SharedThings& things) {
  visit("path", things.paths.emplace_back());
  path = things.paths.back();
}

// History and path are sent only if the parameters depend on them.
template <class Visitor, class Things>
void visit_context(Visitor& visit, MaybeConst<RowContext> auto& context, Things& things) {
  visit_pointer(visit, "parameters", context.params, things.params);
  if (context.params == nullptr) return visit.fail("parameters", "found none");
  visit("position", context.position);
  visit("prompt_tokens", context.prompt_tokens);
  if (!needs_history(*context.params)) return;
  visit_pointer(visit, "history", context.history, things.histories);
  if (context.history == nullptr) return visit.fail("history", "found none");
  visit_path(visit, context.path, things);
}

template <class Visitor, class Things>
void visit_task(Visitor& visit, MaybeConst<RowTask> auto& task, Things& things) {
  visit.choice("want", task.want, Want::kScore);
  visit("candidates wanted", task.count);
  visit("token to score", task.token);
  visit("shared noise", task.shared_noise);
  visit("row", task.step_row);
  visit_context(visit, task.context, things);
}

template <class Visitor, class Things>
void visit_row(Visitor& visit, MaybeConst<RejectionRow> auto& row, Things& things) {
  visit("node", row.node);
  visit("token", row.token);
  visit("parent", row.parent_idx);
  visit("row of logits", row.logits_row);
  visit_pointer(visit, "draft distribution", row.draft, things.drafts);
  visit_context(visit, row.context, things);
}

// Visits all data that is sent of a Step's tasks. `tasks` and `rejections` are lists, the latter of
// lists of rows.
template <class Visitor, class Things, class Tasks, class Rejections>
void visit_tasks(Visitor& visit, Things& things, Tasks& tasks, Rejections& rejections) {
  const auto visit_one = [&](auto& thing) { visit_thing(visit, thing); };
  visit.list("parameters", things.params, visit_one);
  visit.list("histories", things.histories, visit_one);
  visit.list("draft distributions", things.drafts, visit_one);
  visit.list("tasks", tasks, [&](auto& task) { visit_task(visit, task, things); });
  visit.list("rejections", rejections, [&](auto& rows) {
    visit.list("rows", rows, [&](auto& row) { visit_row(visit, row, things); });
    if (rows.empty()) visit.fail("rows", "found 0; accepted: at least 1");
  });
}

// Visits the part of a row's result about the next token.
template <class Visitor>
void visit_result(Visitor& visit, MaybeConst<RowResult> auto& result) {
  visit("token", result.token);
  visit("logprob", result.logprob);
  visit("candidates", result.top);
}

// Visits a number that both sides know.
template <class Visitor, class T>
bool visit_known(Visitor& visit, const char* name, T known) {
  T found = known;
  visit(name, found);
  if (found != known) {
    visit.fail(name, "found " + std::to_string(found) + "; accepted: " + std::to_string(known));
  }
  return visit.ok();
}

template <class Visitor>
void visit_answer(Visitor& visit, MaybeConst<RowTask> auto& task) {
  visit("skipped", task.skipped);
  visit("status", task.status);
  visit_result(visit, *task.result);
  const bool is_drawn = task.distribution != nullptr;
  if (!visit_known(visit, "distributions", is_drawn)) return;
  if (is_drawn) visit("distribution", *task.distribution);
}

template <class Visitor>
void visit_answer(Visitor& visit, MaybeConst<RejectionTask> auto& task) {
  visit("status", task.status);
  visit("accepted nodes", task.result->accepted);
  visit("bonus", task.result->bonus);
  visit.list("walked", task.result->walked, [&](auto& walked) {
    visit("position", walked.position);
    visit_result(visit, walked);
  });
}

template <class Visitor, class Row, class Rejection>
void visit_answers(Visitor& visit, std::span<Row> tasks, std::span<Rejection> rejections) {
  if (!visit_known(visit, "answers", uint64_t{tasks.size()})) return;
  for (Row& task : tasks) visit_answer(visit, task);
  if (!visit_known(visit, "verifications", uint64_t{rejections.size()})) return;
  for (Rejection& task : rejections) visit_answer(visit, task);
}

Status out_of_range(const char* what, int64_t found, int64_t first, int64_t last) {
  return Status(StatusCode::kInvalidArgument,
                std::string("tasks: ") + what + " " + std::to_string(found) +
                    "; accepted: " + std::to_string(first) + " to " + std::to_string(last));
}

Status check_tokens(std::span<const TokenId> tokens, int32_t live_vocab) {
  for (const TokenId token : tokens) {
    if (token < 0 || token >= live_vocab) return out_of_range("token", token, 0, live_vocab - 1);
  }
  return {};
}

Status check_context(const RowContext& context) {
  if (context.position < 0) return out_of_range("position", context.position, 0, INT32_MAX);
  if (context.prompt_tokens >= 0) return {};
  return out_of_range("tokens of a prompt", context.prompt_tokens, 0, INT32_MAX);
}

}  // namespace

void write_tasks(std::span<const RowTask> tasks, std::span<const RejectionTask> rejections,
                 WireWriter& to) {
  WrittenThings things;
  for (const RowTask& task : tasks) things.add(task.context);
  std::vector<std::span<const RejectionRow>> rows_of;
  for (const RejectionTask& task : rejections) {
    rows_of.push_back(task.rows);
    for (const RejectionRow& row : task.rows) {
      things.add(row.context);
      things.drafts.add(row.draft);
    }
  }
  visit_tasks(to, things, tasks, rows_of);
}

void StepTasks::read(WireReader& from) {
  *this = StepTasks();
  visit_tasks(from, shared_, tasks_, rejection_rows_);
  if (!from.ok()) {
    *this = StepTasks();
    return;
  }
  results_.resize(tasks_.size());
  distributions_.resize(tasks_.size());
  for (size_t idx = 0; idx < tasks_.size(); ++idx) {
    tasks_[idx].result = &results_[idx];
    if (tasks_[idx].want == Want::kDraw) tasks_[idx].distribution = &distributions_[idx];
  }
  rejection_results_.resize(rejection_rows_.size());
  rejections_.resize(rejection_rows_.size());
  for (size_t idx = 0; idx < rejections_.size(); ++idx) {
    rejections_[idx].rows = rejection_rows_[idx];
    rejections_[idx].result = &rejection_results_[idx];
  }
}

Status StepTasks::check(int32_t live_vocab) const {
  for (const SamplingParams& params : shared_.params) {
    FORERUN_RETURN_IF_ERROR(validate_sampling_params(params, live_vocab));
    FORERUN_RETURN_IF_ERROR(check_tokens(params.end_tokens, live_vocab));
    if (!std::is_sorted(params.end_tokens.begin(), params.end_tokens.end())) {
      return Status(StatusCode::kInvalidArgument,
                    "tasks: found end tokens out of order; accepted: ascending order");
    }
  }
  for (const TokenCounts& history : shared_.histories) {
    for (const TokenCounts::Entry& entry : history.entries()) {
      FORERUN_RETURN_IF_ERROR(check_tokens({&entry.token, 1}, live_vocab));
    }
  }
  for (const std::vector<TokenId>& path : shared_.paths) {
    FORERUN_RETURN_IF_ERROR(check_tokens(path, live_vocab));
  }
  for (const RowTask& task : tasks_) {
    if (task.count < 0 || task.count > live_vocab) {
      return out_of_range("candidates wanted", task.count, 0, live_vocab);
    }
    FORERUN_RETURN_IF_ERROR(check_context(task.context));
    if (task.want != Want::kScore) continue;
    FORERUN_RETURN_IF_ERROR(check_tokens({&task.token, 1}, live_vocab));
  }
  for (const std::vector<RejectionRow>& rows : rejection_rows_) {
    for (const RejectionRow& row : rows) FORERUN_RETURN_IF_ERROR(check_context(row.context));
  }
  return {};
}

Status StepTasks::check_rows(const StageMessage& message) const {
  if (rejections_.empty()) return {};
  const auto logits_rows = std::count_if(message.rows.begin(), message.rows.end(),
                                         [](const StepRow& row) { return row.wants_logits; });
  for (const std::vector<RejectionRow>& rows : rejection_rows_) {
    for (const RejectionRow& row : rows) {
      if (row.logits_row < 0 || row.logits_row >= logits_rows) {
        return out_of_range("row of logits", row.logits_row, 0, logits_rows - 1);
      }
    }
  }
  if (message.whole) return {};
  return Status(StatusCode::kInvalidArgument,
                "tasks: found a verification by rejection beside rows that may be dropped; "
                "accepted: rows that are all kept");
}

void write_answers(std::span<const RowTask> tasks, std::span<const RejectionTask> rejections,
                   WireWriter& to) {
  visit_answers(to, tasks, rejections);
}

Status read_answers(WireReader& from, std::span<RowTask> tasks,
                    std::span<RejectionTask> rejections) {
  visit_answers(from, tasks, rejections);
  return from.finish();
}

}  // namespace forerun
