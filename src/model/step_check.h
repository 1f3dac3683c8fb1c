// The checks of a Step that every backend makes before it runs anything.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/model_config.h"
#include "forerun/status.h"
#include "model/layer_range.h"
#include "step/step.h"

namespace forerun {

// The places that Steps may name.
struct StepPorts {
  int64_t taps = 0;      // places of the decoder's own store; 0: it keeps no taps
  int64_t features = 0;  // places of the target's store; 0: the decoder takes no features
};

// kInvalidArgument on a token, position, slot, block or ancestor list out of range, naming the row.
// In a stage that does not embed also on hidden rows other than the Step's, of `hidden_dtype`; on
// taps that are not in the order of the rows, and on places of taps and features beyond `ports`.
Status check_step(const Step& step, const ModelConfig& config, const LayerRange& layers,
                  DType hidden_dtype, int64_t kv_blocks, const StepPorts& ports = {});

// kInvalidArgument unless all places are below `places` and `row_bytes` for each tap make `bytes`.
Status check_written_taps(std::span<const StepTap> taps, int64_t places, size_t row_bytes,
                          size_t bytes);

// kInvalidArgument unless no move goes to a higher slot and both lists ascend.
Status check_kv_moves(std::span<const KvMove> moves);

}  // namespace forerun
