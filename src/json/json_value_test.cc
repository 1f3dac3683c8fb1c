#include "json/json_value.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace forerun {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

const json kFile = json::parse(R"({
  "model": {"type": "BPE", "ids": [1, "two"], "empty": null},
  "whole": 4096.0, "half": 0.5, "large": 18446744073709551615, "negative": -3, "yes": true,
  "line\nfeed": "a\"b\u0007"
})");

JsonValue file() { return JsonValue(&kFile, "dir/file.json"); }

TEST(JsonValueTest, MessagesSayWhereWhatAndWhatElse) {
  EXPECT_EQ(
      file()["model"]["ids"].element(1).as_integer(0, 9).status().message(),
      "dir/file.json: field \"model.ids[1]\": found \"two\"; accepted: an integer from 0 to 9");
  EXPECT_EQ(file()["absent"]["more"].as_string().status().message(),
            "dir/file.json: field \"absent.more\": found nothing; accepted: a string");
  EXPECT_EQ(file()["model"].as_bool().status().message(),
            "dir/file.json: field \"model\": found an object; accepted: true or false");
  EXPECT_EQ(file()["model"]["ids"].refuse("less", StatusCode::kUnsupported).message(),
            "dir/file.json: field \"model.ids\": found a list of 2; accepted: less");
  EXPECT_EQ(JsonValue(&kFile["half"], "", "top_p").as_string().status().message(),
            "top_p: found 0.5; accepted: a string");
  EXPECT_EQ(JsonValue(&kFile, "dir/file.json").as_list().status().message(),
            "dir/file.json: found an object; accepted: a list");
}

TEST(JsonValueTest, MessagesStayOnOneLine) {
  const std::string message = file()["line\nfeed"].as_bool().status().message();
  EXPECT_EQ(
      message,
      "dir/file.json: field \"line\\x0afeed\": found \"a\\\"b\\x07\"; accepted: true or false");
}

TEST(JsonValueTest, LongTextsAreCutBetweenCharacters) {
  const json text = std::string(119, 'x') + "\u00e9\u00e9";
  const std::string shown = JsonValue(&text).described();
  EXPECT_EQ(shown, "\"" + std::string(119, 'x') + "...\"");
  EXPECT_NO_THROW(json(shown).dump());
}

TEST(JsonValueTest, NumbersKeepTheirRange) {
  EXPECT_EQ(*file()["whole"].as_integer(0, 4096), 4096);
  EXPECT_FALSE(file()["whole"].as_integer(0, 4095).ok());
  EXPECT_FALSE(file()["half"].as_integer(0, 9).ok());
  EXPECT_FALSE(file()["large"].as_integer(INT64_MIN, INT64_MAX).ok());
  EXPECT_EQ(*file()["large"].as_unsigned(0, UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(*file()["whole"].as_unsigned(0, UINT64_MAX), 4096u);
  EXPECT_FALSE(file()["negative"].as_unsigned(0, UINT64_MAX).ok());
  EXPECT_EQ(*file()["negative"].as_number(-3, 0), -3.0f);
  EXPECT_FALSE(file()["yes"].as_number(0, 1).ok());
  EXPECT_NE(file()["half"].as_integer(1, INT64_MAX).status().message().find("of at least 1"),
            std::string::npos);
}

TEST(JsonValueTest, AbsentAndNullReadAsTheDefault) {
  EXPECT_EQ(*file()["model"]["empty"].string_or("none"), "none");
  EXPECT_EQ(*file()["model"]["type"].string_or("none"), "BPE");
  EXPECT_TRUE(*file()["absent"].bool_or(true));
  EXPECT_FALSE(file()["half"].bool_or(true).ok());
}

TEST(JsonValueTest, TruthIsPythons) {
  const json cases = {{"t", {1, "a", true, {{"a", 0}}, 0.1}},
                      {"f", {0, "", false, json::object(), json::array(), nullptr, 0.0}}};
  for (const json& value : cases["t"]) EXPECT_TRUE(JsonValue(&value).is_truthy()) << value;
  for (const json& value : cases["f"]) EXPECT_FALSE(JsonValue(&value).is_truthy()) << value;
  EXPECT_FALSE(JsonValue(nullptr).is_truthy());
}

TEST(JsonValueTest, KeysKeepTheOrderOfTheirKindOfDocument) {
  const auto text = R"({"b": 1, "a": 2})";
  const auto ordered = ordered_json::parse(text);
  const auto sorted = json::parse(text);
  EXPECT_EQ(*OrderedJsonValue(&ordered).keys(), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(*JsonValue(&sorted).keys(), (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace forerun
