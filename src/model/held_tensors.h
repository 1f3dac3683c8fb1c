// The tensors of a checkpoint that a stage needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/layer_range.h"

namespace forerun {

// Returns the tensors of all modules in any of the stages, in the order of decoder_modules().
std::vector<ModuleTensor> held_tensors(const Checkpoint& checkpoint,
                                       std::span<const LayerRange> stages);

// Returns the bytes of the stage's tensors in the files.
int64_t held_bytes(const Checkpoint& checkpoint, const LayerRange& stage);

}  // namespace forerun
