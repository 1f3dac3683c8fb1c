// What every backend refuses of a Step before it runs anything.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/model_config.h"
#include "forerun/status.h"
#include "step/step.h"

namespace forerun {

// kInvalidArgument on a token, position, slot, block or ancestor list out of range, naming the row.
Status check_step(const Step& step, const ModelConfig& config, int64_t kv_blocks);

// kInvalidArgument unless every move goes down and both lists ascend.
Status check_kv_moves(std::span<const KvMove> moves);

}  // namespace forerun
