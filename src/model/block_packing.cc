#include "model/block_packing.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "checkpoint/blocks/block_fields.h"
#include "checkpoint/float_tensor.h"
#include "checkpoint/layouts/weight_parts.h"
#include "device/cpu/team.h"
#include "kernels/linear/formats/grouped_packer.h"
#include "kernels/linear/linear_weight.h"

namespace forerun {
namespace {

struct FormatPair {
  BlockFormat stored;
  WeightFormat kernel;
};

constexpr FormatPair kPairs[] = {
    {BlockFormat::kQ4_0, WeightFormat::kQ4_0},   {BlockFormat::kQ4_1, WeightFormat::kQ4_1},
    {BlockFormat::kQ5_0, WeightFormat::kQ5_0},   {BlockFormat::kQ5_1, WeightFormat::kQ5_1},
    {BlockFormat::kQ8_0, WeightFormat::kQ8_0},   {BlockFormat::kQ2_K, WeightFormat::kQ2_K},
    {BlockFormat::kQ3_K, WeightFormat::kQ3_K},   {BlockFormat::kQ4_K, WeightFormat::kQ4_K},
    {BlockFormat::kQ5_K, WeightFormat::kQ5_K},   {BlockFormat::kQ6_K, WeightFormat::kQ6_K},
    {BlockFormat::kIq4Nl, WeightFormat::kIq4Nl}, {BlockFormat::kIq4Xs, WeightFormat::kIq4Xs},
    {BlockFormat::kMxfp4, WeightFormat::kMxfp4},
};

// Threads for fewer channels than this cost more than they save.
constexpr int64_t kMinChannels = 256;

class BlockReader {
 public:
  BlockReader(const RawTensor& tensor, const ModulePart& part)
      : tensor_(tensor),
        format_(*tensor.blocks),
        first_row_(part.out.begin),
        first_block_(part.in.begin / format_.weights),
        row_bytes_(tensor.shape[1] / format_.weights * format_.bytes) {}

  void read(int64_t out, int64_t block, std::span<GroupedBlock> to) const {
    const std::byte* from = tensor_.bytes.data() +
                            tensor_.stored_row(first_row_ + out) * row_bytes_ +
                            (first_block_ + block) * format_.bytes;
    BlockFields fields;
    for (GroupedBlock& each : to) {
      format_.unpack(from, fields);
      std::memcpy(each.q, fields.q, static_cast<size_t>(format_.weights));
      std::memcpy(each.scale, fields.scale, sizeof each.scale);
      std::memcpy(each.min, fields.min, sizeof each.min);
      each.d = fields.d;
      each.dmin = fields.dmin;
      from += format_.bytes;
    }
  }

 private:
  const RawTensor& tensor_;
  const BlockFormatInfo& format_;
  const int64_t first_row_;
  const int64_t first_block_;
  const int64_t row_bytes_;
};

constexpr int64_t kOutsOfWord = 8;
constexpr int64_t kInt4Inputs = 32;     // int4 kernels take groups of multiples of it
constexpr int64_t kGpuInt4Group = 128;  // the only group of the GPU's

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

LinearWeight pack_blocks(const RawTensor& tensor, const ModulePart& part) {
  const int64_t outs = part.out.size();
  GroupedPacker packer(*kernel_format(tensor.blocks->format), outs, part.in.size());
  const BlockReader reader(tensor, part);
  const auto pack = [&](int64_t first, int64_t last) {
    packer.pack(first, last - first, [&](int64_t out, int64_t block, std::span<GroupedBlock> to) {
      reader.read(out, block, to);
    });
  };
  const auto cores = static_cast<int64_t>(available_cores().size());
  const int64_t threads = std::clamp<int64_t>(outs / kMinChannels, 1, std::max<int64_t>(1, cores));
  const int64_t blocks = (outs + kBlockOuts - 1) / kBlockOuts;
  const auto first_of = [&](int64_t thread) {
    return std::min(outs, blocks * thread / threads * kBlockOuts);
  };
  std::vector<std::thread> others;
  for (int64_t thread = 1; thread < threads; ++thread) {
    others.emplace_back([&, thread] { pack(first_of(thread), first_of(thread + 1)); });
  }
  pack(0, first_of(1));
  for (std::thread& other : others) other.join();
  return packer.finish();
}

}  // namespace

std::optional<WeightFormat> kernel_format(BlockFormat format) {
  for (const FormatPair& pair : kPairs) {
    if (pair.stored == format) return pair.kernel;
  }
  return std::nullopt;
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
  // Kernels keep a byte where K-quants pack six bits of a scale.
  if (tensor.blocks != nullptr) return stored_bytes(tensor) * 11 / 10;
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
  return tensor.blocks != nullptr && kernel_format(tensor.blocks->format) &&
         part.in.begin % tensor.blocks->weights == 0 &&
         part.in.size() % tensor.blocks->weights == 0;
}

LinearWeight pack_as_stored(const RawTensor& tensor, const ModulePart& part) {
  return tensor.parts != nullptr ? pack_awq(*tensor.parts->awq_gemm(), part)
                                 : pack_blocks(tensor, part);
}

}  // namespace forerun
