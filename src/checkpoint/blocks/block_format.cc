#include "checkpoint/blocks/block_format.h"

#include <algorithm>
#include <array>

#include "checkpoint/blocks/block_fields.h"
#include "checkpoint/blocks/code_book_codecs.h"
#include "checkpoint/blocks/decode_blocks.h"
#include "checkpoint/blocks/k_quant_codecs.h"
#include "checkpoint/blocks/simple_codecs.h"

namespace forerun {
namespace {

template <class Codec, int64_t kWeights, int64_t kBytes>
constexpr BlockFormatInfo row(BlockFormat format, std::string_view name, uint32_t ggml_type) {
  return {.format = format,
          .name = name,
          .ggml_type = ggml_type,
          .weights = kWeights,
          .bytes = kBytes,
          .decode = &block_codecs::decode<Codec, kWeights, kBytes>,
          .layout = &Codec::kLayout,
          .unpack = &block_codecs::unpack<Codec>};
}

constexpr std::array kFormats = {
    // The arguments are the weights and bytes of a block.
    row<block_codecs::Q4_0, 32, 18>(BlockFormat::kQ4_0, "Q4_0", 2),
    row<block_codecs::Q4_1, 32, 20>(BlockFormat::kQ4_1, "Q4_1", 3),
    row<block_codecs::Q5_0, 32, 22>(BlockFormat::kQ5_0, "Q5_0", 6),
    row<block_codecs::Q5_1, 32, 24>(BlockFormat::kQ5_1, "Q5_1", 7),
    row<block_codecs::Q8_0, 32, 34>(BlockFormat::kQ8_0, "Q8_0", 8),
    row<block_codecs::Q2_K, 256, 84>(BlockFormat::kQ2_K, "Q2_K", 10),
    row<block_codecs::Q3_K, 256, 110>(BlockFormat::kQ3_K, "Q3_K", 11),
    row<block_codecs::Q4_K, 256, 144>(BlockFormat::kQ4_K, "Q4_K", 12),
    row<block_codecs::Q5_K, 256, 176>(BlockFormat::kQ5_K, "Q5_K", 13),
    row<block_codecs::Q6_K, 256, 210>(BlockFormat::kQ6_K, "Q6_K", 14),
    row<block_codecs::Iq4Nl, 32, 18>(BlockFormat::kIq4Nl, "IQ4_NL", 20),
    row<block_codecs::Iq4Xs, 256, 136>(BlockFormat::kIq4Xs, "IQ4_XS", 23),
    row<block_codecs::Mxfp4, 32, 17>(BlockFormat::kMxfp4, "MXFP4", 39),
};

constexpr bool in_the_order_of_the_enumeration() {
  for (size_t i = 0; i < kFormats.size(); ++i) {
    if (kFormats[i].format != static_cast<BlockFormat>(i)) return false;
  }
  return true;
}
static_assert(in_the_order_of_the_enumeration());

}  // namespace

std::span<const BlockFormatInfo> block_formats() { return kFormats; }

const BlockFormatInfo& block_format(BlockFormat format) {
  return kFormats[static_cast<size_t>(format)];
}

const BlockFormatInfo* find_ggml_block_format(uint32_t ggml_type) {
  const auto* found = std::ranges::find(kFormats, ggml_type, &BlockFormatInfo::ggml_type);
  return found == kFormats.end() ? nullptr : found;
}

float block_scale(const BlockLayout& layout, uint16_t d) {
  return block_codecs::scale_to_float(layout, d);
}

}  // namespace forerun
