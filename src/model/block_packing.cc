#include "model/block_packing.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/blocks/block_fields.h"
#include "device/cpu/portions.h"
#include "kernels/linear/formats/grouped_packer.h"
#include "kernels/linear/linear_weight.h"
#include "model/block_lanes.h"

namespace forerun {
namespace {

// The stored blocks of up to 16 output channels, which one packed block holds.
struct StoredRows {
  const std::byte* rows[kBlockOuts];  // each channel's first stored block
  int64_t channels;                   // up to kBlockOuts
  int64_t block_count;                // stored blocks of each channel
  int64_t block_bytes;
};

// Channels lie a row apart in the file, and CPUs prefetch fewer than 16 streams of reads: without
// explicit prefetches, packing takes up to twice as long. A prefetch beyond the end of the file
// does nothing.
constexpr int64_t kPrefetchBytes = 384;

// Writes all sections of a block of channels. Its memory must be zero.
template <class Lanes>
void pack_rows(const StoredRows& from, std::byte* section) {
  constexpr int kLine = grouped_lanes::line_of(Lanes::kKernel);
  constexpr GroupedFormat kFormat = kGroupedFormats[kLine];
  constexpr int64_t kSectionBlocks = section_inputs(kFormat) / block_inputs(kFormat);
  constexpr int64_t kLaneBytes = block_inputs(kFormat) / 32 * unit_bytes(kFormat);
  for (int64_t begin = 0; begin < from.block_count; begin += kSectionBlocks) {
    const int64_t count = std::min(kSectionBlocks, from.block_count - begin);
    for (int64_t channel = 0; channel < from.channels; ++channel) {
      BlockFields scales[kSectionBlocks];  // q is unused
      const auto* block =
          reinterpret_cast<const uint8_t*>(from.rows[channel]) + begin * from.block_bytes;
      std::byte* lane = section + header_bytes(kFormat) + 4 * channel;
      for (int64_t byte = 0; byte < kSectionBlocks * from.block_bytes; byte += 64) {
        __builtin_prefetch(block + kPrefetchBytes + byte);
      }
      for (int64_t idx = 0; idx < count; ++idx, block += from.block_bytes, lane += kLaneBytes) {
        Lanes::Codec::read_scales(block, scales[idx]);
        Lanes::store(block, lane);
      }
      for (int64_t idx = count; idx < kSectionBlocks; ++idx) scales[idx].d = scales[idx].dmin = 0;
      grouped_lanes::store_header<kLine>(scales, channel, section);
    }
    section += section_bytes(kFormat);
  }
}

struct StoredFormat {
  BlockFormat stored;
  WeightFormat kernel;
  void (*pack)(const StoredRows& from, std::byte* block);
};

template <class Lanes>
constexpr StoredFormat packed_by(BlockFormat stored) {
  return {stored, Lanes::kKernel, pack_rows<Lanes>};
}

constexpr StoredFormat kStoredFormats[] = {
    packed_by<block_lanes::Q4_0>(BlockFormat::kQ4_0),
    packed_by<block_lanes::Q4_1>(BlockFormat::kQ4_1),
    packed_by<block_lanes::Q5_0>(BlockFormat::kQ5_0),
    packed_by<block_lanes::Q5_1>(BlockFormat::kQ5_1),
    packed_by<block_lanes::Q8_0>(BlockFormat::kQ8_0),
    packed_by<block_lanes::Q2_K>(BlockFormat::kQ2_K),
    packed_by<block_lanes::Q3_K>(BlockFormat::kQ3_K),
    packed_by<block_lanes::Q4_K>(BlockFormat::kQ4_K),
    packed_by<block_lanes::Q5_K>(BlockFormat::kQ5_K),
    packed_by<block_lanes::Q6_K>(BlockFormat::kQ6_K),
    packed_by<block_lanes::Iq4Nl>(BlockFormat::kIq4Nl),
    packed_by<block_lanes::Iq4Xs>(BlockFormat::kIq4Xs),
    packed_by<block_lanes::Mxfp4>(BlockFormat::kMxfp4),
};

const StoredFormat* find_format(BlockFormat stored) {
  for (const StoredFormat& format : kStoredFormats) {
    if (format.stored == stored) return &format;
  }
  return nullptr;
}

// Stored bytes per portion of a thread. All threads stay close together in the file, so that it is
// read from the beginning to the end.
constexpr int64_t kPortionBytes = 512 << 10;

}  // namespace

std::optional<WeightFormat> kernel_format(BlockFormat format) {
  const StoredFormat* const found = find_format(format);
  return found == nullptr ? std::nullopt : std::optional(found->kernel);
}

bool packs_blocks(const RawTensor& tensor, const ModulePart& part) {
  return tensor.blocks != nullptr && kernel_format(tensor.blocks->format) &&
         part.in.begin % tensor.blocks->weights == 0 &&
         part.in.size() % tensor.blocks->weights == 0;
}

void copy_fields(const BlockFormatInfo& format, const BlockFields& from, GroupedBlock& to) {
  std::memcpy(to.q, from.q, static_cast<size_t>(format.weights));
  std::memcpy(to.scale, from.scale, sizeof to.scale);
  std::memcpy(to.min, from.min, sizeof to.min);
  to.d = from.d;
  to.dmin = from.dmin;
}

void unpack_blocks(const BlockFormatInfo& format, const std::byte* from,
                   std::span<GroupedBlock> to) {
  BlockFields fields;
  for (GroupedBlock& each : to) {
    format.unpack(from, fields);
    copy_fields(format, fields, each);
    from += format.bytes;
  }
}

LinearWeight pack_blocks(const RawTensor& tensor, const ModulePart& part) {
  const BlockFormatInfo& stored = *tensor.blocks;
  const StoredFormat& format = *find_format(stored.format);
  const int64_t outs = part.out.size();
  const int64_t row_bytes = tensor.shape[1] / stored.weights * stored.bytes;
  const int64_t first_block = part.in.begin / stored.weights;
  const int64_t block_count = part.in.size() / stored.weights;
  GroupedPacker packer(format.kernel, outs, part.in.size());
  const auto pack_block = [&](int64_t first) {
    StoredRows from{.rows = {},
                    .channels = std::min(kBlockOuts, outs - first),
                    .block_count = block_count,
                    .block_bytes = stored.bytes};
    for (int64_t channel = 0; channel < from.channels; ++channel) {
      from.rows[channel] = tensor.bytes.data() +
                           tensor.stored_row(part.out.begin + first + channel) * row_bytes +
                           first_block * stored.bytes;
    }
    format.pack(from, packer.block_of(first));
  };
  const int64_t blocks = (outs + kBlockOuts - 1) / kBlockOuts;
  const int64_t portion = std::max<int64_t>(
      1, kPortionBytes / std::max<int64_t>(1, kBlockOuts * block_count * stored.bytes));
  share_portions((blocks + portion - 1) / portion, blocks / portion, [&](Portions& portions) {
    while (const auto index = portions.next()) {
      const int64_t end = std::min(blocks, (*index + 1) * portion);
      for (int64_t block = *index * portion; block < end; ++block) pack_block(block * kBlockOuts);
    }
  });
  return packer.finish();
}

}  // namespace forerun
