// The smallest Step for tests of pipelines, and the token that fake decoders give after it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exec/exec_rig.h"
#include "exec/step_runner.h"

namespace forerun {

// The next token of a sequence within one block, as a Step of one row.
struct OneRow {
  OneRow(int32_t kv_block, TokenId token, int32_t position) : block(kv_block) {
    step.sequences.push_back({&block});
    step.rows.push_back({.token = token,
                         .position = position,
                         .slot = position,
                         .visible = position + 1,
                         .boundary = position + 1,
                         .wants_logits = true});
    task.want = Want::kSample;
    task.context.params = &params;
    task.context.position = position + 1;
    task.result = &result;
    params.temperature = 0.0f;
  }
  OneRow(const OneRow&) = delete;

  int32_t block;
  SamplingParams params;
  RowResult result;
  RowTask task;
  Step step;
};

// Returns the greedy token of a fake decoder with seed 1 after `history`.
inline TokenId greedy(const std::vector<TokenId>& history) {
  std::vector<float> logits(kVocab);
  fake_logits(fake_history(history, 1), kVocab, logits.data());
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace forerun
