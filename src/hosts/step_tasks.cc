#include "hosts/step_tasks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "forerun/sampling_fields.h"
#include "hosts/status_bytes.h"
#include "sampling/validate.h"

namespace forerun {
namespace {

// Things that several rows point to, each written once; rows say which.
template <class T>
class Shared {
 public:
  // -1: none.
  int32_t add(const T* thing) {
    if (thing == nullptr) return -1;
    const auto found = std::find(things_.begin(), things_.end(), thing);
    if (found != things_.end()) return static_cast<int32_t>(found - things_.begin());
    things_.push_back(thing);
    return static_cast<int32_t>(things_.size()) - 1;
  }
  const std::vector<const T*>& things() const { return things_; }

 private:
  std::vector<const T*> things_;
};

struct SharedThings {
  Shared<SamplingParams> params;
  Shared<TokenCounts> histories;
  Shared<DraftDistribution> drafts;

  void add(const RowContext& context) {
    params.add(context.params);
    if (needs_history(*context.params)) histories.add(context.history);
  }
};

void write_params(const SamplingParams& params, ByteWriter& to) {
  for_each_sampling_field([&](const auto& field) { to.number(params.*field.param); });
  to.number(params.seed);
  to.number(params.logprobs);
  to.number(params.min_tokens);
  to.list(std::span<const TokenId>(params.end_tokens));
  to.count(params.logit_bias.size());
  for (const auto& [token, bias] : params.logit_bias) {
    to.number(token);
    to.number(bias);
  }
}

void read_params(ByteReader& from, SamplingParams& params) {
  for_each_sampling_field([&]<class T>(const SamplingField<T>& field) {
    params.*field.param = from.number<T>(field.name);
  });
  params.seed = from.number<uint64_t>("seed");
  params.logprobs = from.number<int32_t>("logprobs");
  params.min_tokens = from.number<int32_t>("min_tokens");
  from.list("end tokens", params.end_tokens);
  params.logit_bias.resize(from.count("logit bias", 8));
  for (auto& [token, bias] : params.logit_bias) {
    token = from.number<int32_t>("logit bias");
    bias = from.number<float>("logit bias");
  }
}

void write_distribution(const DraftDistribution& distribution, ByteWriter& to) {
  to.list(distribution.weights);
  to.number(distribution.total);
}

void read_distribution(ByteReader& from, DraftDistribution& distribution) {
  from.list("draft distribution", distribution.weights);
  distribution.total = from.number<uint64_t>("draft distribution");
}

void write_context(const RowContext& context, SharedThings& shared, ByteWriter& to) {
  const bool has_history = needs_history(*context.params);
  to.number(shared.params.add(context.params));
  to.number(has_history ? shared.histories.add(context.history) : -1);
  to.number(context.position);
  to.number(context.prompt_tokens);
  to.list(has_history ? context.path : std::span<const TokenId>());
}

void write_candidates(const std::vector<Candidate>& candidates, ByteWriter& to) {
  to.count(candidates.size());
  for (const Candidate& candidate : candidates) {
    to.number(candidate.token);
    to.number(candidate.logprob);
  }
}

void read_candidates(ByteReader& from, std::vector<Candidate>& candidates) {
  candidates.resize(from.count("candidates", 8));
  for (Candidate& candidate : candidates) {
    candidate.token = from.number<TokenId>("candidate");
    candidate.logprob = from.number<float>("candidate");
  }
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
                 ByteWriter& to) {
  SharedThings shared;
  for (const RowTask& task : tasks) shared.add(task.context);
  for (const RejectionTask& task : rejections) {
    for (const RejectionRow& row : task.rows) {
      shared.add(row.context);
      shared.drafts.add(row.draft);
    }
  }
  to.count(shared.params.things().size());
  for (const SamplingParams* params : shared.params.things()) write_params(*params, to);
  to.count(shared.histories.things().size());
  for (const TokenCounts* counts : shared.histories.things()) {
    to.count(counts->entries().size());
    for (const TokenCounts::Entry& entry : counts->entries()) {
      to.number(entry.token);
      to.number(entry.output_count);
    }
  }
  to.count(shared.drafts.things().size());
  for (const DraftDistribution* draft : shared.drafts.things()) write_distribution(*draft, to);
  to.count(tasks.size());
  for (const RowTask& task : tasks) {
    to.number(static_cast<uint8_t>(task.want));
    to.number(task.count);
    to.number(task.token);
    to.flag(task.shared_noise);
    to.number(task.step_row);
    write_context(task.context, shared, to);
  }
  to.count(rejections.size());
  for (const RejectionTask& task : rejections) {
    to.count(task.rows.size());
    for (const RejectionRow& row : task.rows) {
      to.number(row.node);
      to.number(row.token);
      to.number(row.parent_idx);
      to.number(row.logits_row);
      to.number(shared.drafts.add(row.draft));
      write_context(row.context, shared, to);
    }
  }
}

RowContext StepTasks::read_context(ByteReader& from) {
  RowContext context;
  const auto params = from.number<int32_t>("parameters of a row");
  if (params < 0 || static_cast<size_t>(params) >= params_.size()) {
    from.fail("parameters of a row",
              "found " + std::to_string(params) + " of " + std::to_string(params_.size()));
    return context;
  }
  context.params = &params_[static_cast<size_t>(params)];
  const auto history = from.number<int32_t>("history of a row");
  if (history < -1 || history >= static_cast<int32_t>(histories_.size()) ||
      (history < 0 && needs_history(*context.params))) {
    from.fail("history of a row",
              "found " + std::to_string(history) + " of " + std::to_string(histories_.size()));
    return context;
  }
  if (history >= 0) context.history = &histories_[static_cast<size_t>(history)];
  context.position = from.number<int32_t>("position of a row");
  context.prompt_tokens = from.number<int32_t>("prompt of a row");
  from.list("path of a row", paths_.emplace_back());
  context.path = paths_.back();
  return context;
}

void StepTasks::read_tasks(ByteReader& from) {
  constexpr size_t kTaskBytes = 38;
  tasks_.resize(from.count("tasks", kTaskBytes));
  results_.assign(tasks_.size(), {});
  distributions_.assign(tasks_.size(), {});
  for (size_t idx = 0; idx < tasks_.size(); ++idx) {
    RowTask& task = tasks_[idx];
    const auto want = from.number<uint8_t>("want");
    if (want > static_cast<uint8_t>(Want::kScore)) {
      from.fail("want", "found " + std::to_string(want) + "; accepted: 0 to 4");
    }
    if (!from.status().ok()) return;
    task.want = static_cast<Want>(want);
    task.count = from.number<int32_t>("candidates wanted");
    task.token = from.number<TokenId>("token to score");
    task.shared_noise = from.flag("shared noise");
    task.step_row = from.number<int32_t>("row of a task");
    task.context = read_context(from);
    task.result = &results_[idx];
    if (task.want == Want::kDraw) task.distribution = &distributions_[idx];
  }
}

void StepTasks::read_rejections(ByteReader& from) {
  constexpr size_t kRejectionRowBytes = 44;
  rejection_rows_.resize(from.count("rejections", 8));
  rejection_results_.assign(rejection_rows_.size(), {});
  for (std::vector<RejectionRow>& rows : rejection_rows_) {
    rows.resize(from.count("rows of a rejection", kRejectionRowBytes));
    if (rows.empty()) from.fail("rows of a rejection", "found 0; accepted: at least 1");
    for (RejectionRow& row : rows) {
      row.node = from.number<NodeId>("node");
      row.token = from.number<TokenId>("token");
      row.parent_idx = from.number<int32_t>("parent");
      row.logits_row = from.number<int32_t>("row of logits");
      const auto draft = from.number<int32_t>("draft distribution of a row");
      if (draft < -1 || draft >= static_cast<int32_t>(drafts_.size())) {
        from.fail("draft distribution of a row",
                  "found " + std::to_string(draft) + " of " + std::to_string(drafts_.size()));
      }
      if (!from.status().ok()) return;
      row.draft = draft < 0 ? nullptr : &drafts_[static_cast<size_t>(draft)];
      row.context = read_context(from);
      if (!from.status().ok()) return;
    }
  }
  for (size_t idx = 0; idx < rejection_rows_.size(); ++idx) {
    RejectionTask& task = rejections_.emplace_back();
    task.rows = rejection_rows_[idx];
    task.result = &rejection_results_[idx];
  }
}

void StepTasks::read(ByteReader& from) {
  tasks_.clear();
  rejections_.clear();
  paths_.clear();
  constexpr size_t kParamsBytes = 48;
  params_.assign(from.count("parameters", kParamsBytes), {});
  for (SamplingParams& params : params_) read_params(from, params);
  histories_.assign(from.count("histories", 8), {});
  for (TokenCounts& history : histories_) {
    for (size_t left = from.count("history", 8); left > 0 && from.status().ok(); --left) {
      TokenCounts::Entry entry;
      entry.token = from.number<TokenId>("history");
      entry.output_count = from.number<int32_t>("history");
      history.restore(entry);
    }
  }
  drafts_.assign(from.count("draft distributions", 16), {});
  for (DraftDistribution& draft : drafts_) read_distribution(from, draft);
  read_tasks(from);
  if (from.status().ok()) read_rejections(from);
  if (from.status().ok()) return;
  tasks_.clear();
  rejections_.clear();
}

Status StepTasks::check(int32_t live_vocab) const {
  for (const SamplingParams& params : params_) {
    FORERUN_RETURN_IF_ERROR(validate_sampling_params(params, live_vocab));
    FORERUN_RETURN_IF_ERROR(check_tokens(params.end_tokens, live_vocab));
    if (!std::is_sorted(params.end_tokens.begin(), params.end_tokens.end())) {
      return Status(StatusCode::kInvalidArgument,
                    "tasks: found end tokens out of order; accepted: ascending order");
    }
  }
  for (const TokenCounts& history : histories_) {
    for (const TokenCounts::Entry& entry : history.entries()) {
      FORERUN_RETURN_IF_ERROR(check_tokens({&entry.token, 1}, live_vocab));
    }
  }
  for (const std::vector<TokenId>& path : paths_) {
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
                "tasks: found a verification by rejection beside rows that may be dropped");
}

void write_answers(std::span<const RowTask> tasks, std::span<const RejectionTask> rejections,
                   ByteWriter& to) {
  const auto write_result = [&to](const RowResult& result) {
    to.number(result.token);
    to.number(result.logprob);
    write_candidates(result.top, to);
  };
  to.count(tasks.size());
  for (const RowTask& task : tasks) {
    to.flag(task.skipped);
    write_status(task.status, to);
    write_result(*task.result);
    to.flag(task.distribution != nullptr);
    if (task.distribution != nullptr) write_distribution(*task.distribution, to);
  }
  to.count(rejections.size());
  for (const RejectionTask& task : rejections) {
    write_status(task.status, to);
    to.list(task.result->accepted);
    to.number(task.result->bonus);
    to.count(task.result->walked.size());
    for (const RowResult& walked : task.result->walked) {
      to.number(walked.position);
      write_result(walked);
    }
  }
}

Status read_answers(ByteReader& from, std::span<RowTask> tasks,
                    std::span<RejectionTask> rejections) {
  const auto read_result = [&from](RowResult& result) {
    result.token = from.number<TokenId>("token");
    result.logprob = from.number<float>("log-probability");
    read_candidates(from, result.top);
  };
  const auto expect = [&from](const char* name, size_t expected) {
    const size_t found = from.count(name, 1);
    if (found == expected) return;
    from.fail(name, "found " + std::to_string(found) + ", asked were " + std::to_string(expected));
  };
  expect("answers", tasks.size());
  for (RowTask& task : tasks) {
    if (!from.status().ok()) break;
    task.skipped = from.flag("skipped");
    task.status = read_status(from);
    read_result(*task.result);
    const bool drawn = from.flag("drawn");
    if (drawn != (task.distribution != nullptr)) {
      from.fail("drawn", "found a distribution where none was asked for, or none where one was");
    } else if (drawn) {
      read_distribution(from, *task.distribution);
    }
  }
  expect("verifications", rejections.size());
  for (RejectionTask& task : rejections) {
    if (!from.status().ok()) break;
    task.status = read_status(from);
    from.list("accepted nodes", task.result->accepted);
    task.result->bonus = from.number<TokenId>("bonus");
    task.result->walked.resize(from.count("walked", 20));
    for (RowResult& walked : task.result->walked) {
      walked.position = from.number<int32_t>("position");
      read_result(walked);
    }
  }
  return from.finish();
}

}  // namespace forerun
