// Repacking of a checkpoint's quantized weights (blocks of GGUF files, layers in several tensors)
// for the kernels that read them as they are stored. No value changes.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/unit_formats.h"
#include "kernels/precision.h"
#include "model/shard_plan.h"
#include "model/weight_override.h"

namespace forerun {

// Returns the format in which CPU kernels read the weight as it is stored; unset if they have none,
// and for plain weights.
std::optional<WeightFormat> kernel_format(const RawTensor& tensor);

// Returns the format in which GPU kernels read the weight as it is stored, if no part of it cuts
// units and the weights beside it allow that. Unset if they have none, and for plain weights.
std::optional<cuda::LinearFormat> gpu_format(const RawTensor& tensor);
// Returns the format in which GPUs look up rows of a stored embedding: blocks of any width.
std::optional<cuda::LinearFormat> gpu_embedding_format(const RawTensor& tensor);
// Returns the bytes that pack_as_stored() allocates for a part or for all of a weight. Unset for
// plain weights, and for weights that loaders widen: those without a kernel format, and those with
// blocks or groups cut in an unsupported way.
std::optional<int64_t> packed_bytes(const RawTensor& tensor, const ModulePart& part);
std::optional<int64_t> packed_bytes(const RawTensor& tensor);

// Returns whether a head that is packed from the embedding, for inputs rounded according to
// `activation` and with this override, has exactly the embedding's values. The head then also
// serves as the embedding.
bool packs_embedding(const RawTensor& embedding, WeightOverride head, Activation activation);

// Packs a part of a quantized weight that has packed_bytes(), on as many threads as there are
// cores. FP8 stays in place: the checkpoint must outlive the weight. Returns kCorrupt if a value is
// no number.
Result<LinearWeight> pack_as_stored(const RawTensor& tensor, const ModulePart& part);

}  // namespace forerun
