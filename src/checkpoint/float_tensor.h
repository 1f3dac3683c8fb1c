// Weights as f32, whatever stores them (floats, blocks, several tensors of a quantized layer) and
// in whatever order of rows the file has put them.
//
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"

namespace forerun {

// A module's weight, or its bias. kNotFound, naming the checkpoint and the module, where there is
// none.
Result<const RawTensor*> require_weight(const Checkpoint& checkpoint, ModuleId module);
Result<const RawTensor*> require_bias(const Checkpoint& checkpoint, ModuleId module);

// kUnsupported for any dtype but f32, bf16, f16, blocks and parts.
Status check_readable(const RawTensor& tensor);

// Widens `count` elements, perhaps none, from element `first` of the weight on; where the tensor
// is not plain, they lie within one row. Only after check_readable().
void widen(const RawTensor& tensor, int64_t first, int64_t count, float* to);

}  // namespace forerun
