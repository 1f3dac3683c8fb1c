// Whether a checkpoint's tensors are those that its config.json implies. Internal to checkpoint/.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor_table.h"
#include "forerun/status.h"

namespace forerun {

// Every implied tensor is there in a fitting shape and dtype, and no layer holds a tensor that the
// description gives no meaning to (a bias or norm that would silently be left out).
Status check_tensors(const TensorTable& table, const ModelConfig& config);

// Whether there is an lm_head.weight that is no copy of the embedding. Reads both until they
// differ.
bool has_head_of_its_own(const TensorTable& table);

// See Checkpoint::awq_tensors(); messages begin with the tensor.
Result<AwqTensors> find_awq_parts(const TensorTable& table, ModuleId id,
                                  const QuantizationConfig& quantization);

// "[4096][512]"
std::string shape_text(std::span<const int64_t> shape);

}  // namespace forerun
