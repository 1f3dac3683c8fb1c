#include "model/weight_packing.h"

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "checkpoint/float_tensor.h"
#include "checkpoint/layouts/weight_parts.h"
#include "kernels/linear/formats/weight_formats.h"
#include "model/block_packing.h"

namespace forerun {
namespace {

constexpr int64_t kOutsOfWord = 8;
constexpr int64_t kInt4Inputs = 32;  // int4 kernels take groups of multiples of it

// The inputs of a part that share a scale. Where the part begins or ends within a group, the scale
// is repeated for smaller groups.
int64_t group_of_part(const AwqTensors& awq, const ModulePart& part) {
  return std::gcd(awq.group_size, std::gcd(part.in.begin, part.in.size()));
}

// Rows and columns of a matrix of words, where they lie or, if the file has not aligned them, in
// `copy`.
MatrixView<const int32_t> words_of(const RawTensor& tensor, const ShardRange& rows,
                                   const ShardRange& columns, std::vector<int32_t>& copy) {
  const int64_t width = tensor.shape[1];
  const std::array<int64_t, 2> shape{rows.size(), columns.size()};
  if (const auto* const words = aligned_elements<int32_t>(tensor)) {
    return {words + rows.begin * width + columns.begin, shape, width};
  }
  copy.resize(static_cast<size_t>(rows.size() * columns.size()));
  for (int64_t row = 0; row < rows.size(); ++row) {
    std::memcpy(copy.data() + row * columns.size(),
                tensor.bytes.data() +
                    ((rows.begin + row) * width + columns.begin) * int64_t{sizeof(int32_t)},
                static_cast<size_t>(columns.size()) * sizeof(int32_t));
  }
  return {copy.data(), shape};
}

LinearWeight pack_awq(const AwqTensors& awq, const ModulePart& part) {
  const int64_t group = group_of_part(awq, part);
  const int64_t groups = part.in.size() / group;
  const int64_t outs = part.out.size();
  const ShardRange words{part.out.begin / kOutsOfWord, part.out.end / kOutsOfWord};
  std::vector<int32_t> qweight_copy, qzeros_copy;
  std::vector<int32_t> zeros(static_cast<size_t>(groups * words.size()));
  std::vector<float> scales(static_cast<size_t>(groups * outs));
  const MatrixView<const int32_t> stored_zeros =
      words_of(*awq.qzeros, {0, awq.in_features / awq.group_size}, words, qzeros_copy);
  for (int64_t index = 0; index < groups; ++index) {
    const int64_t stored = (part.in.begin + index * group) / awq.group_size;
    widen(*awq.scales, stored * awq.out_features + part.out.begin, outs,
          scales.data() + index * outs);
    std::copy_n(stored_zeros.row(stored), words.size(), zeros.data() + index * words.size());
  }
  return LinearWeight::from_awq(words_of(*awq.qweight, part.in, words, qweight_copy),
                                {zeros.data(), {groups, words.size()}},
                                {scales.data(), {groups, outs}}, group);
}

}  // namespace

std::optional<WeightFormat> kernel_format(const RawTensor& tensor) {
  if (tensor.blocks != nullptr) return kernel_format(tensor.blocks->format);
  if (tensor.parts == nullptr || !has_kernel(tensor, /*on_gpus=*/false)) return std::nullopt;
  return WeightFormat::kInt4;
}

bool has_kernel(const RawTensor& tensor, bool on_gpus) {
  if (tensor.blocks != nullptr) return !on_gpus && kernel_format(tensor.blocks->format);
  if (tensor.parts == nullptr) return false;
  const auto awq = tensor.parts->awq_gemm();
  if (!awq) return false;
  return on_gpus ? awq->group_size == kGpuInt4Group && awq->scales->dtype == DType::kF16
                 : awq->group_size % kInt4Inputs == 0;
}

int64_t packed_bytes(const RawTensor& tensor) {
  if (tensor.blocks != nullptr) {
    return weight_bytes(*kernel_format(tensor.blocks->format), tensor.shape[0], tensor.shape[1]);
  }
  // Nibbles, and a 32-bit word for each scale and its zero point.
  const auto awq = tensor.parts->awq_gemm();
  return stored_bytes(*awq->qweight) + stored_bytes(*awq->qzeros) * 8;
}

bool packs_as_stored(const RawTensor& tensor, const ModulePart& part) {
  if (tensor.parts != nullptr) {
    const auto awq = tensor.parts->awq_gemm();
    return awq && part.out.begin % kOutsOfWord == 0 && part.out.size() % kOutsOfWord == 0 &&
           group_of_part(*awq, part) % kInt4Inputs == 0;
  }
  return packs_blocks(tensor, part);
}

LinearWeight pack_as_stored(const RawTensor& tensor, const ModulePart& part) {
  return tensor.parts != nullptr ? pack_awq(*tensor.parts->awq_gemm(), part)
                                 : pack_blocks(tensor, part);
}

}  // namespace forerun
