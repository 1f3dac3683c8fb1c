// What every backend refuses of a Step before it runs anything.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/model_config.h"
#include "forerun/status.h"
#include "model/layer_range.h"
#include "step/step.h"

namespace forerun {

// kInvalidArgument on a token, position, slot, block or ancestor list out of range, naming the row;
// of a stage that does not embed, on hidden rows other than the Step's, of `hidden_dtype`.
Status check_step(const Step& step, const ModelConfig& config, const LayerRange& layers,
                  DType hidden_dtype, int64_t kv_blocks);

// kInvalidArgument unless every move goes down and both lists ascend.
Status check_kv_moves(std::span<const KvMove> moves);

}  // namespace forerun
