// The checks of a Step that every backend makes before it runs anything.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/model_config.h"
#include "forerun/status.h"
#include "model/layer_range.h"
#include "step/step.h"

namespace forerun {

// kInvalidArgument on a token, position, slot, block or ancestor list out of range, naming the row.
// In a stage that does not embed also on hidden rows other than the Step's, of `hidden_dtype`; on
// taps that are not in the order of the rows or lie beyond `tap_places`, 0 where nothing is tapped.
Status check_step(const Step& step, const ModelConfig& config, const LayerRange& layers,
                  DType hidden_dtype, int64_t kv_blocks, int64_t tap_places = 0);

// kInvalidArgument unless no move goes to a higher slot and both lists ascend.
Status check_kv_moves(std::span<const KvMove> moves);

}  // namespace forerun
