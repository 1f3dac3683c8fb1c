#include "exec/step_runner.h"

#include <algorithm>

#include "base/status_macros.h"
#include "sampling/rejection.h"
#include "sampling/row_query.h"
#include "sampling/sampler.h"

namespace forerun {

LogitsRow StepLogits::row(int32_t logits_row) const {
  const int64_t count = std::clamp<int64_t>(live_vocab - part.first_token, 0, part.values.dim(1));
  const std::span<const float> values(part.values.row(logits_row), static_cast<size_t>(count));
  LogitsRow row(values);
  if (peers != nullptr) row = {values, part.first_token, live_vocab, peers};
  row.on_device = part.on_device;
  row.device_row = logits_row;
  return row;
}

RowQuery query_of(const RowTask& task, int32_t live_vocab) {
  switch (task.want) {
    case Want::kNothing:
      break;
    case Want::kSample:
      return sample_query(task.context, live_vocab);
    case Want::kTopK:
      return candidates_query(task.context, task.count, task.shared_noise, live_vocab);
    case Want::kDraw:
      return draw_query(task.context, task.count, live_vocab);
    case Want::kScore:  // a summary rarely contains the token
      return {.kinds = RowQuery::kLogits, .vocab = live_vocab};
  }
  return {.kinds = 0, .vocab = live_vocab};
}

Status perform_task(const StepLogits& logits, SamplerScratch& scratch, const RowTask& task,
                    RowResult& result) {
  const LogitsRow row = logits.row(task.logits_row);
  switch (task.want) {
    case Want::kNothing:
      return {};
    case Want::kSample: {
      SampledToken sampled;
      const Status status = sample_token(row, task.context, scratch, &sampled, &result.top);
      result.token = sampled.token;
      result.logprob = sampled.logprob;
      return status;
    }
    case Want::kTopK:
      return top_candidates(row, task.context, task.count, task.shared_noise, scratch, &result.top);
    case Want::kDraw:
      return draw_candidates(row, task.context, task.count, scratch, &result.top,
                             task.distribution);
    case Want::kScore:
      result.token = task.token;
      return token_logprobs(row, task.context.position, task.token, task.count, scratch,
                            &result.logprob, &result.top);
  }
  return {};
}

Status perform_rejection(const StepLogits& logits, SamplerScratch& scratch,
                         std::vector<TokenId>& children, std::span<const RejectionRow> rows,
                         WorkResult& result) {
  size_t current = 0;
  while (true) {
    const RejectionRow& row = rows[current];
    FORERUN_RETURN_IF_ERROR(row.status);
    children.clear();
    for (size_t index = current + 1; index < rows.size(); ++index) {
      if (rows[index].parent_idx == static_cast<int32_t>(current)) {
        children.push_back(rows[index].token);
      }
    }
    RejectionOutcome outcome;
    FORERUN_RETURN_IF_ERROR(accept_child(logits.row(row.logits_row), row.context, children,
                                         row.draft, scratch, &outcome));
    if (row.context.params->logprobs >= 0) {
      RowResult& walked = result.walked.emplace_back();
      walked.token = outcome.token;
      walked.position = row.context.position - 1;
      FORERUN_RETURN_IF_ERROR(token_logprobs(logits.row(row.logits_row), row.context.position,
                                             outcome.token, row.context.params->logprobs, scratch,
                                             &walked.logprob, &walked.top));
    }
    if (outcome.child_idx < 0) {
      result.bonus = outcome.token;
      return {};
    }
    int32_t child = -1;
    for (size_t index = current + 1; child < outcome.child_idx; ++index) {
      if (rows[index].parent_idx != static_cast<int32_t>(current)) continue;
      if (++child == outcome.child_idx) {
        result.accepted.push_back(rows[index].node);
        current = index;
        break;
      }
    }
  }
}

}  // namespace forerun
