#include "checkpoint/gguf/gguf_header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "checkpoint/gguf/ggml_types.h"
#include "checkpoint/gguf/gguf_rig.h"

namespace forerun {
namespace {

constexpr uint32_t kTypeF32 = 0;
constexpr uint32_t kQ4_0 = 2;
constexpr uint32_t kIq2Xxs = 16;
constexpr uint32_t kTypeI8 = 24;
constexpr uint64_t kHuge = uint64_t{1} << 60;

Result<GgufHeader> parse_gguf(const std::string& file) {
  return parse_gguf_header(std::as_bytes(std::span(file)), file.size());
}

std::string zeros(size_t bytes) { return std::string(bytes, '\0'); }

// Returns a file with one value of many kinds; its last byte belongs to a tensor.
GgufRig small_file() {
  GgufRig rig;
  rig.value("general.architecture", "llama")
      .value<uint32_t>("llama.block_count", 2)
      .value("flag", true)
      .array<std::string>("tokens", {"a", "bc"})
      .array<int32_t>("types", {1, 2, 3})
      .tensor("a", kTypeF32, {2, 3}, zeros(24))
      .tensor("b", kQ4_0, {2, 64}, zeros(72));
  return rig;
}

TEST(GgufHeader, ReadsTensorsInTheOrderOfTheirOffsets) {
  for (const uint32_t version : {2U, 3U}) {
    GgufRig rig = small_file();
    rig.version = version;
    rig.tensor("d", kTypeI8, {3, 0}, "", 0).tensor("c", kTypeI8, {}, "x");
    const std::string file = rig.bytes();
    const auto header = parse_gguf(file);
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(header->version, version);
    EXPECT_EQ(header->alignment, 32U);
    EXPECT_EQ(header->metadata.values().size(), 5U);
    ASSERT_EQ(header->tensors.size(), 4U);
    const GgufTensor& d = header->tensors[0];
    const GgufTensor& a = header->tensors[1];
    const GgufTensor& b = header->tensors[2];
    const GgufTensor& c = header->tensors[3];
    EXPECT_EQ(d.name, "d");
    EXPECT_EQ(d.shape, (std::vector<int64_t>{3, 0}));
    EXPECT_EQ(d.begin, a.begin);
    EXPECT_EQ(d.end, d.begin);
    EXPECT_EQ(a.name, "a");
    EXPECT_EQ(a.ggml_type, kTypeF32);
    EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(a.begin % 32, 0U);
    EXPECT_LT(a.begin - rig.header().size(), 32U);
    EXPECT_EQ(a.end - a.begin, 24U);
    EXPECT_EQ(b.name, "b");
    EXPECT_EQ(b.begin - a.begin, 32U);
    EXPECT_EQ(b.end - b.begin, 72U);
    EXPECT_TRUE(c.shape.empty());
    EXPECT_EQ(c.end, file.size());
    EXPECT_EQ(file[c.begin], 'x');
  }
}

TEST(GgufHeader, AcceptsNoTensorsAndNoMetadata) {
  const auto header = parse_gguf(GgufRig().bytes());
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_TRUE(header->tensors.empty());
  EXPECT_TRUE(header->metadata.values().empty());
}

TEST(GgufHeader, OtherAlignmentsMoveTheTensors) {
  for (const uint32_t alignment : {8U, 64U, 4096U}) {
    GgufRig rig;
    rig.alignment = alignment;
    rig.value("general.alignment", alignment)
        .tensor("a", kTypeI8, {1}, "x")
        .tensor("b", kTypeI8, {1}, "y");
    const std::string file = rig.bytes();
    const auto header = parse_gguf(file);
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(header->alignment, alignment);
    EXPECT_EQ(header->tensors[0].begin % alignment, 0U);
    EXPECT_EQ(file[header->tensors[0].begin], 'x');
    EXPECT_EQ(file[header->tensors[1].begin], 'y');
  }
}

TEST(GgufHeader, KnowsTheSizesOfEveryType) {
  struct Type {
    uint32_t number;
    const char* name;
    uint64_t weights;
    uint64_t bytes;
  };
  const Type types[] = {
      {0, "F32", 1, 4},       {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
      {3, "Q4_1", 32, 20},    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
      {8, "Q8_0", 32, 34},    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},
      {12, "Q4_K", 256, 144}, {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210},
      {20, "IQ4_NL", 32, 18}, {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},
      {25, "I16", 1, 2},      {26, "I32", 1, 4},        {27, "I64", 1, 8},
      {28, "F64", 1, 8},      {30, "BF16", 1, 2},       {39, "MXFP4", 32, 17},
  };
  GgufRig rig;
  for (const Type& type : types) {
    rig.tensor(type.name, type.number, {3, 2 * type.weights}, zeros(6 * type.bytes));
  }
  const std::string file = rig.bytes();
  const auto header = parse_gguf(file);
  ASSERT_TRUE(header.ok()) << header.status().message();
  ASSERT_EQ(header->tensors.size(), std::size(types));
  for (size_t idx = 0; idx < std::size(types); ++idx) {
    const GgufTensor& tensor = header->tensors[idx];
    EXPECT_EQ(tensor.name, types[idx].name);
    EXPECT_EQ(ggml_type_name(tensor.ggml_type), types[idx].name);
    EXPECT_EQ(tensor.end - tensor.begin, 6 * types[idx].bytes) << tensor.name;
  }
  EXPECT_EQ(header->tensors.back().end, file.size());
}

TEST(GgufHeader, KeepsUnknownTypesByNumber) {
  GgufRig rig;
  rig.tensor("a", kIq2Xxs, {2, 256}, zeros(132)).tensor("b", 99, {7}, zeros(5));
  rig.tensor("c", kTypeI8, {1}, "x");
  const std::string file = rig.bytes();
  const auto header = parse_gguf(file);
  ASSERT_TRUE(header.ok()) << header.status().message();
  ASSERT_EQ(header->tensors.size(), 3U);
  EXPECT_EQ(header->tensors[0].ggml_type, kIq2Xxs);
  EXPECT_EQ(header->tensors[0].end, header->tensors[0].begin);
  EXPECT_EQ(header->tensors[1].ggml_type, 99U);
  EXPECT_EQ(ggml_type_name(kIq2Xxs), "IQ2_XXS");
  EXPECT_EQ(ggml_type_name(31), "Q4_0_4_4");
  EXPECT_EQ(ggml_type_name(41), "Q1_0");
  EXPECT_EQ(ggml_type_name(99), "type 99");
  EXPECT_FALSE(ggml_layout(kIq2Xxs).has_value());
  EXPECT_FALSE(ggml_layout(99).has_value());
}

TEST(GgufHeader, KnowsWhichTypesAreDTypes) {
  EXPECT_EQ(ggml_dtype(0), DType::kF32);
  EXPECT_EQ(ggml_dtype(1), DType::kF16);
  EXPECT_EQ(ggml_dtype(30), DType::kBf16);
  EXPECT_EQ(ggml_dtype(27), DType::kI64);
  EXPECT_EQ(ggml_dtype(28), std::nullopt);  // F64
  EXPECT_EQ(ggml_dtype(kQ4_0), std::nullopt);
  for (uint32_t type = 0; type < 64; ++type) {
    const auto dtype = ggml_dtype(type);
    if (!dtype) continue;
    EXPECT_EQ(ggml_layout(type)->bytes, static_cast<int64_t>(dtype_bytes(*dtype)));
  }
}

TEST(GgufHeader, EveryTruncationIsRefused) {
  const std::string file = small_file().bytes();
  ASSERT_TRUE(parse_gguf(file).ok());
  for (size_t length = 0; length < file.size(); ++length) {
    const std::string cut = file.substr(0, length);
    const auto header = parse_gguf(cut);
    ASSERT_FALSE(header.ok()) << length;
    EXPECT_EQ(header.status().code(), StatusCode::kCorrupt) << length;
    EXPECT_NE(header.status().message().find("truncated"), std::string::npos)
        << length << ": " << header.status().message();
  }
}

// The header alone is enough if the size of the whole file is correct.
TEST(GgufHeader, ReadsNothingBehindTheHeader) {
  const GgufRig rig = small_file();
  const std::string header = rig.header();
  EXPECT_TRUE(parse_gguf_header(std::as_bytes(std::span(header)), rig.bytes().size()).ok());
  EXPECT_FALSE(parse_gguf_header(std::as_bytes(std::span(header)), rig.bytes().size() - 1).ok());
}

// Whatever byte changes, the header must be refused or keep its promises.
TEST(GgufHeader, EveryChangedByteIsRefusedOrHarmless) {
  const GgufRig rig = small_file();
  const std::string file = rig.bytes();
  size_t refused = 0;
  for (size_t idx = 0; idx < rig.header().size(); ++idx) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = file;
      changed[idx] = static_cast<char>(value);
      const auto header = parse_gguf(changed);
      if (!header.ok()) {
        ++refused;
        ASSERT_FALSE(header.status().message().empty());
        ASSERT_EQ(header.status().message().find('\n'), std::string::npos);
        continue;
      }
      for (const GgufTensor& tensor : header->tensors) {
        ASSERT_LE(tensor.begin, tensor.end);
        ASSERT_LE(tensor.end, changed.size());
      }
    }
  }
  EXPECT_GT(refused, 1000U);
}

// Returns a value of `depth` nested arrays, the innermost one empty.
std::string arrays(int depth) {
  std::string bytes;
  for (int level = 1; level < depth; ++level) bytes += gguf_bytes(9U) + gguf_bytes<uint64_t>(1);
  return bytes + gguf_bytes(0U) + gguf_bytes<uint64_t>(0);
}

TEST(GgufHeader, ArraysMayNestALittle) {
  const std::string good = GgufRig().raw_value("k", 9, arrays(kMaxGgufArrayDepth)).bytes();
  EXPECT_TRUE(parse_gguf(good).ok()) << parse_gguf(good).status().message();
  const std::string bad = GgufRig().raw_value("k", 9, arrays(1 << 16)).bytes();
  EXPECT_EQ(
      parse_gguf(bad).status().message(),
      "metadata key \"k\": found arrays within arrays, more than 4 deep; accepted: at most 4");
}

TEST(GgufHeader, NamesThePlaceAndTheReason) {
  constexpr auto kCorrupt = StatusCode::kCorrupt;
  constexpr auto kUnsupported = StatusCode::kUnsupported;
  using Rig = GgufRig;
  struct Case {
    std::function<void(Rig&)> spoil;
    StatusCode code;
    const char* part;
  };
  const Case cases[] = {
      {[](Rig& rig) { rig.version = 1; }, kUnsupported, "version: found 1; accepted: 2 and 3"},
      {[](Rig& rig) { rig.version = 0; }, kUnsupported, "version: found 0; accepted"},
      {[](Rig& rig) { rig.version = 4; }, kUnsupported, "version: found 4; accepted"},
      {[](Rig& rig) { rig.version = 0x03000000; }, kUnsupported,
       "byte order: found a big-endian file; accepted: little-endian"},
      {[](Rig& rig) { rig.num_values = kHuge; }, kCorrupt,
       "header: found 1152921504606846976 metadata values; accepted: at most"},
      {[](Rig& rig) { rig.num_tensors = kHuge; }, kCorrupt,
       "header: found 1152921504606846976 tensors; accepted: at most"},
      {[](Rig& rig) { rig.num_values = UINT64_MAX; }, kCorrupt, "header: found 18446744073709551"},
      {[](Rig& rig) { rig.raw_value("k", 13, zeros(8)); }, kCorrupt,
       "metadata key \"k\": found a value of type 13; accepted: types 0 to 12"},
      {[](Rig& rig) { rig.raw_value("k", UINT32_MAX, zeros(8)); }, kCorrupt,
       "found a value of type 4294967295"},
      {[](Rig& rig) { rig.raw_value("k", 8, gguf_bytes(kHuge)); }, kCorrupt,
       "metadata key \"k\": found 0 bytes at byte 45; accepted: at least 1152921504606846976 (is "
       "the file truncated?)"},
      {[](Rig& rig) { rig.raw_value("k", 8, gguf_bytes(UINT64_MAX)); }, kCorrupt,
       "accepted: at least 18446744073709551615"},
      {[](Rig& rig) { rig.raw_value("k", 9, gguf_bytes(13U) + zeros(8)); }, kCorrupt,
       "found an array of values of type 13"},
      {[](Rig& rig) { rig.raw_value("k", 9, gguf_bytes(4U) + gguf_bytes(kHuge)); }, kCorrupt,
       "metadata key \"k\": found 1152921504606846976 array elements; accepted: at most 0"},
      {[](Rig& rig) { rig.raw_value("k", 9, gguf_bytes(8U) + gguf_bytes(kHuge)); }, kCorrupt,
       "found 1152921504606846976 array elements"},
      {[](Rig& rig) { rig.raw_value("k", 9, gguf_bytes(9U) + gguf_bytes(kHuge)); }, kCorrupt,
       "found 1152921504606846976 array elements"},
      {[](Rig& rig) {
         rig.raw_value(
             "k", 9,
             gguf_bytes(8U) + gguf_bytes<uint64_t>(2) + gguf_string("a") + gguf_bytes(kHuge));
       },
       kCorrupt, "metadata key \"k\": element 1: found 0 bytes"},
      {[](Rig& rig) { rig.raw_value("k", 7, "\2"); }, kCorrupt,
       "metadata key \"k\": found a boolean of 2; accepted: 0 or 1"},
      {[](Rig& rig) { rig.raw_value("k", 9, gguf_bytes(7U) + gguf_bytes<uint64_t>(2) + "\1\3"); },
       kCorrupt, "found a boolean of 3"},
      {[](Rig& rig) { rig.value<uint8_t>("k", 1).value("x\ny", true).value<uint8_t>("x\ny", 1); },
       kCorrupt, "metadata key \"x\\x0ay\": found twice; accepted: every key once"},
      {[](Rig& rig) { rig.value<uint32_t>("general.alignment", 0); }, kCorrupt,
       "metadata key \"general.alignment\": found 0; accepted: a power of two of at least 8"},
      {[](Rig& rig) { rig.value<uint32_t>("general.alignment", 24); }, kCorrupt, "found 24;"},
      {[](Rig& rig) { rig.value<uint32_t>("general.alignment", 4); }, kCorrupt, "found 4;"},
      {[](Rig& rig) { rig.value<int64_t>("general.alignment", -32); }, kCorrupt, "found -32;"},
      {[](Rig& rig) { rig.value("general.alignment", "32"); }, kCorrupt, "found \"32\";"},
      {[](Rig& rig) {
         rig.tensor("a", kTypeF32, {1, 1, 1, 1, 1}, zeros(4));
       },
       kCorrupt, "tensor \"a\": found 5 dimensions; accepted: up to 4"},
      {[](Rig& rig) { rig.tensor("a", kTypeF32, {uint64_t{1} << 63}, ""); }, kCorrupt,
       "found an extent of 9223372036854775808; accepted: at most 2^63 - 1"},
      {[](Rig& rig) {
         rig.tensor("a", kTypeF32, {1U << 31, 1U << 31, 4}, "");
       },
       kCorrupt, "found a shape of 2^63 weights or bytes or more"},
      {[](Rig& rig) {
         rig.tensor("a", kTypeF32, {0, uint64_t{1} << 40, uint64_t{1} << 40}, "");
       },
       kCorrupt, "found a shape of 2^63 weights or bytes or more"},
      {[](Rig& rig) {
         rig.tensor("a", kQ4_0, {32, 33}, zeros(4000));
       },
       kCorrupt,
       "tensor \"a\": found rows of 33 weights; accepted: a multiple of 32, the block of Q4_0"},
      {[](Rig& rig) { rig.tensor("a", kQ4_0, {}, zeros(18)); }, kCorrupt,
       "found rows of 1 weights"},
      {[](Rig& rig) { rig.tensor("a", kTypeF32, {2}, zeros(8), 4); }, kCorrupt,
       "tensor \"a\": found at byte 4 of the data; accepted: a multiple of 32"},
      {[](Rig& rig) { rig.tensor("a", kTypeF32, {2}, zeros(7)); }, kCorrupt,
       "tensor \"a\": found 8 bytes at byte 0 of the data; accepted: within the 7 bytes of data in "
       "the file (is it truncated?)"},
      {[](Rig& rig) { rig.tensor("a", kTypeF32, {2}, zeros(8), 32); }, kCorrupt,
       "found 8 bytes at byte 32"},
      {[](Rig& rig) { rig.tensor("a", kTypeF32, {2}, zeros(8), UINT64_MAX - 31); }, kCorrupt,
       "found 8 bytes at byte 18446744073709551584"},
      {[](Rig& rig) { rig.tensor("a", 99, {2}, zeros(8), 32); }, kCorrupt,
       "found 0 bytes at byte 32"},
      {[](Rig& rig) {
         rig.tensor("a", kTypeF32, {9}, zeros(36)).tensor("b", kTypeF32, {1}, "1234", 32);
       },
       kCorrupt, "tensor \"b\": found at byte"},
      {[](Rig& rig) {
         rig.tensor("a", kTypeF32, {1}, zeros(64)).tensor("b", kTypeF32, {1}, "1234", 0);
       },
       kCorrupt, "where tensor \"a\" ends"},
      {[](Rig& rig) { rig.tensor("a", kTypeF32, {9}, zeros(36)).tensor("b", 99, {1}, "1234", 32); },
       kCorrupt, "tensor \"b\": found at byte"},
      {[](Rig& rig) {
         rig.tensor("a", kTypeF32, {1}, zeros(4)).tensor("a", kTypeF32, {1}, zeros(4));
       },
       kCorrupt, "tensor \"a\": found twice; accepted: every name once"},
  };
  for (const Case& test : cases) {
    GgufRig rig;
    test.spoil(rig);
    const std::string file = rig.bytes();
    const auto header = parse_gguf(file);
    ASSERT_FALSE(header.ok()) << test.part;
    EXPECT_EQ(header.status().code(), test.code) << test.part;
    const std::string message = header.status().message();
    EXPECT_NE(message.find(test.part), std::string::npos) << test.part << "\n -> " << message;
    EXPECT_NE(message.find("; accepted: "), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << "one line";
  }
}

TEST(GgufHeader, AFileThatEndsBeforeItsDataBeginIsRefused) {
  const GgufRig rig = GgufRig().tensor("a", kTypeI8, {0}, "");
  ASSERT_NE(rig.header().size(), rig.bytes().size());
  EXPECT_TRUE(parse_gguf(rig.bytes()).ok());
  const std::string cut = rig.header();
  EXPECT_EQ(
      parse_gguf(cut).status().message(),
      "tensor \"a\": found 0 bytes at byte 0 of the data; accepted: within the 0 bytes of data "
      "in the file (is it truncated?)");
}

TEST(GgufHeader, AnotherMagicIsRefused) {
  std::string file = small_file().bytes();
  file.replace(0, 4, "ggjt");
  EXPECT_EQ(parse_gguf(file).status().message(),
            "magic: found \"ggjt\"; accepted: \"GGUF\" (not a GGUF file?)");
}

}  // namespace
}  // namespace forerun
