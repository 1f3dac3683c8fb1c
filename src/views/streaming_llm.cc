#include "views/streaming_llm.h"

#include <algorithm>
#include <string>

#include "step/step.h"

namespace forerun {
namespace {

constexpr int32_t kSinkBlocks = 1;
// Two blocks hold at least one block's tokens, less one, wherever the next token falls.
constexpr int32_t kMinWindowBlocks = 2;
constexpr int32_t kMinTokens = (kSinkBlocks + kMinWindowBlocks) * kKvBlockTokens;

}  // namespace

Status StreamingLlm::check(int32_t budget_tokens) {
  if (budget_tokens >= kMinTokens) return Status();
  return Status(StatusCode::kInvalidArgument,
                "view_budget: found " + std::to_string(budget_tokens) +
                    "; accepted with view streaming_llm: at least " + std::to_string(kMinTokens) +
                    " tokens, a block of " + std::to_string(kKvBlockTokens) +
                    " for the sinks and two blocks for the window");
}

StreamingLlm::StreamingLlm(int32_t budget_tokens)
    : window_blocks_(budget_tokens / kKvBlockTokens - kSinkBlocks) {}

KvViewLayout StreamingLlm::layout(int32_t prefix_tokens, const KvChosen& /*last*/) const {
  return {.head_blocks = kSinkBlocks,
          .tail_block = std::max(kSinkBlocks, prefix_tokens / kKvBlockTokens + 1 - window_blocks_)};
}

}  // namespace forerun
