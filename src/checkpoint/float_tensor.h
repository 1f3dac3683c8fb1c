// Tensors of the three float formats as f32, wherever the file has put them.
//
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"

namespace forerun {

// kNotFound, naming the checkpoint and the tensor, where there is none.
Result<const RawTensor*> require_tensor(const Checkpoint& checkpoint, const std::string& name);

// kUnsupported for any dtype but f32, bf16 and f16.
Status check_float(const RawTensor& tensor);

// Widens `count` elements, perhaps none, from element `first` on. Only after check_float().
void widen(const RawTensor& tensor, int64_t first, int64_t count, float* to);

}  // namespace forerun
