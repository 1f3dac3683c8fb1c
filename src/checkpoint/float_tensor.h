// Weights as f32 in row order, for any storage: floats, blocks, or several tensors of a quantized
// layer.
//
// All functions are pure.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"

namespace forerun {

// Return a module's weight or its bias; kNotFound, naming the checkpoint and the module, if there
// is none.
Result<const RawTensor*> require_weight(const Checkpoint& checkpoint, ModuleId module);
Result<const RawTensor*> require_bias(const Checkpoint& checkpoint, ModuleId module);

// Returns kUnsupported for any dtype but f32, bf16, f16, blocks and parts.
Status check_readable(const RawTensor& tensor);

// Widens `count` elements, perhaps none, from element `first` of the weight on. If the tensor is
// not plain, they must lie within one row. check_readable() must accept the tensor.
void widen(const RawTensor& tensor, int64_t first, int64_t count, float* to);

}  // namespace forerun
