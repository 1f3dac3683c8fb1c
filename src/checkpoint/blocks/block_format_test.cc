// Compares decoders and encoders with the gguf package (tests/gguf/make_block_goldens.py explains
// the lines of the golden file and how blocks and floats are generated).
#include "checkpoint/blocks/block_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <ios>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/blocks/block_fields.h"
#include "checkpoint/blocks/encode_blocks.h"

namespace forerun {
namespace {

constexpr int64_t kBlocks = 64;

class Splitmix64 {
 public:
  explicit Splitmix64(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

class Fnv1a {
 public:
  void add(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

// Returns the bits of a float, which are the same for all NaN.
uint32_t bits_of(float value) {
  return std::isnan(value) ? 0x7fc00000u : std::bit_cast<uint32_t>(value);
}

// Returns the lines that begin with `kind`, without it.
std::vector<std::istringstream> golden_lines(const std::string& kind) {
  std::vector<std::istringstream> lines;
  std::ifstream file(FORERUN_SOURCE_DIR "/tests/gguf/block_goldens.txt");
  EXPECT_TRUE(file) << "tests/gguf/block_goldens.txt cannot be read";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kind + " ")) lines.emplace_back(line.substr(kind.size() + 1));
  }
  return lines;
}

const BlockFormatInfo* find_format(const std::string& name) {
  const auto formats = block_formats();
  const auto found = std::ranges::find(formats, name, &BlockFormatInfo::name);
  return found == formats.end() ? nullptr : &*found;
}

struct DecodeGolden {
  std::string name, set;
  uint32_t ggml_type = 0;
  int64_t weights = 0, bytes = 0;
  std::vector<int64_t> f16_offsets;
  uint64_t hash = 0;
  std::vector<uint32_t> first;
};

std::vector<DecodeGolden> decode_goldens() {
  std::vector<DecodeGolden> goldens;
  for (std::istringstream& line : golden_lines("decode")) {
    DecodeGolden golden;
    std::string offsets;
    line >> golden.name >> golden.ggml_type >> golden.weights >> golden.bytes >> offsets >>
        golden.set >> std::hex >> golden.hash;
    std::istringstream list(offsets == "-" ? "" : offsets);
    for (std::string offset; std::getline(list, offset, ',');) {
      golden.f16_offsets.push_back(std::stoll(offset));
    }
    for (uint32_t word = 0; line >> word;) golden.first.push_back(word);
    EXPECT_EQ(golden.first.size(), 8u) << golden.name;
    goldens.push_back(golden);
  }
  return goldens;
}

std::vector<std::byte> make_blocks(const DecodeGolden& golden) {
  constexpr uint16_t kSpecial[8] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x7bff, 0x7c00, 0xfc00, 0x7e01};
  std::vector<std::byte> blocks(kBlocks * golden.bytes);
  Splitmix64 random(golden.ggml_type);
  uint64_t word = 0;
  for (size_t i = 0; i < blocks.size(); ++i, word >>= 8) {
    if (i % 8 == 0) word = random.next();
    blocks[i] = static_cast<std::byte>(word & 0xff);
  }
  for (size_t field = 0; field < golden.f16_offsets.size(); ++field) {
    for (int64_t block = 0; block < kBlocks; ++block) {
      std::byte* bits = &blocks[block * golden.bytes + golden.f16_offsets[field]];
      if (golden.set == "finite") bits[1] &= std::byte{0xbf};
      if (golden.set == "special") {
        const uint16_t value = kSpecial[(block >> (3 * field)) & 7];
        bits[0] = static_cast<std::byte>(value & 0xff);
        bits[1] = static_cast<std::byte>(value >> 8);
      }
    }
  }
  return blocks;
}

TEST(BlockFormat, TableAgreesWithTheGoldens) {
  std::set<std::string> names;
  std::set<uint32_t> types;
  for (const DecodeGolden& golden : decode_goldens()) {
    const BlockFormatInfo* format = find_format(golden.name);
    ASSERT_NE(format, nullptr) << golden.name;
    EXPECT_EQ(format->ggml_type, golden.ggml_type) << golden.name;
    EXPECT_EQ(format->weights, golden.weights) << golden.name;
    EXPECT_EQ(format->bytes, golden.bytes) << golden.name;
    EXPECT_EQ(&block_format(format->format), format);
    names.insert(golden.name);
    types.insert(golden.ggml_type);
  }
  for (const BlockFormatInfo& format : block_formats()) {
    EXPECT_TRUE(names.contains(std::string(format.name))) << format.name << " has no golden";
  }
  for (uint32_t type = 0; type < 100; ++type) {
    const BlockFormatInfo* format = find_ggml_block_format(type);
    ASSERT_EQ(format != nullptr, types.contains(type)) << type;
    if (format == nullptr) continue;
    EXPECT_EQ(format->ggml_type, type);
  }
}

TEST(BlockFormat, DecodesAsTheGgufPackageDoes) {
  for (const DecodeGolden& golden : decode_goldens()) {
    SCOPED_TRACE(golden.name + " " + golden.set);
    const BlockFormatInfo* format = find_format(golden.name);
    ASSERT_NE(format, nullptr);
    std::vector<std::byte> blocks = make_blocks(golden);
    blocks.insert(blocks.begin(), std::byte{});  // misaligned
    std::vector<float> values(kBlocks * format->weights + 1, -7.0f);
    format->decode(blocks.data() + 1, kBlocks, values.data());
    EXPECT_EQ(values.back(), -7.0f) << "written beyond the last weight";
    values.pop_back();
    for (size_t i = 0; i < golden.first.size(); ++i) {
      EXPECT_EQ(bits_of(values[i]), golden.first[i]) << "weight " << i << ": " << values[i];
    }
    Fnv1a hash;
    for (const float value : values) {
      for (int shift = 0; shift < 32; shift += 8) {
        hash.add(static_cast<uint8_t>(bits_of(value) >> shift));
      }
    }
    EXPECT_EQ(hash.value(), golden.hash);
  }
}

TEST(BlockFields, AreWhatDecodingIsComputedFrom) {
  for (const DecodeGolden& golden : decode_goldens()) {
    SCOPED_TRACE(golden.name + " " + golden.set);
    const BlockFormatInfo& format = *find_format(golden.name);
    const BlockLayout& layout = *format.layout;
    const std::vector<std::byte> blocks = make_blocks(golden);
    std::vector<float> values(kBlocks * format.weights);
    format.decode(blocks.data(), kBlocks, values.data());
    BlockFields fields{};
    int32_t largest_q = 0;
    for (int64_t i = 0; i < kBlocks * format.weights; ++i) {
      const int64_t weight = i % format.weights, group = weight / layout.group;
      if (weight == 0) {
        unpack_block(format.format, &blocks[i / format.weights * format.bytes], fields);
      }
      const int32_t q = fields.q[weight];
      const int32_t level = layout.code_book.empty() ? q - layout.zero : layout.code_book[q];
      const float d = block_scale(layout, fields.d), dmin = to_float(f16{fields.dmin});
      float value = d * static_cast<float>(fields.scale[group]) * static_cast<float>(level);
      if (layout.has_min) value -= dmin * static_cast<float>(fields.min[group]);
      ASSERT_TRUE(layout.has_min || fields.dmin == 0);
      ASSERT_EQ(bits_of(value), bits_of(values[i])) << "weight " << i;
      largest_q = std::max(largest_q, q);
    }
    EXPECT_EQ(largest_q, (1 << layout.bits) - 1);
    EXPECT_TRUE(layout.code_book.empty() || layout.code_book.size() == 1u << layout.bits);
  }
}

TEST(BlockFields, HoldEveryBitOfABlockAndNothingElse) {
  static_assert(std::has_unique_object_representations_v<BlockFields>);
  for (const DecodeGolden& golden : decode_goldens()) {
    const BlockFormatInfo& format = *find_format(golden.name);
    SCOPED_TRACE(golden.name);
    std::vector<std::byte> blocks = make_blocks(golden);
    const auto unpacked = [&] {
      BlockFields fields;
      std::memset(&fields, 0x5a, sizeof(fields));
      format.unpack(blocks.data(), fields);
      return fields;
    };
    const BlockFields before = unpacked();
    for (int64_t bit = 0; bit < 8 * format.bytes; ++bit) {
      const std::byte flip{static_cast<uint8_t>(1 << (bit % 8))};
      blocks[bit / 8] ^= flip;
      const BlockFields after = unpacked();
      EXPECT_NE(std::memcmp(&before, &after, sizeof(before)), 0) << "bit " << bit;
      blocks[bit / 8] ^= flip;
    }
    for (int64_t i = format.weights; i < 256; ++i) EXPECT_EQ(before.q[i], 0x5a);
    for (int64_t group = format.weights / format.layout->group; group < 16; ++group) {
      EXPECT_EQ(before.scale[group], 0x5a);
      EXPECT_EQ(before.min[group], 0x5a);
    }
  }
}

TEST(BlockFields, AnExponentIsHalfItsPowerOfTwo) {
  const BlockLayout& layout = *block_format(BlockFormat::kMxfp4).layout;
  for (int32_t exponent = 0; exponent < 256; ++exponent) {
    EXPECT_EQ(block_scale(layout, static_cast<uint16_t>(exponent)),
              std::ldexp(1.0f, exponent - 128));
  }
}

std::vector<float> make_floats(uint32_t ggml_type, const std::string& set) {
  Splitmix64 random(ggml_type);
  std::vector<float> values;
  for (int32_t block = 0; block < kBlocks; ++block) {
    const bool even = block % 2 == 0;
    for (int32_t i = 0; i < 32; ++i) {
      const uint64_t r = random.next();
      const float whole = static_cast<float>(static_cast<int32_t>(r >> 40) - (1 << 23));
      float value = 0.0f;
      if (set == "unit") value = std::ldexp(whole, -23);
      if (set == "wide") value = std::ldexp(whole, block - 63);
      if (set == "large") value = std::ldexp(whole, 103);
      if (set == "tiny") value = std::ldexp(whole, -143);
      if (set == "halves" && even) value = static_cast<float>(r % 509) / 2 - 127.0f;
      if (set == "halves" && !even) value = static_cast<float>(r % 31) / 2 - 8.0f;
      if (set == "halves" && i == 0) value = even ? 127.0f : -8.0f;
      if (set == "halves" && i == 1 && !even) value = 7.0f;
      if (set == "halves" && block % 4 >= 2) {
        value *= 1.0f + static_cast<float>(2 * block + 1) / 2048.0f;
      }
      constexpr float kConstants[4] = {0.0f, -0.0f, 1.0f, -1.0f};
      if (set == "constant") value = kConstants[block % 4];
      values.push_back(value);
    }
  }
  return values;
}

TEST(EncodeBlocks, EncodesAsTheGgufPackageDoes) {
  std::set<std::string> encoded_formats;
  for (std::istringstream& line : golden_lines("encode")) {
    std::string name, set, first;
    uint64_t golden_hash = 0;
    line >> name >> set >> std::hex >> golden_hash >> first;
    SCOPED_TRACE(name + " " + set);
    const BlockFormatInfo& format = *find_format(name);
    const EncodeBlocks encode = block_encoder(format.format);
    ASSERT_NE(encode, nullptr);
    const std::vector<float> values = make_floats(format.ggml_type, set);
    std::vector<std::byte> blocks(kBlocks * format.bytes + 1, std::byte{0x5a});
    encode(values.data(), kBlocks, blocks.data());
    EXPECT_EQ(blocks.back(), std::byte{0x5a}) << "written beyond the last block";
    blocks.pop_back();
    Fnv1a hash;
    for (const std::byte byte : blocks) hash.add(std::to_integer<uint8_t>(byte));
    EXPECT_EQ(hash.value(), golden_hash) << "the first bytes are " << first;
    encoded_formats.insert(name);
  }
  for (const BlockFormatInfo& format : block_formats()) {
    EXPECT_EQ(block_encoder(format.format) != nullptr,
              encoded_formats.contains(std::string(format.name)))
        << format.name;
  }
}

// The reference casts numbers that do not fit into a byte here, so its result depends on the
// machine.
TEST(EncodeBlocks, QuantizesToZeroWhatHasNoFiniteInverseScale) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const BlockFormat format : {BlockFormat::kQ8_0, BlockFormat::kQ4_0, BlockFormat::kQ4_1}) {
    const int64_t header = format == BlockFormat::kQ4_1 ? 4 : 2;
    SCOPED_TRACE(block_format(format).name);
    for (const float value : {0x1p-140f, kNan}) {
      std::vector<float> values(32, value);
      values[5] = 0.0f;
      std::vector<std::byte> block(block_format(format).bytes, std::byte{0x5a});
      block_encoder(format)(values.data(), 1, block.data());
      for (size_t i = header; i < block.size(); ++i) EXPECT_EQ(block[i], std::byte{}) << i;
    }
  }
  std::vector<float> values(32, kMax);
  values[0] = -kMax;  // the range of the block is infinite
  std::vector<std::byte> block(20, std::byte{0x5a});
  block_encoder(BlockFormat::kQ4_1)(values.data(), 1, block.data());
  for (size_t i = 4; i < block.size(); ++i) EXPECT_EQ(block[i], std::byte{}) << i;
}

}  // namespace
}  // namespace forerun
