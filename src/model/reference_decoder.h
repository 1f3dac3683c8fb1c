// A decoder's forward pass in plain double loops, straight from the checkpoint's tensors: the
// reference for the real decoders, which share no code with it. (forerun_model_testing)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace forerun {

// Positions [begin, end), to which rows from `row` on do not attend.
struct UnseenPositions {
  size_t row = 0;
  size_t begin = 0;
  size_t end = 0;
};

// Returns the logits of every position of `tokens`, [tokens][vocab_size]. Each position attends to
// itself and those before it (within the layer's window, without `unseen`). Takes only unquantized
// checkpoints with plain or linear RoPE.
std::vector<double> reference_logits(const Checkpoint& checkpoint, std::span<const int32_t> tokens,
                                     UnseenPositions unseen = {});

// Returns the hidden rows of every position after the first `after_layers` layers,
// [tokens][hidden_size]; 0 gives the embedding. Takes the same checkpoints.
std::vector<double> reference_hidden(const Checkpoint& checkpoint, std::span<const int32_t> tokens,
                                     int32_t after_layers);

}  // namespace forerun
