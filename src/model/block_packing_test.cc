// Compares blocks packed straight into lanes with packed bytes of unpacked quants.
#include "model/block_packing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "checkpoint/blocks/block_fields.h"
#include "kernels/linear/formats/grouped_packer.h"
#include "kernels/linear/formats/weight_formats.h"
#include "kernels/linear/linear_weight.h"

namespace forerun {
namespace {

constexpr int64_t kBlockRows = 320;
constexpr int64_t kManyRows = 5000;  // rows for several threads
constexpr int64_t kHead = 16;

struct Stored {
  std::vector<std::byte> memory;
  RawTensor tensor;
};

// Random blocks at an address one byte off any alignment.
Stored random_blocks(const BlockFormatInfo& format, int64_t rows, int64_t in,
                     int64_t interleaved_head) {
  std::mt19937 random(7);
  const auto bytes = static_cast<size_t>(rows * in / format.weights * format.bytes);
  Stored stored;
  stored.memory.resize(bytes + 1);
  for (std::byte& byte : stored.memory) byte = static_cast<std::byte>(random());
  stored.tensor.dtype = DType::kBlocks;
  stored.tensor.shape = {rows, in};
  stored.tensor.bytes = {stored.memory.data() + 1, bytes};
  stored.tensor.blocks = &format;
  stored.tensor.interleaved_head = interleaved_head;
  return stored;
}

// Packs by unpacking each quant to a byte.
LinearWeight pack_unpacked(const RawTensor& tensor, const ModulePart& part) {
  const BlockFormatInfo& format = *tensor.blocks;
  const int64_t row_bytes = tensor.shape[1] / format.weights * format.bytes;
  return LinearWeight::pack_grouped(*kernel_format(format.format), part.out.size(), part.in.size(),
                                    [&](int64_t out, int64_t block, std::span<GroupedBlock> to) {
                                      const std::byte* from =
                                          tensor.bytes.data() +
                                          tensor.stored_row(part.out.begin + out) * row_bytes +
                                          (part.in.begin / format.weights + block) * format.bytes;
                                      for (GroupedBlock& each : to) {
                                        BlockFields fields = {};
                                        format.unpack(from, fields);
                                        std::memcpy(each.q, fields.q, sizeof each.q);
                                        std::memcpy(each.scale, fields.scale, sizeof each.scale);
                                        std::memcpy(each.min, fields.min, sizeof each.min);
                                        each.d = fields.d;
                                        each.dmin = fields.dmin;
                                        from += format.bytes;
                                      }
                                    });
}

void expect_same_bytes(const RawTensor& tensor, const ModulePart& part) {
  ASSERT_TRUE(packs_blocks(tensor, part)) << tensor.blocks->name;
  const LinearWeight expected = pack_unpacked(tensor, part);
  const LinearWeight packed = pack_blocks(tensor, part);
  EXPECT_EQ(packed.format(), expected.format());
  ASSERT_EQ(packed.bytes(), expected.bytes());
  EXPECT_EQ(std::memcmp(packed.storage().data, expected.storage().data, expected.bytes()), 0)
      << tensor.blocks->name << " outputs " << part.out.begin << " to " << part.out.end
      << ", inputs " << part.in.begin << " to " << part.in.end;
  EXPECT_EQ(static_cast<int64_t>(packed.bytes()),
            weight_bytes(packed.format(), part.out.size(), part.in.size()));
}

TEST(BlockPacking, BytesAreThoseOfPackingUnpackedQuants) {
  for (const BlockFormatInfo& format : block_formats()) {
    // Tests whole sections, and one stored block more than a section's.
    for (const int64_t in : {768, 768 + static_cast<int>(format.weights)}) {
      for (const int64_t head : {int64_t{0}, kHead}) {
        const Stored stored = random_blocks(format, kBlockRows, in, head);
        expect_same_bytes(stored.tensor, {{0, kBlockRows}, {0, in}});
        expect_same_bytes(stored.tensor, {{48, 48 + 37}, {0, in}});
        expect_same_bytes(stored.tensor, {{16, kBlockRows}, {256, 512}});
      }
    }
  }
}

TEST(BlockPacking, ThreadsPackTheSameBytes) {
  for (const BlockFormat format : {BlockFormat::kQ8_0, BlockFormat::kQ4_K}) {
    const Stored stored = random_blocks(block_format(format), kManyRows, 768, 0);
    expect_same_bytes(stored.tensor, {{0, kManyRows}, {0, 768}});
  }
}

TEST(BlockPacking, PartsThatCutABlockAreNotPacked) {
  for (const BlockFormatInfo& format : block_formats()) {
    const Stored stored = random_blocks(format, kBlockRows, 768, 0);
    EXPECT_FALSE(packs_blocks(stored.tensor, {{0, kBlockRows}, {16, 768}})) << format.name;
    EXPECT_FALSE(packs_blocks(stored.tensor, {{0, kBlockRows}, {0, 240}})) << format.name;
  }
}

}  // namespace
}  // namespace forerun
