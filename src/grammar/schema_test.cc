#include "grammar/schema.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/testing.h"

namespace forerun::grammar {
namespace {

// Checks which texts a schema accepts with SchemaReading::kIntent.
void check_schema(const std::string& schema, const std::vector<std::string>& accepted,
                  const std::vector<std::string>& refused) {
  const Result<Grammar> grammar = Grammar::from_json_schema(schema, {}, SchemaReading::kIntent);
  ASSERT_TRUE(grammar.ok()) << schema << "\n" << grammar.status().message();
  for (const std::string& text : accepted) {
    EXPECT_TRUE(matches(*grammar, text)) << schema << "\nrefuses " << text;
  }
  for (const std::string& text : refused) {
    EXPECT_FALSE(matches(*grammar, text)) << schema << "\naccepts " << text;
  }
}

Status schema_refusal(const std::string& schema, const GrammarLimits& limits = {}) {
  return Grammar::from_json_schema(schema, limits, SchemaReading::kIntent).status();
}

void expect_schema_refused(const std::string& schema, StatusCode code,
                           const std::vector<std::string>& parts) {
  const Status status = schema_refusal(schema);
  EXPECT_EQ(status.code(), code) << schema << "\n" << status.message();
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos)
        << schema << "\nlacks " << part << ": " << status.message();
  }
}

constexpr StatusCode kInvalid = StatusCode::kInvalidArgument;
constexpr StatusCode kUnsupported = StatusCode::kUnsupported;
constexpr StatusCode kExhausted = StatusCode::kResourceExhausted;

TEST(Schema, SimpleTypes) {
  check_schema(R"({"type":"boolean"})", {"true", "false"}, {"True", "", "null", " true"});
  check_schema(R"({"type":"null"})", {"null"}, {"0"});
  check_schema(R"({"type":["string","null"]})", {"null", "\"\""}, {"1"});
  check_schema("true", {"1", "{}", "[]", "\"x\"", "null", "[1, {\"a\": [true]}]"},
               {"", "[1,]", "{a:1}"});
  check_schema("{}", {"{\"a\":-1.5e+3}"}, {"nul"});
  check_schema(R"({"type":"integer"})", {"0", "-1", "123456789012345678"},
               {"1.0", "-0", "01", "1e3", "1234567890123456789"});
  check_schema(R"({"type":"number"})", {"0", "-0.5", "1.25", "1e10", "2.5E-3", "12"},
               {"1.", ".5", "01", "1e", "+1", "1e100"});
}

TEST(Schema, Strings) {
  check_schema(
      R"({"type":"string"})",
      {"\"\"", "\"h\u00e9\u6f22\U0001f600\"", "\"\\n\\u00e9\\/\\\"\"", "\"\\ud83d\\ude00\""},
      {"\"", "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\\ud83d\"", "\"\xff\"", "x"});
  check_schema(R"({"type":"string","minLength":2,"maxLength":3})",
               {"\"ab\"", "\"a\\n\"", "\"\U0001f600\\ud83d\\ude00\u6f22\""},
               {"\"a\"", "\"abcd\"", "\"\\ud83d\\ude00\""});
  check_schema(R"({"type":"string","minLength":3})", {"\"abc\"", "\"abcdefghi\""}, {"\"ab\""});
  check_schema(R"({"type":"string","maxLength":0})", {"\"\""}, {"\"a\""});
  const std::string long_text(99999, 'x');
  check_schema(R"({"type":"string","maxLength":99999})", {"\"" + long_text + "\""},
               {"\"" + long_text + "y\""});
}

TEST(Schema, Patterns) {
  check_schema(R"({"type":"string","pattern":"^[a-c]+-\\d{2,3}$"})", {"\"ab-12\"", "\"c-123\""},
               {"\"ab-1\"", "\"ab-1234\"", "\"xab-12\"", "\"-12\""});
  check_schema(R"({"pattern":"b+"})", {"\"abc\"", "\"b\"", "\"\\n b\""}, {"\"\"", "\"ac\"", "1"});
  check_schema(R"j({"pattern":"^(a|b$)"})j", {"\"a\"", "\"ax\"", "\"b\""}, {"\"bx\"", "\"xb\""});
  check_schema(R"({"pattern":"^$"})", {"\"\""}, {"\"a\""});
  check_schema(R"({"pattern":"^[^a]$"})",
               {"\"\\\"\"", "\"\\\\\"", "\"\\u0001\"", "\"\u6f22\"", "\"\\n\""},
               {"\"a\"", "\"\\u0062\"", "\"\n\"", "\"\\u000a\""});
  check_schema(R"({"pattern":"^.\\s\\w\\W$"})", {"\"\u00e9 a-\"", "\"x\\t_\u00e9\""},
               {"\"\\n a-\""});
  check_schema(R"({"pattern":"^(?:x(?<n>y)?)*?\\u{1F600}\\x41$"})", {"\"xyx\U0001f600A\""},
               {"\"x\""});
  check_schema(R"({"pattern":"^a*$","minLength":2,"maxLength":4})", {"\"aa\"", "\"aaaa\""},
               {"\"a\"", "\"aaaaa\""});
  const auto refused = [](const char* pattern, const char* name) {
    expect_schema_refused(std::string(R"({"pattern":")") + pattern + "\"}", kUnsupported,
                          {name, "#/pattern"});
  };
  refused("(?=a)", "look-ahead");
  refused("(?!a)", "look-ahead");
  refused("(?<=a)", "look-behind");
  refused("(?<!a)", "look-behind");
  refused("(a)\\\\1", "back-reference");
  refused("\\\\bword", "word boundary");
  refused("\\\\p{L}", "Unicode property");
  refused("(?i)a", "flags");
  expect_schema_refused(R"({"pattern":"(a"})", kInvalid, {"group"});
  expect_schema_refused(R"j({"pattern":"a)"})j", kInvalid, {"balanced"});
  expect_schema_refused(R"({"pattern":"*a"})", kInvalid, {"quantifier"});
  expect_schema_refused(R"({"pattern":"a{3,2}"})", kInvalid, {"{m,n}"});
  expect_schema_refused(R"({"pattern":"[b-a]"})", kInvalid, {"range"});
  expect_schema_refused(R"({"pattern":"(a|b)*a(a|b){20}"})", kExhausted, {"states"});
  expect_schema_refused(R"({"pattern":"((a{99}){99}){99}"})", kExhausted, {"states"});
}

TEST(Schema, Formats) {
  const auto format = [](const char* name) {
    return std::string(R"({"type":"string","format":")") + name + "\"}";
  };
  check_schema(
      format("date"), {"\"2024-02-29\"", "\"2023-12-31\"", "\"2000-02-29\""},
      {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"2023-13-01\"", "\"2023-00-10\""});
  check_schema(format("time"), {"\"23:59:59Z\"", "\"00:00:00.123+01:30\""},
               {"\"24:00:00Z\"", "\"10:00:00\""});
  check_schema(format("date-time"), {"\"2024-02-29T12:00:00Z\""}, {"\"2024-02-30T12:00:00Z\""});
  check_schema(format("duration"), {"\"P1Y2M3D\"", "\"PT5M\"", "\"P2W\"", "\"P1DT2H\""},
               {"\"P\"", "\"PT\"", "\"P1Y1D\""});
  check_schema(format("uuid"), {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123e4567\""});
  check_schema(format("email"), {"\"a.b+c@example.org\""}, {"\"a@\"", "\"@b\"", "\"a b@c.d\""});
  check_schema(format("ipv4"), {"\"255.0.10.199\""},
               {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""});
  check_schema(format("ipv6"),
               {"\"::\"", "\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"fe80::1:2\"", "\"1::\""},
               {"\"1:2:3:4:5:6:7\"", "\"1::2::3\"", "\":1\"", "\"1:2:3:4:5:6:7:8:9\""});
  check_schema(format("uri"), {"\"https://example.org:80/a/b?c=%20#d\"", "\"mailto:\""},
               {"\"x\"", "\"/a\""});
  check_schema(format("hostname"), {"\"a-b.example\""}, {"\"-a\"", "\"a..b\""});
  check_schema(R"({"format":"uuid","maxLength":10,"type":["string","null"]})", {"null"}, {"\"1\""});
  check_schema(format("iri"), {"\"https://example.org/\u00e9\""}, {"\"x\"", "\"/a\""});
  check_schema(format("uri-reference"), {"\"../a/b?c\"", "\"https://a.b\"", "\"\"", "\"//h/p\""},
               {"\"a b\"", "\"a{b}\"", "\"%zz\""});
  check_schema(format("regex"), {R"("^(a|b)*[x-]?\\d{2,}$")", R"("")"},
               {R"("*")", R"("(")", R"("[")"});
  check_schema(R"({"format":"date","pattern":"^2024"})", {"\"2024-01-31\""},
               {"\"2023-01-31\"", "\"2024\""});
  // An unknown format asserts nothing, not even about the kind of value.
  check_schema(format("int32"), {"\"\"", "\"a\""}, {"1"});
  check_schema(R"({"format":"int32"})", {"\"a\"", "1"}, {});
}

// Tries every integer of a range.
TEST(Schema, IntegerBoundsAreExact) {
  for (const auto& [first, last] : std::vector<std::pair<int, int>>{
           {0, 0}, {-3, 12}, {7, 7}, {95, 1203}, {-1203, -95}, {-10, 10}, {999, 1000}, {10, 9}}) {
    for (const int multiple : {1, 3, 10}) {
      const std::string schema = "{\"type\":\"integer\",\"minimum\":" + std::to_string(first) +
                                 ",\"maximum\":" + std::to_string(last) +
                                 ",\"multipleOf\":" + std::to_string(multiple) + "}";
      const Result<Grammar> grammar = Grammar::from_json_schema(schema);
      bool any = false;
      for (int value = -1300; value <= 1300; ++value) {
        const bool inside = value >= first && value <= last && value % multiple == 0;
        any = any || inside;
        if (grammar.ok()) {
          ASSERT_EQ(matches(*grammar, std::to_string(value)), inside) << schema << " " << value;
        }
      }
      EXPECT_EQ(grammar.ok(), any) << schema;
    }
  }
}

TEST(Schema, IntegerBoundsOfEveryKind) {
  check_schema(R"({"type":"integer","exclusiveMinimum":0})", {"1", "999999999999999999"},
               {"0", "-1"});
  check_schema(R"({"type":"integer","minimum":0.5,"exclusiveMaximum":3})", {"1", "2"}, {"0", "3"});
  check_schema(R"({"type":"integer","minimum":-1.5,"maximum":1e0})", {"-1", "0", "1"}, {"-2", "2"});
  check_schema(R"({"type":"integer","minimum":9007199254740993})", {"9007199254740993"},
               {"9007199254740992"});
  check_schema(R"({"type":"number","multipleOf":25,"maximum":100})", {"0", "-25", "100"},
               {"5", "125"});
  check_schema(R"({"type":"integer","multipleOf":2.5,"maximum":20})", {"5", "-10", "20"},
               {"2", "25"});
  expect_schema_refused(R"({"type":"integer","multipleOf":0})", kInvalid, {"#/multipleOf"});
  expect_schema_refused(R"({"type":"integer","minimum":"1"})", kInvalid, {"#/minimum"});
  expect_schema_refused(R"({"type":"integer","minimum":3,"maximum":2})", kInvalid,
                        {"no finite text"});
}

TEST(Schema, BoundedNumbersMayHaveExponents) {
  check_schema(R"({"type":"number","minimum":0,"maximum":1})",
               {"1e-06", "9.99E-1", "1.5e-07", "2e-5"},
               {"1e0", "1e1", "1e+1", "-1e-06", "1e-100", "0.5e-06", "10e-06"});
  check_schema(R"({"type":"number","exclusiveMinimum":0,"maximum":1e-5})",
               {"1e-06", "9.9e-6", "0.00001"}, {"1e-05", "1e-5", "1.1e-05", "0"});
  check_schema(R"({"type":"number","minimum":250})", {"1e3", "1.5e+20", "250", "2.5E4"},
               {"1e2", "9e02", "1e-06", "-1e3"});
  check_schema(R"({"type":"number","minimum":-3,"maximum":1e7})", {"-1e-06", "3e-06", "-9e-1"},
               {"-1e0", "-1e1", "1e6", "-3e-0"});
  check_schema(R"({"type":"number","maximum":-0.5})", {"-1e1", "-2.5e20", "-0.5"},
               {"-1e-06", "1e1", "-9e-1"});
}

TEST(Schema, NumberBoundsAreExact) {
  check_schema(R"({"type":"number","minimum":0,"maximum":1})",
               {"0", "0.0", "0.25", "1", "1.00", "0.999"},
               {"-0.1", "1.01", "2", "-0", "1e0", "1.000000000000000001"});
  check_schema(R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})", {"0.001", "0.99"},
               {"0", "0.0", "1", "1.0"});
  check_schema(R"({"type":"number","minimum":-2.5,"maximum":13.25})",
               {"-2.5", "-2.50", "-2.4999", "-1", "-0.1", "0", "12.9", "13.25", "13.2", "9.99"},
               {"-2.51", "-3", "13.26", "13.251", "14", "100"});
  check_schema(R"({"type":"number","minimum":12.5})", {"12.5", "12.50", "13", "999999999999999.5"},
               {"12.49", "12", "1", "-13"});
  check_schema(R"({"type":"number","maximum":-0.05})", {"-0.05", "-0.1", "-7"},
               {"-0.04", "0", "-0.049"});
  check_schema(R"({"type":"number","minimum":1.5,"maximum":1.5})", {"1.5", "1.50"},
               {"1.51", "1", "2"});
}

TEST(Schema, Objects) {
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},)"
      R"("c":{"type":"boolean"}},"required":["a","c"],"additionalProperties":false})";
  check_schema(
      schema,
      {R"({"a":1,"b":"x","c":true})", R"({"a": 1, "c": false})", "{\n  \"a\": 1,\n  \"c\": true\n}",
       "{\n\t\"a\":1,\n\t\"c\":true }"},
      {R"({"c":true,"a":1})", R"({"a":1})", R"({"a":1,"c":true,"d":1})", R"({"a":1,,"c":true})",
       R"({"a":1,"b":"x"})", "{\"a\":  1,\"c\":true}", "{\n\n\"a\":1,\"c\":true}", "{}"});
  check_schema(R"({"properties":{"x":true}})", {"{}", R"({"x":[1]})"}, {"[]", R"({"y":1})", "{ }"});
  check_schema(R"({"type":"object"})", {"{}", R"({"x":1, "y":{"z":null}})"}, {"[]"});
  check_schema(
      R"({"properties":{"x":{"type":"null"},"x\"\n":{"type":"null"}},"additionalProperties":{"type":"integer"}})",
      {R"({"x":null,"y":1})", R"({"y":1,"xx":2})", R"({"x\"\n":null,"":3})"},
      {R"({"x":1})", R"({"\u0078":1})", R"({"y":null})", R"({"y":1,"x":null})"});
  check_schema(R"({"type":"object","required":["k"]})", {R"({"k":1,"l":2})"}, {"{}"});
  check_schema(R"({"type":"object","additionalProperties":{"type":"integer"},"minProperties":1})",
               {R"({"k":1})"}, {"{}"});
  check_schema(R"({"properties":{"a":{"type":"null"},"b":false,"c":{"type":"null"}}})",
               {"{}", R"({"a":null,"c":null})", R"({"c":null})"}, {R"({"b":1})"});
  expect_schema_refused(R"({"type":"object","minProperties":2})", kUnsupported,
                        {"#/minProperties"});
  check_schema(R"({"type":"object","maxProperties":2})", {"{}", R"({"a":1,"b":2})"},
               {R"({"a":1,"b":2,"c":3})"});
  expect_schema_refused(R"({"type":"object","required":"a"})", kInvalid, {"#/required"});
  expect_schema_refused(R"({"required":["a"],"additionalProperties":false})", kInvalid,
                        {"no finite"});
}

TEST(Schema, ManyOptionalProperties) {
  std::string properties;
  for (int i = 0; i < 200; ++i) {
    properties += (i ? "," : "") + std::string("\"property_number_") + std::to_string(i) +
                  "\":{\"type\":\"integer\"}";
  }
  const std::string schema = "{\"type\":\"object\",\"properties\":{" + properties + "}}";
  check_schema(schema, {"{}", R"({"property_number_3":1, "property_number_199":2})"},
               {R"({"property_number_3":1,"property_number_3":2})",
                R"({"property_number_3":1,"property_number_2":2})"});
  EXPECT_LT(Grammar::from_json_schema(schema)->node_count(), 10'000u);
}

TEST(Schema, Arrays) {
  check_schema(R"({"type":"array","items":{"type":"integer"}})",
               {"[]", "[1]", "[1, 2,3]", "[\n  1,\n  2\n]"}, {"[\"a\"]", "[1,]", "[,1]", "[ ]"});
  check_schema(R"({"type":"array"})", {"[]", "[1,\"a\",[null]]"}, {"{}"});
  check_schema(R"({"items":{"type":"null"},"minItems":2,"maxItems":3})",
               {"[null,null]", "[null,null,null]"}, {"[]", "[null]", "[null,null,null,null]"});
  check_schema(R"({"items":{"type":"null"},"maxItems":0})", {"[]"}, {"[null]"});
  check_schema(R"({"prefixItems":[{"type":"null"},{"type":"integer"}]})",
               {"[]", "[null]", "[null,1]"}, {"[1]", "[null,1,2]"});
  check_schema(
      R"({"prefixItems":[{"type":"null"},{"type":"integer"}],"items":{"type":"string"},"minItems":2,"maxItems":4})",
      {"[null,1]", "[null,1,\"a\"]", "[null, 1, \"a\", \"b\"]"},
      {"[null]", "[null,1,2]", "[null,1,\"a\",\"b\",\"c\"]"});
  check_schema(R"({"prefixItems":[{"type":"null"}],"minItems":2})", {"[null,true]"}, {"[null]"});
  check_schema(R"({"items":false})", {"[]"}, {"[1]"});
  std::string many = "[0";
  for (int i = 1; i < 5000; ++i) many += ",0";
  check_schema(R"({"items":{"const":0},"minItems":5000,"maxItems":5000})", {many + "]"},
               {many + ",0]", "[0]"});
  expect_schema_refused(R"({"uniqueItems":true})", kUnsupported, {"#/uniqueItems"});
}

TEST(Schema, EnumAndConst) {
  check_schema(R"({"enum":["a","\u00e9\n",1,null,[1,{"k":2}]]})",
               {"\"a\"", "\"\u00e9\\n\"", "1", "null", "[1,{\"k\":2}]", "[1, {\"k\": 2}]"},
               {"\"b\"", "2", "\"\\u0061\""});
  check_schema(R"({"const":{"a":[]}})", {"{\"a\":[]}"}, {"{}"});
  check_schema(R"({"type":"string","enum":["a",1]})", {"\"a\""}, {"1"});
  check_schema(R"({"type":"number","enum":["a",1,1.5]})", {"1", "1.5"}, {"\"a\""});
  expect_schema_refused(R"({"enum":[]})", kInvalid, {"no finite text"});
  expect_schema_refused(R"({"enum":1})", kInvalid, {"#/enum"});
  check_schema(R"({"enum":["a","bcd",7],"minLength":2})", {"\"bcd\"", "7"}, {"\"a\""});
}

TEST(Schema, Combinations) {
  check_schema(R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})", {"1", "\"a\""},
               {"\"ab\"", "null"});
  check_schema(R"({"type":"object","properties":{"k":{"type":"string"}},"required":["k"],)"
               R"("anyOf":[{"properties":{"k":{"const":"a"},"x":{"type":"integer"}}},)"
               R"({"properties":{"k":{"const":"b"}}}]})",
               {R"({"k":"a"})", R"({"k":"a","x":1})", R"({"k":"b"})"},
               {R"({"k":"b","x":1})", "{}"});
  check_schema(R"({"oneOf":[{"type":"null"},{"type":"integer","minimum":5}]})", {"null", "7"},
               {"1"});
  check_schema(R"({"oneOf":[{"properties":{"t":{"const":"a"}},"required":["t"]},)"
               R"({"type":"object","properties":{"t":{"enum":["b","c"]}},"required":["t"]}]})",
               {R"({"t":"a"})", R"({"t":"c"})"}, {"{}", R"({"t":"d"})"});
  check_schema(
      R"({"oneOf":[{"type":"integer","maximum":3},{"type":"integer","exclusiveMinimum":3}]})",
      {"3", "4"}, {});
  check_schema(
      R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},)"
      R"({"properties":{"b":{"type":"null"},"a":{"maximum":5}},"required":["b"]}]})",
      {R"({"a":5,"b":null})"}, {R"({"a":6,"b":null})", R"({"a":1})"});
  check_schema(
      R"({"allOf":[{"type":"number"},{"type":["integer","null"]},{"minimum":2}],"maximum":3})",
      {"2", "3"}, {"1", "4", "null", "2.5"});
  check_schema(R"({"allOf":[{"properties":{"a":true},"additionalProperties":false},)"
               R"({"properties":{"a":{"type":"null"},"b":true}}]})",
               {"{}", R"({"a":null})"}, {R"({"b":1})", R"({"a":1})"});
  check_schema(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", {"1.5", "-0.25"},
               {"1", "1.0"});
  expect_schema_refused(R"({"oneOf":[{"type":"object","properties":{"a":{}}},{"type":"object"}]})",
                        kInvalid, {"no finite text"});
  expect_schema_refused(R"({"oneOf":[{"items":{"type":"null"}},{"type":"array"}]})", kUnsupported,
                        {"#/oneOf/1", "anyOf"});
  check_schema(R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", {"\"ab\"", "\"xbya\""},
               {"\"a\"", "\"b\""});
  expect_schema_refused(R"({"anyOf":[]})", kInvalid, {"#/anyOf"});
}

TEST(Schema, References) {
  check_schema(R"({"$defs":{"n":{"type":"integer"}},"type":"array","items":{"$ref":"#/$defs/n"}})",
               {"[1,2]"}, {"[\"a\"]"});
  check_schema(R"({"definitions":{"a b/~":{"type":"null"}},"$ref":"#/definitions/a%20b~1~0"})",
               {"null"}, {"1"});
  const char tree[] =
      R"({"type":"object","properties":{"v":{"type":"integer"},"l":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},)"
      R"("required":["v","l"],"additionalProperties":false})";
  check_schema(tree, {R"({"v":1,"l":{"v":2,"l":null}})"}, {R"({"v":1,"l":{"v":2}})"});
  check_schema(
      R"({"$defs":{"list":{"type":"array","items":{"$ref":"#/$defs/list"}}},"$ref":"#/$defs/list"})",
      {"[]", "[[],[[]]]"}, {"[1]"});
  check_schema(
      R"({"$defs":{"base":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}},)"
      R"("allOf":[{"$ref":"#/$defs/base"},{"properties":{"next":{"$ref":"#"}}}]})",
      {R"({"id":1,"next":{"id":2}})"}, {"{}"});
  check_schema(
      R"({"properties":{"a":{"type":"null"},"b":{"$ref":"#/properties/a","description":"x"}}})",
      {R"({"b":null})"}, {R"({"b":1})"});
  expect_schema_refused(R"({"$ref":"https://example.org/s.json"})", kUnsupported,
                        {"#/$ref", "example.org"});
  expect_schema_refused(R"({"$ref":"#/$defs/none"})", kInvalid, {"#/$defs/none"});
  // RFC 6901: an index has no leading zeros.
  check_schema(R"({"anyOf":[{"type":"null"},{"type":"integer"}],"$ref":"#/anyOf/0"})", {"null"},
               {"1"});
  for (const char* index : {"00", "01", "-1", "+0", "0x0", "2"}) {
    expect_schema_refused(
        R"({"$defs":{"a":[{"type":"null"},true]},"$ref":"#/$defs/a/)" + std::string(index) + "\"}",
        kInvalid, {"#/$ref", "#/$defs/a/" + std::string(index), "a place"});
  }
  expect_schema_refused(R"({"$ref":"#"})", kInvalid, {"no finite text"});
  expect_schema_refused(R"({"anyOf":[{"type":"null"},{"$ref":"#"}]})", kInvalid, {"calls itself"});
  expect_schema_refused(R"({"allOf":[{"$ref":"#"},{"type":"null"}]})", kExhausted, {"lead on"});
  expect_schema_refused(
      R"({"$defs":{"a":{"type":"object","properties":{"x":{"$ref":"#/$defs/a"}},"required":["x"]}},"$ref":"#/$defs/a"})",
      kInvalid, {"no finite text"});
}

TEST(Schema, WhatIsNotSupportedIsNamedWithItsPlace) {
  for (const char* keyword :
       {"contains", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef"}) {
    expect_schema_refused(
        R"({"properties":{"a/b":{")" + std::string(keyword) + R"(":{"type":"null"}}}})",
        kUnsupported, {"#/properties/a~1b/" + std::string(keyword)});
  }
  for (const char* keyword : {"not", "if"}) {
    expect_schema_refused(R"({"properties":{"a":{"then":false,")" + std::string(keyword) +
                              R"(":{"items":{"type":"null"}}}}})",
                          kUnsupported, {"#/properties/a/" + std::string(keyword)});
  }
  expect_schema_refused(R"({"\u0001texts":1})", kUnsupported, {"U+0001"});
  check_schema(
      R"({"title":"t","description":"d","default":1,"examples":[],"$schema":"s","$id":"i","x-foo":1,"type":"null","nullable":false})",
      {"null"}, {});
  expect_schema_refused(R"({"type":"text"})", kInvalid, {"#/type", "\"text\""});
  expect_schema_refused("{", kInvalid, {"JSON"});
  expect_schema_refused("[]", kInvalid, {"[]"});
  expect_schema_refused("\"a\"", kInvalid, {"a schema"});
  expect_schema_refused(R"({"properties":{"a":1}})", kInvalid, {"#/properties/a"});
  expect_schema_refused("false", kInvalid, {"no finite text"});
}

TEST(Schema, LimitsAreNamed) {
  GrammarLimits limits;
  limits.max_text_bytes = 8;
  EXPECT_EQ(schema_refusal(R"({"type":"null"})", limits).code(), kExhausted);
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += R"({"items":)";
  expect_schema_refused(deep, kExhausted, {"nested"});
  std::string nested = "{}";
  for (int i = 0; i < 70; ++i) nested = R"({"items":)" + nested + "}";
  expect_schema_refused(nested, kExhausted, {"64"});
  // A class of thousands of ranges, and a class of many ranges that is repeated often.
  std::string ranges;
  for (int i = 0; i < 3000; ++i) {
    const uint32_t c = 0x4e00 + 2 * static_cast<uint32_t>((i * 1237) % 3000);
    ranges += {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
               static_cast<char>(0x80 | (c & 63))};
  }
  expect_schema_refused("{\"pattern\":\"^[" + ranges + "]\"}", kExhausted, {"1000"});
  expect_schema_refused("{\"pattern\":\"^[" + ranges.substr(0, 2700) + "]{9999}$\"}", kExhausted,
                        {});
  // Each definition includes the next one twice, which is exponential without a limit.
  std::string defs;
  for (int i = 0; i < 40; ++i) {
    const std::string next = "{\"$ref\":\"#/$defs/d" + std::to_string(i + 1) + "\"}";
    defs += "\"d" + std::to_string(i) + "\":{\"allOf\":[" + next + "," + next + "]},";
  }
  expect_schema_refused("{\"$defs\":{" + defs + "\"d40\":{}},\"$ref\":\"#/$defs/d0\"}", kExhausted,
                        {"merges"});
}

TEST(Schema, AnyJsonObject) {
  const Result<Grammar> grammar = Grammar::json_object();
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  EXPECT_TRUE(matches(*grammar, R"({"a": {"b": [1, 2.5, "x", null, true]}, "c": ""})"));
  EXPECT_FALSE(matches(*grammar, "[]"));
  EXPECT_FALSE(matches(*grammar, "{\"a\":1"));
  EXPECT_FALSE(matches(*grammar, "{\n\n}"));
}

TEST(Schema, SchemasWithinAGrammarText) {
  const NamedSchema schemas[] = {
      {"weather",
       R"({"properties":{"name":{"const":"weather"},"arguments":{"properties":{"city":{"type":"string"}},"required":["city"]}},"required":["name","arguments"]})"},
      {"now",
       R"({"properties":{"name":{"const":"now"},"arguments":{"const":{}}},"required":["name","arguments"]})"},
  };
  const char text[] =
      "root ::= call (\"\\n\" call){0,2}\n"
      "call ::= \"<tool_call>\\n\" (weather | now) \"\\n</tool_call>\"\n";
  const Result<Grammar> grammar = Grammar::from_text(text, schemas);
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  const std::string weather =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": "
      "\"K\u00f6ln\"}}\n</tool_call>";
  const std::string now = "<tool_call>\n{\"name\":\"now\",\"arguments\":{}}\n</tool_call>";
  EXPECT_TRUE(matches(*grammar, weather));
  EXPECT_TRUE(matches(*grammar, now + "\n" + weather + "\n" + now));
  EXPECT_FALSE(matches(*grammar, now + weather));
  EXPECT_FALSE(matches(*grammar, "<tool_call>\n{\"name\":\"now\"}\n</tool_call>"));
  const NamedSchema broken[] = {{"call", R"({"contains":{"type":"null"}})"}};
  const Status status = Grammar::from_text("root ::= call", broken).status();
  EXPECT_EQ(status.code(), kUnsupported);
  EXPECT_NE(status.message().find("rule \"call\": schema: #/contains"), std::string::npos)
      << status.message();
  const NamedSchema twice[] = {{"root", "true"}};
  EXPECT_EQ(Grammar::from_text("root ::= \"x\"", twice).status().code(), kInvalid);
}

TEST(Schema, StatesAfterEqualItemsAreEqual) {
  const Result<Grammar> grammar = Grammar::from_json_schema(R"({"items":{"type":"string"}})");
  GrammarState once = grammar->start();
  ASSERT_TRUE(once.accept("[\"a\","));
  GrammarState twice = once;
  ASSERT_TRUE(twice.accept("\"bc\","));
  EXPECT_EQ(once, twice);
}

}  // namespace
}  // namespace forerun::grammar
