#include "checkpoint/safetensors_header.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace forerun {
namespace {

// Returns a file's bytes: length, header, `data_bytes` zeros.
std::string file_of(const std::string& header, size_t data_bytes) {
  std::string file(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, '\0');
}

Result<std::vector<SafetensorsEntry>> parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), file.size());
}

std::string error_of(const std::string& header, size_t data_bytes) {
  const auto entries = parse(file_of(header, data_bytes));
  EXPECT_FALSE(entries.ok()) << header;
  EXPECT_EQ(entries.status().code(), StatusCode::kCorrupt) << header;
  return entries.status().message();
}

constexpr const char* kTwo =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
    R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}  )";

TEST(SafetensorsHeader, ReadsEntriesInTheOrderOfTheirOffsets) {
  const std::string file = file_of(kTwo, 16);
  const auto entries = parse(file);
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  ASSERT_EQ(entries->size(), 2u);
  const SafetensorsEntry& first = (*entries)[0];
  const SafetensorsEntry& second = (*entries)[1];
  EXPECT_EQ(first.name, "a");
  EXPECT_EQ(first.dtype, DType::kF32);
  EXPECT_TRUE(first.shape.empty());
  EXPECT_EQ(first.end, file.size() - 12);
  EXPECT_EQ(second.name, "b");
  EXPECT_EQ(second.dtype, DType::kBf16);
  EXPECT_EQ(second.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(second.begin, file.size() - 12);
  EXPECT_EQ(second.end, file.size());
}

TEST(SafetensorsHeader, AcceptsNoTensorsAndEmptyTensors) {
  EXPECT_TRUE(parse(file_of("{}", 0)).ok());
  const auto entries = parse(file_of(R"({"a":{"dtype":"I64","shape":[0,7],"data_offsets":[0,0]},)"
                                     R"("b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                     1));
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  EXPECT_EQ(entries->size(), 2u);
}

TEST(SafetensorsHeader, KeepsForeignDTypesByName) {
  const auto entries =
      parse(file_of(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8));
  ASSERT_TRUE(entries.ok());
  EXPECT_FALSE(entries->front().dtype.has_value());
  EXPECT_EQ(entries->front().dtype_name, "F64");
}

TEST(SafetensorsHeader, EveryTruncationIsRefused) {
  const std::string file = file_of(kTwo, 16);
  ASSERT_TRUE(parse(file).ok());
  for (size_t length = 0; length < file.size(); ++length) {
    const auto entries = parse(file.substr(0, length));
    ASSERT_FALSE(entries.ok()) << length;
    EXPECT_NE(entries.status().message().find("truncated"), std::string::npos)
        << length << ": " << entries.status().message();
  }
}

TEST(SafetensorsHeader, ExtraBytesAreRefused) {
  const auto entries = parse(file_of(kTwo, 17));
  ASSERT_FALSE(entries.ok());
  EXPECT_NE(entries.status().message().find("where the last tensor ends"), std::string::npos);
}

TEST(SafetensorsHeader, LengthBeyondTheLimitIsRefused) {
  std::string file(4096, '\xff');
  EXPECT_NE(parse(file).status().message().find("not a safetensors file"), std::string::npos);
}

TEST(SafetensorsHeader, NamesTheTensorAndTheReason) {
  struct Case {
    const char* header;
    size_t data_bytes;
    const char* part;
  };
  const Case cases[] = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
       "found 4 bytes; accepted: 8"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "found at byte"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 8, "found bytes 4 to 0"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, "tensor \"b\": found at byte"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, "tensor \"a\": found twice"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       "found key \"dtype\"; accepted:"},
      {R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4, "found dtype \"F33\""},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4,
       "found fewer than two numbers in \"data_offsets\""},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "more than two"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "a negative number"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "no integer"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4,
       "exceeds 2^64"},
      {R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})", 4,
       "found a dimension of 9223372036854775808; accepted: at most 2^63 - 1"},
      {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1, "whole bytes"},
      {R"({"a":[1]})", 0, "found a list"},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "found a list"},
      {R"({"__metadata__":{"a":1}})", 0, "found a number"},
      {R"([])", 0, "does not begin with"},
      {R"({"a":{)", 0, "not valid JSON"},
      {R"({} {})", 0, "not valid JSON"},
      {"{\"\xff\":{}}", 0, "not valid JSON"},
      {R"({"x\ny":{"dtype":"F32","shape":[1]}})", 4, "tensor \"x\\x0ay\""},
  };
  for (const Case& test : cases) {
    const std::string message = error_of(test.header, test.data_bytes);
    EXPECT_NE(message.find(test.part), std::string::npos) << test.header << "\n -> " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << "one line";
  }
}

TEST(SafetensorsHeader, DeepNestingIsRefusedWithoutDeepRecursion) {
  EXPECT_NE(error_of("{\"a\":" + std::string(1 << 20, '['), 0).find("found a list"),
            std::string::npos);
}

}  // namespace
}  // namespace forerun
