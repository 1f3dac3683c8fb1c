// Quantized weights of a checkpoint (blocks of GGUF files, layers in several tensors), repacked for
// the kernels that read them as they are stored. No value changes.
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

// The format in which processors' kernels read the weight as it is stored; nothing where they have
// none, and for plain weights.
std::optional<WeightFormat> kernel_format(const RawTensor& tensor);

// The format in which GPUs read the weight as it is stored, where no part of it cuts units and what
// is read beside it allows that. Nothing where they have none, and for plain weights.
std::optional<cuda::LinearFormat> gpu_format(const RawTensor& tensor);
// The format in which GPUs look rows of an embedding up as it is stored: of blocks, of any width.
std::optional<cuda::LinearFormat> gpu_embedding_format(const RawTensor& tensor);
// The bytes that pack_as_stored() allocates for a part or for all of a weight. Nothing for plain
// weights, and where there is no kernel format or blocks and groups are cut where it cannot be:
// such weights are widened.
std::optional<int64_t> packed_bytes(const RawTensor& tensor, const ModulePart& part);
std::optional<int64_t> packed_bytes(const RawTensor& tensor);

// Whether a head that is packed from the embedding, for inputs rounded as `activation` says and
// with this override, has the embedding's values exactly: rows are then looked up in the head.
bool packs_embedding(const RawTensor& embedding, WeightOverride head, Activation activation);

// Packs a part of a quantized weight that has packed_bytes(), by as many threads as there are
// cores. FP8 stays where it is: the checkpoint must outlive the weight. kCorrupt where a value is
// no number.
Result<LinearWeight> pack_as_stored(const RawTensor& tensor, const ModulePart& part);

}  // namespace forerun
