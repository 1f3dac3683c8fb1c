#include "engine/load/draft_context.h"

#include <algorithm>
#include <cstdint>

#include "engine/load/model_facts.h"
#include "step/step.h"
#include "views/view_table.h"

namespace forerun {

Result<std::string> fit_draft_context(EngineOptions& options, OpenedModels& opened) {
  if (!opened.draft) return std::string();
  const int32_t target_context = opened.target.checkpoint.config().max_position;
  const int32_t context = options.max_context_tokens > 0
                              ? std::min(options.max_context_tokens, target_context)
                              : target_context;
  const int32_t made_for = opened.draft->checkpoint.config().max_position;
  if (made_for >= context) return std::string();
  const std::string fact = "the draft model was made for a context of " + std::to_string(made_for) +
                           " tokens, the target's is " + std::to_string(context);
  if (has_window(*opened.draft)) {
    opened.draft->checkpoint.extend_positions(context);
    return fact + ": the draft keeps the sliding windows of its layers";
  }
  const int32_t window = made_for / kKvBlockTokens * kKvBlockTokens;
  if (!window_view().check(window).ok()) {
    return Status(
        StatusCode::kInvalidArgument,
        "draft " + options.draft + ": " + fact +
            ", and a window needs 192; accepted: a draft made for at least 192 tokens, or "
            "max_context_tokens up to " +
            std::to_string(made_for));
  }
  opened.draft->checkpoint.extend_positions(context);
  const bool asked_for_less = options.draft_window > 0 && options.draft_window <= window;
  if (!asked_for_less) options.draft_window = window;
  return fact + ": the draft keeps a window of " + std::to_string(options.draft_window) +
         " tokens of each request";
}

}  // namespace forerun
