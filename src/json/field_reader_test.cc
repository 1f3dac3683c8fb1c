#include "json/field_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "json/json_document.h"

namespace forerun {
namespace {

JsonDocument parsed(const char* text) { return *JsonDocument::parse(text, "f.json"); }

TEST(FieldReaderTest, ReadsEachKind) {
  const JsonDocument document = parsed(R"({
    "n": 3, "x": 0.5, "b": true, "s": "text", "list": ["a", "b"], "one": "a", "ids": [1, 2],
    "id": 7, "numbers": [0.5, 1], "inner": {"n": 4}, "objects": [{"n": 5}, {"n": 6}], "no": null})");
  FieldReader fields(document.root());
  EXPECT_EQ(fields.integer("n", 0, 9), 3);
  EXPECT_EQ(fields.unsigned_integer("n", 0, 9), 3u);
  EXPECT_EQ(fields.number("x", 0, 1), 0.5f);
  EXPECT_EQ(fields.boolean("b"), true);
  EXPECT_EQ(fields.string("s"), "text");
  EXPECT_EQ(fields.choice("s", {"other", "text"}), "text");
  EXPECT_EQ(fields.strings("list"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(fields.string_or_strings("one", 1), (std::vector<std::string>{"a"}));
  EXPECT_EQ(fields.integers("ids", 0, 9), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(fields.integers("id", 0, 9), (std::vector<int64_t>{7}));
  EXPECT_EQ(fields.numbers("numbers", 0, 1), (std::vector<float>{0.5f, 1.0f}));
  EXPECT_EQ(fields.object("inner")->integer("n", 0, 9), 4);
  EXPECT_EQ(fields.objects("objects")->at(1).integer("n", 0, 9), 6);
  EXPECT_TRUE(fields.names("no"));
  EXPECT_FALSE(fields.has("no"));
  EXPECT_EQ(fields.string("no"), std::nullopt);
  EXPECT_EQ(fields.any("no"), nullptr);
  EXPECT_EQ(fields.any("absent"), nullptr);
  EXPECT_NE(fields.any_list("list"), nullptr);
  EXPECT_TRUE(fields.ok());
}

TEST(FieldReaderTest, TheFirstFailureStaysAndEverythingAfterItIsAbsent) {
  const JsonDocument document = parsed(R"({"inner": {"n": "x"}, "s": 1, "n": 2})");
  FieldReader fields(document.root());
  auto inner = fields.object("inner");
  EXPECT_EQ(inner->integer("n", 0, 9), std::nullopt);
  EXPECT_FALSE(fields.ok());
  EXPECT_EQ(fields.string("s"), std::nullopt);
  EXPECT_EQ(fields.integer("n", 0, 9), std::nullopt);
  EXPECT_EQ(fields.any("n"), nullptr);
  fields.refuse("n", "something else");
  EXPECT_EQ(fields.status().message(),
            "f.json: field \"inner.n\": found \"x\"; accepted: an integer from 0 to 9");
  EXPECT_EQ(fields.status().code(), StatusCode::kInvalidArgument);
}

// Checks the message for a wrong field of each kind.
TEST(FieldReaderTest, MessagesOfEachKind) {
  const JsonDocument document = parsed(R"({"n": 10, "list": ["a", 1], "ids": [1, -1], "s": "x",
                                           "objects": [{}, 3]})");
  const auto told = [&](auto read) {
    FieldReader fields(document.root());
    read(fields);
    return fields.status().message();
  };
  EXPECT_EQ(told([](auto& f) { f.integer("n", 0, 9); }),
            "f.json: field \"n\": found 10; accepted: an integer from 0 to 9");
  EXPECT_EQ(told([](auto& f) { f.strings("list"); }),
            "f.json: field \"list[1]\": found 1; accepted: a string");
  EXPECT_EQ(told([](auto& f) { f.string_or_strings("list", 1); }),
            "f.json: field \"list\": found a list of 2; accepted: a string or a list of up to 1 "
            "strings");
  EXPECT_EQ(told([](auto& f) { f.integers("ids", 0, 9); }),
            "f.json: field \"ids[1]\": found -1; accepted: an integer from 0 to 9");
  EXPECT_EQ(
      told([](auto& f) { f.integers("s", 0, 9); }),
      "f.json: field \"s\": found \"x\"; accepted: an integer from 0 to 9, or a list of them");
  EXPECT_EQ(told([](auto& f) {
              f.choice("s", {"a", "b", "c"});
            }),
            "f.json: field \"s\": found \"x\"; accepted: \"a\", \"b\" or \"c\"");
  EXPECT_EQ(told([](auto& f) { f.objects("objects"); }),
            "f.json: field \"objects[1]\": found 3; accepted: an object");
  EXPECT_EQ(told([](auto& f) { f.object("s"); }),
            "f.json: field \"s\": found \"x\"; accepted: an object");
  EXPECT_EQ(told([](auto& f) { f.required_integer("absent", 1, 2); }),
            "f.json: field \"absent\": found nothing; accepted: an integer from 1 to 2");
  EXPECT_EQ(told([](auto& f) { f.required_string("absent"); }),
            "f.json: field \"absent\": found nothing; accepted: a string that is not empty");
  EXPECT_EQ(told([](auto& f) {
              f.accept_only({"n", "list", "ids", "s"});
            }),
            "f.json: field \"objects\": found a list of 2; accepted: only n, list, ids, s");
  EXPECT_EQ(told([](auto& f) { f.refuse("s", "y", StatusCode::kUnsupported, "z"); }),
            "f.json: field \"s\": found z; accepted: y");
}

TEST(FieldReaderTest, DocumentsAreObjects) {
  EXPECT_EQ(JsonDocument::parse("[1, 2]", "f.json").status().message(),
            "f.json: found a list of 2; accepted: a JSON object");
  EXPECT_EQ(JsonDocument::parse("{", "f.json").status().code(), StatusCode::kCorrupt);
  EXPECT_EQ(JsonDocument::parse(R"({"a": 1, "a": 2})", "f.json", true).status().message(),
            "f.json: field \"a\": found twice; accepted: once");
  EXPECT_EQ(FieldReader(parsed(R"({"a": 1, "a": 2})").root()).integer("a", 0, 9), 2);
}

}  // namespace
}  // namespace forerun
