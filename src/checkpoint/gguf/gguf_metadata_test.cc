#include "checkpoint/gguf/gguf_metadata.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <functional>
#include <string>

#include "checkpoint/gguf/gguf_header.h"
#include "checkpoint/gguf/gguf_rig.h"

namespace forerun {
namespace {

// Returns a file with a value of every type.
GgufRig every_type() {
  GgufRig rig;
  rig.value<uint8_t>("u8", 200)
      .value<int8_t>("i8", -100)
      .value<uint16_t>("u16", 65'535)
      .value<int16_t>("i16", -32'768)
      .value<uint32_t>("u32", 4'000'000'000)
      .value<int32_t>("i32", -5)
      .value<uint64_t>("u64", UINT64_MAX)
      .value<int64_t>("i64", INT64_MIN)
      .value("f32", 1.5F)
      .value("f64", 1e300)
      .value("nan", std::nanf(""))
      .value("true", true)
      .value("false", false)
      .value("text", "llama")
      .value("empty", "")
      .array<std::string>("tokens", {"a", "", "\xe2\x96\x81the"})
      .array<int32_t>("types", {1, -1, 3})
      .array<uint64_t>("large", {1, UINT64_MAX})
      .array("scores", std::vector<float>{0.5F, -2.0F})
      .array("doubles", std::vector<double>{0.25})
      .array<std::string>("none", {});
  rig.raw_value("flags", kGgufArrayNumber, gguf_bytes(7U) + gguf_bytes<uint64_t>(2) + "\1" + '\0');
  // The array has two arrays: one of an integer, one of a string.
  rig.raw_value("nested", kGgufArrayNumber,
                gguf_bytes(9U) + gguf_bytes<uint64_t>(2) + gguf_bytes(0U) +
                    gguf_bytes<uint64_t>(1) + "\7" + gguf_bytes(8U) + gguf_bytes<uint64_t>(1) +
                    gguf_string("x"));
  return rig;
}

class GgufMetadataTest : public testing::Test {
 protected:
  void SetUp() override {
    auto header = parse_gguf_header(std::as_bytes(std::span(file_)), file_.size());
    ASSERT_TRUE(header.ok()) << header.status().message();
    metadata_ = std::move(header->metadata);
  }

  std::string file_ = every_type().bytes();
  GgufMetadata metadata_;
};

TEST_F(GgufMetadataTest, ReadsEveryType) {
  GgufMetadataReader reader(metadata_);
  EXPECT_EQ(reader.integer("u8", 0, 255), 200);
  EXPECT_EQ(reader.integer("i8", -128, 127), -100);
  EXPECT_EQ(reader.integer("u16", 0, 65'535), 65'535);
  EXPECT_EQ(reader.integer("i16", -32'768, 0), -32'768);
  EXPECT_EQ(reader.integer("u32", 0, INT64_MAX), 4'000'000'000);
  EXPECT_EQ(reader.integer("i32", -5, -5), -5);
  EXPECT_EQ(reader.integer("i64", INT64_MIN, 0), INT64_MIN);
  EXPECT_EQ(reader.unsigned_integer("u64", 0, UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(reader.unsigned_integer("u8", 0, 200), 200U);
  EXPECT_EQ(reader.number("f32", 0, 2), 1.5F);
  EXPECT_EQ(reader.number("i32", -10, 10), -5.0F);
  EXPECT_EQ(reader.boolean("true"), true);
  EXPECT_EQ(reader.boolean("false"), false);
  EXPECT_EQ(reader.string("text"), "llama");
  EXPECT_EQ(reader.string("empty"), "");
  EXPECT_EQ(reader.integers("types", -1, 3), (std::vector<int64_t>{1, -1, 3}));
  EXPECT_EQ(reader.integers("u8", 0, 255), std::vector<int64_t>{200});
  EXPECT_EQ(reader.numbers("scores", -2, 2), (std::vector<float>{0.5F, -2.0F}));
  EXPECT_EQ(reader.numbers("doubles", 0, 1), std::vector<float>{0.25F});
  EXPECT_EQ(reader.numbers("f32", 0, 2), std::vector<float>{1.5F});
  EXPECT_TRUE(reader.ok()) << reader.status().message();
}

TEST(GgufTokenIds, MinusOneIsNoTokenInEveryType) {
  const std::string file = GgufRig()
                               .value<uint32_t>("u32", UINT32_MAX)
                               .value<int32_t>("i32", -1)
                               .value<int64_t>("i64", -1)
                               .value<uint32_t>("zero", 0)
                               .value<uint32_t>("far", UINT32_MAX - 1)
                               .bytes();
  const auto header = parse_gguf_header(std::as_bytes(std::span(file)), file.size());
  ASSERT_TRUE(header.ok()) << header.status().message();
  GgufMetadataReader reader(header->metadata);
  for (const char* const none : {"u32", "i32", "i64", "absent"}) {
    EXPECT_EQ(reader.token_id(none), std::nullopt) << none;
  }
  EXPECT_EQ(reader.token_id("zero"), 0);
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader.token_id("far"), std::nullopt);
  EXPECT_FALSE(reader.ok());
}

TEST_F(GgufMetadataTest, BooleansCountAsNumbersWhereThatIsAsked) {
  GgufMetadataReader reader(metadata_);
  EXPECT_EQ(reader.numbers_or_booleans("true", 0, 1), std::vector<float>{1.0F});
  EXPECT_EQ(reader.numbers_or_booleans("false", 0, 1), std::vector<float>{0.0F});
  EXPECT_EQ(reader.numbers_or_booleans("f32", 0, 2), std::vector<float>{1.5F});
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader.numbers_or_booleans("nan", 0, 2), std::nullopt);
  EXPECT_FALSE(reader.ok());
}

TEST_F(GgufMetadataTest, StringsAreViewsOfTheFile) {
  GgufMetadataReader reader(metadata_);
  const auto tokens = reader.strings("tokens");
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ(std::vector<std::string_view>(tokens->begin(), tokens->end()),
            (std::vector<std::string_view>{"a", "", "\xe2\x96\x81the"}));
  for (const std::string_view token : *tokens) {
    EXPECT_GE(token.data(), file_.data());
    EXPECT_LE(token.data() + token.size(), file_.data() + file_.size());
  }
  ASSERT_TRUE(reader.strings("none").has_value());
  EXPECT_TRUE(reader.strings("none")->empty());
}

TEST_F(GgufMetadataTest, KeepsTheOrderOfTheFileAndFindsEveryKey) {
  ASSERT_EQ(metadata_.values().size(), 23U);
  EXPECT_EQ(metadata_.values().front().key, "u8");
  EXPECT_EQ(metadata_.values().back().key, "nested");
  for (const GgufValue& value : metadata_.values()) EXPECT_EQ(metadata_.find(value.key), &value);
  EXPECT_EQ(metadata_.find("u"), nullptr);
  EXPECT_EQ(metadata_.find("zzz"), nullptr);
  const GgufValue* const nested = metadata_.find("nested");
  EXPECT_EQ(nested->element_type, GgufType::kArray);
  EXPECT_EQ(nested->count, 2U);
}

TEST_F(GgufMetadataTest, AbsentKeysAreUnset) {
  GgufMetadataReader reader(metadata_);
  EXPECT_FALSE(reader.has("absent"));
  EXPECT_TRUE(reader.has("u8"));
  EXPECT_EQ(reader.integer("absent", 0, 1), std::nullopt);
  EXPECT_EQ(reader.unsigned_integer("absent", 0, 1), std::nullopt);
  EXPECT_EQ(reader.number("absent", 0, 1), std::nullopt);
  EXPECT_EQ(reader.boolean("absent"), std::nullopt);
  EXPECT_EQ(reader.string("absent"), std::nullopt);
  EXPECT_FALSE(reader.strings("absent").has_value());
  EXPECT_EQ(reader.integers("absent", 0, 1), std::nullopt);
  EXPECT_EQ(reader.numbers("absent", 0, 1), std::nullopt);
  EXPECT_TRUE(reader.ok());
}

TEST_F(GgufMetadataTest, NamesTheKeyAndWhatIsAccepted) {
  struct Case {
    std::function<void(GgufMetadataReader&)> read;
    const char* message;
  };
  const Case cases[] = {
      {[](auto& reader) { reader.integer("u8", 0, 199); },
       "metadata key \"u8\": found 200; accepted: an integer from 0 to 199"},
      {[](auto& reader) { reader.integer("i32", 0, INT64_MAX); },
       "metadata key \"i32\": found -5; accepted: an integer from 0 to 9223372036854775807"},
      {[](auto& reader) { reader.integer("u64", INT64_MIN, INT64_MAX); },
       "metadata key \"u64\": found 18446744073709551615; accepted: an integer of 64 bits"},
      {[](auto& reader) { reader.integer("f32", 0, 9); },
       "metadata key \"f32\": found 1.5; accepted: an integer from 0 to 9"},
      {[](auto& reader) { reader.integer("true", 0, 9); },
       "metadata key \"true\": found true; accepted: an integer from 0 to 9"},
      {[](auto& reader) { reader.integer("tokens", 0, 9); },
       "metadata key \"tokens\": found an array of 3 strings; accepted: an integer from 0 to 9"},
      {[](auto& reader) { reader.unsigned_integer("i8", 0, 9); },
       "metadata key \"i8\": found -100; accepted: an integer from 0 to 9"},
      {[](auto& reader) { reader.number("nan", -DBL_MAX, DBL_MAX); },
       "metadata key \"nan\": found nan; accepted: a number of 32 bits"},
      {[](auto& reader) { reader.number("f64", -FLT_MAX, FLT_MAX); },
       "metadata key \"f64\": found 1e+300; accepted: a number of 32 bits"},
      {[](auto& reader) { reader.number("text", 0, 0.5); },
       "metadata key \"text\": found \"llama\"; accepted: a number from 0 to 0.5"},
      {[](auto& reader) { reader.boolean("u8"); },
       "metadata key \"u8\": found 200; accepted: true or false"},
      {[](auto& reader) { reader.string("f32"); },
       "metadata key \"f32\": found 1.5; accepted: a string"},
      {[](auto& reader) { reader.strings("text"); },
       "metadata key \"text\": found \"llama\"; accepted: an array of strings"},
      {[](auto& reader) { reader.strings("nested"); },
       "metadata key \"nested\": found an array of 2 arrays; accepted: an array of strings"},
      {[](auto& reader) { reader.integers("types", 0, 3); },
       "metadata key \"types\": found -1 as element 1; accepted: an integer from 0 to 3"},
      {[](auto& reader) { reader.integers("large", 0, 3); },
       "metadata key \"large\": found 18446744073709551615 as element 1; accepted: an integer from "
       "0 to 3"},
      {[](auto& reader) { reader.integers("flags", 0, 3); },
       "metadata key \"flags\": found an array of 2 booleans; accepted: an integer from 0 to 3, or "
       "an array of them"},
      {[](auto& reader) { reader.integers("scores", 0, 3); },
       "metadata key \"scores\": found 0.5 as element 0; accepted: an integer from 0 to 3"},
      {[](auto& reader) { reader.numbers("none", 0, 3); },
       "metadata key \"none\": found an array of 0 strings; accepted: a number from 0 to 3, or an "
       "array of them"},
      {[](auto& reader) { reader.numbers("scores", 0, 1); },
       "metadata key \"scores\": found -2 as element 1; accepted: a number from 0 to 1"},
      {[](auto& reader) { reader.required_integer("absent", 1, 2); },
       "metadata key \"absent\": found nothing; accepted: an integer from 1 to 2"},
      {[](auto& reader) { reader.required_string("empty"); },
       "metadata key \"empty\": found \"\"; accepted: a string that is not empty"},
      {[](auto& reader) { reader.required_string("absent"); },
       "metadata key \"absent\": found nothing; accepted: a string that is not empty"},
  };
  for (const Case& test : cases) {
    GgufMetadataReader reader(metadata_);
    test.read(reader);
    EXPECT_EQ(reader.status().message(), test.message);
    EXPECT_EQ(reader.status().code(), StatusCode::kInvalidArgument);
  }
}

TEST_F(GgufMetadataTest, RemembersTheFirstFailureAndReadsNothingAfterIt) {
  GgufMetadataReader reader(metadata_, "a.gguf");
  EXPECT_EQ(reader.integer("text", 0, 1), std::nullopt);
  EXPECT_EQ(reader.integer("u8", 0, 255), std::nullopt);
  EXPECT_EQ(reader.required_integer("i8", -128, 127), 1);
  EXPECT_FALSE(reader.has("u8"));
  reader.refuse("u8", "something else");
  EXPECT_EQ(reader.status().message(),
            "a.gguf: metadata key \"text\": found \"llama\"; accepted: an integer from 0 to 1");
}

TEST_F(GgufMetadataTest, RefusesWithTheCallersWords) {
  GgufMetadataReader reader(metadata_, "a.gguf");
  reader.refuse("text", "\"qwen2\"", StatusCode::kUnsupported);
  EXPECT_EQ(reader.status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(reader.status().message(),
            "a.gguf: metadata key \"text\": found \"llama\"; accepted: \"qwen2\"");
}

}  // namespace
}  // namespace forerun
