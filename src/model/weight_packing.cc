#include "model/weight_packing.h"

#include "checkpoint/layouts/weight_parts.h"
#include "kernels/linear/formats/weight_formats.h"
#include "model/block_packing.h"
#include "model/integer_blocks.h"
#include "model/parts_packing.h"

namespace forerun {
namespace {

ModulePart whole(const RawTensor& tensor) { return {{0, tensor.shape[0]}, {0, tensor.shape[1]}}; }

}  // namespace

std::optional<WeightFormat> kernel_format(const RawTensor& tensor) {
  if (tensor.blocks != nullptr) return kernel_format(tensor.blocks->format);
  if (tensor.parts == nullptr) return std::nullopt;
  const auto plan = plan_parts(*tensor.parts, whole(tensor));
  return plan ? std::optional(plan->format) : std::nullopt;
}

std::optional<cuda::LinearFormat> gpu_format(const RawTensor& tensor) {
  using cuda::LinearFormat;
  std::optional<WeightFormat> stored;
  if (tensor.blocks != nullptr) stored = kernel_format(tensor.blocks->format);
  if (tensor.parts != nullptr) {
    if (tensor.parts->are_floats()) stored = WeightFormat::kFp8;
    const auto awq = tensor.parts->awq_gemm();
    constexpr auto kInt4 = LinearFormat::kInt4Group128;
    if (awq && awq->group_size == cuda::unit_inputs(kInt4) && awq->scales->dtype == DType::kF16) {
      return kInt4;
    }
    if (!tensor.parts->are_floats()) return gpu_integer_format(*tensor.parts, whole(tensor));
  }
  const auto format = stored ? cuda::grouped_format(*stored) : std::nullopt;
  const bool fits = format && tensor.shape[1] % cuda::unit_inputs(*format) == 0;
  return fits ? format : std::nullopt;
}

std::optional<cuda::LinearFormat> gpu_embedding_format(const RawTensor& tensor) {
  const auto stored =
      tensor.blocks != nullptr ? kernel_format(tensor.blocks->format) : std::nullopt;
  return stored ? cuda::grouped_format(*stored) : std::nullopt;
}

std::optional<int64_t> packed_bytes(const RawTensor& tensor, const ModulePart& part) {
  if (tensor.parts != nullptr) {
    const auto plan = plan_parts(*tensor.parts, part);
    return plan ? std::optional(plan->bytes) : std::nullopt;
  }
  if (!packs_blocks(tensor, part)) return std::nullopt;
  return weight_bytes(*kernel_format(tensor.blocks->format), part.out.size(), part.in.size());
}

std::optional<int64_t> packed_bytes(const RawTensor& tensor) {
  return packed_bytes(tensor, whole(tensor));
}

bool packs_embedding(const RawTensor& embedding, WeightOverride head, Activation activation) {
  const std::optional<WeightFormat> rounded = override_format(head);
  if (embedding.blocks != nullptr) {
    return packed_bytes(embedding) && (!rounded || rounded == kernel_format(embedding));
  }
  return embedding.dtype == DType::kBf16 && takes_bf16_pairs(activation) &&
         (!rounded || rounded == WeightFormat::kBf16);
}

Result<LinearWeight> pack_as_stored(const RawTensor& tensor, const ModulePart& part) {
  if (tensor.parts != nullptr) return pack_parts(*tensor.parts, part);
  return pack_blocks(tensor, part);
}

}  // namespace forerun
