// Checks of a Step that every backend makes before it runs the Step.
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
  int64_t taps = 0;      // places of the decoder's own store; 0 if it keeps no taps
  int64_t features = 0;  // places of the target's store; 0 if the decoder takes no features
};

// Returns kInvalidArgument, naming the row, if a token, position, slot, block or ancestor list is
// out of range, if taps are not in row order, or if places of taps and features lie beyond `ports`.
// In a stage that does not embed, the number of hidden rows must be the Step's and their type
// `hidden_dtype`.
Status check_step(const Step& step, const ModelConfig& config, const LayerRange& layers,
                  DType hidden_dtype, int64_t kv_blocks, const StepPorts& ports = {});

// Returns kInvalidArgument unless all places are below `places` and `bytes` is `row_bytes` per tap.
Status check_written_taps(std::span<const StepTap> taps, int64_t places, size_t row_bytes,
                          size_t bytes);

// Returns kInvalidArgument if a move goes to a higher slot or a list does not ascend.
Status check_kv_moves(std::span<const KvMove> moves);

}  // namespace forerun
