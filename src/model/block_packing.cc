#include "model/block_packing.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "checkpoint/blocks/block_fields.h"
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

}  // namespace

std::optional<WeightFormat> kernel_format(BlockFormat format) {
  for (const FormatPair& pair : kPairs) {
    if (pair.stored == format) return pair.kernel;
  }
  return std::nullopt;
}

bool packs_as_stored(const RawTensor& tensor, const ModulePart& part) {
  return tensor.blocks != nullptr && kernel_format(tensor.blocks->format) &&
         part.in.begin % tensor.blocks->weights == 0 &&
         part.in.size() % tensor.blocks->weights == 0;
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

}  // namespace forerun
