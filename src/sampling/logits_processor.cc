#include "sampling/logits_processor.h"

#include "base/status_macros.h"
#include "forerun/sampling_fields.h"
#include "sampling/token_filters.h"

namespace forerun {

bool needs_history(const SamplingParams& params) {
  bool penalizes = false;
  for_each_sampling_field([&](const auto& field) {
    if (field.is_penalty && params.*field.param != SamplingParams().*field.param) penalizes = true;
  });
  return penalizes;
}

std::span<const float> edited_logits(const LogitsRow& logits, const RowContext& context,
                                     SamplerScratch& scratch) {
  scratch.edits.clear();
  const RowEdits& edits = scratch.edits.row(scratch.edits.add(context));
  if (edits.mask >= 0) {
    scratch.allowed.assign((static_cast<size_t>(logits.vocab) + 31) / 32, 0);
    scratch.edits.write_mask(edits.mask, scratch.allowed);
  }
  scratch.logits.assign(logits.values.begin(), logits.values.end());
  edit_logits(scratch.logits, logits.first_token, edits, scratch.allowed);
  return scratch.logits;
}

Status process_logits(const LogitsRow& logits, const RowContext& context, SamplerScratch& scratch,
                      ProcessedRow* row) {
  const SamplingParams& params = *context.params;
  *row = {};
  row->adjusted = is_adjusted(context);
  const RowEditor editor = row->adjusted ? RowEditor{&context, &scratch} : RowEditor{};
  FORERUN_RETURN_IF_ERROR(row->scan.start(logits, context.position, &scratch.lane_max, editor));
  row->scale = {row->scan.best().logit, 1.0f};
  if (is_greedy(params)) return {};
  row->scale.inv_temperature = 1.0f / params.temperature;
  return apply_filters(params, scratch, row);
}

}  // namespace forerun
