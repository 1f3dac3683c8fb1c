// Tests schemas as people write them: keywords of all drafts, annotations, and combinations of
// other keywords (docs/decisions/0045-schemas-as-people-write-them.md).
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "grammar/char_dfa.h"
#include "grammar/grammar.h"
#include "grammar/pattern.h"
#include "grammar/schema_reading.h"
#include "grammar/testing.h"
#include "grammar/token_masks.h"

namespace forerun::grammar {
namespace {

// Checks which texts a schema accepts with SchemaReading::kLetter.
void check(const std::string& schema, const std::vector<std::string>& accepted,
           const std::vector<std::string>& refused) {
  const Result<Grammar> grammar = Grammar::from_json_schema(schema);
  ASSERT_TRUE(grammar.ok()) << schema << "\n" << grammar.status().message();
  for (const std::string& text : accepted) {
    EXPECT_TRUE(matches(*grammar, text)) << schema << "\nrefuses " << text;
  }
  for (const std::string& text : refused) {
    EXPECT_FALSE(matches(*grammar, text)) << schema << "\naccepts " << text;
  }
}

void expect_refused(const std::string& schema, StatusCode code, const std::string& part) {
  const Status status = Grammar::from_json_schema(schema).status();
  EXPECT_EQ(status.code(), code) << schema << "\n" << status.message();
  EXPECT_NE(status.message().find(part), std::string::npos)
      << schema << "\nlacks " << part << ": " << status.message();
}

TEST(SchemaSpelling, NamesThatAssertNothingAreAnnotations) {
  for (const char* keyword :
       {"javaType", "propertyOrder", "links", "version", "id", "self", "nullable", "strict",
        "contentEncoding", "contentMediaType", "contentSchema", "example", "minimun", "options",
        "media", "readonly", "$vocabulary", "$anchor", "x-anything"}) {
    for (const char* value : {"\"a\"", "true", "{\"type\":\"null\"}", "[1]"}) {
      check(R"({"type":"integer",")" + std::string(keyword) + "\":" + value + "}", {"1"},
            {"\"a\"", "null"});
    }
  }
  // Names of properties are not keywords.
  check(R"({"properties":{"id":{"type":"null"},"version":{"type":"integer"}}})",
        {R"({"id":null,"version":1})"}, {R"({"id":1})", R"({"version":"1"})"});
}

TEST(SchemaSpelling, ValuesMayBeWrittenAsIntegers) {
  check(R"({"enum":[2.0,-3.5,1e3]})", {"2.0", "2", "-3.5", "1000.0", "1000"}, {"20", "-3", "0"});
}

TEST(SchemaSpelling, ListsOfItems) {
  check(R"({"type":"array","items":[{"type":"null"},{"type":"integer"}]})",
        {"[]", "[null]", "[null,1]", "[null,1,\"x\"]"}, {"[1]", "[null,null]"});
  check(R"({"type":"array","items":[{"type":"null"}],"additionalItems":{"type":"integer"}})",
        {"[null,1,2]"}, {"[null,null]"});
  check(R"({"type":"array","items":[{"type":"null"}],"additionalItems":false,"minItems":1})",
        {"[null]"}, {"[]", "[null,1]"});
  check(R"({"type":"array","items":{"type":"null"},"additionalItems":false})", {"[null,null]"},
        {"[1]"});
}

TEST(SchemaSpelling, BooleanBounds) {
  check(
      R"({"type":"integer","minimum":1,"exclusiveMinimum":true,"maximum":4,"exclusiveMaximum":true})",
      {"2", "3"}, {"1", "4"});
  check(R"({"type":"integer","minimum":1,"exclusiveMinimum":false})", {"1"}, {"0"});
  check(R"({"type":"integer","exclusiveMinimum":true})", {"-5"}, {"\"a\""});
  check(R"({"type":"number","maximum":1000000000000000000000})", {"-5.5", "999999999999999"}, {});
  check(R"({"type":"number","minimum":0,"maximum":9223372036854775807})", {"0.5", "123456789"},
        {"-1"});
}

TEST(SchemaSpelling, Dependencies) {
  const char fields[] = R"("type":"object","properties":{"a":{},"b":{},"c":{}})";
  for (const char* keyword : {"dependencies", "dependentRequired"}) {
    check("{" + std::string(fields) + ",\"" + keyword + R"(":{"a":["b","c"]}})",
          {"{}", R"({"b":1})", R"({"a":1,"b":1,"c":1})"}, {R"({"a":1})", R"({"a":1,"b":1})"});
  }
  for (const char* keyword : {"dependencies", "dependentSchemas"}) {
    check("{" + std::string(fields) + ",\"" + keyword +
              R"(":{"a":{"properties":{"b":{"type":"null"}}}}})",
          {R"({"b":1})", R"({"a":1})", R"({"a":1,"b":null})"}, {R"({"a":1,"b":1})"});
  }
  check(R"({"dependencies":{"a":["b"]}})", {"1", "{}", R"({"x":1})"}, {R"({"a":1})"});
}

TEST(SchemaSpelling, ReferencesOfOlderDrafts) {
  const char parts[] =
      R"("definitions":{"n":{"type":["integer","null"]}},"$ref":"#/definitions/n","type":"integer")";
  check("{" + std::string(parts) + "}", {"1"}, {"null"});
  check(R"({"$schema":"http://json-schema.org/draft-07/schema#",)" + std::string(parts) + "}",
        {"1", "null"}, {"\"a\""});
  check(R"({"id":"https://a.b/c.json","definitions":{"n":{"id":"#named","type":"null"}},)"
        R"("items":[{"$ref":"#named"},{"$ref":"https://a.b/c.json#/definitions/n"}]})",
        {"[null,null]"}, {"[1]", "[null,1]"});
  check(R"({"$defs":{"n":{"$anchor":"x","type":"null"}},"$ref":"#x"})", {"null"}, {"1"});
  expect_refused(R"({"id":"https://a.b/c.json","$ref":"https://a.b/d.json#/e"})",
                 StatusCode::kUnsupported, "#/$ref");
  // A schema that contains itself within an allOf.
  check(
      R"({"definitions":{"t":{"type":"object","properties":{"l":{"allOf":[{"$ref":"#/definitions/t"},)"
      R"({"required":["v"]}]}}}},"$ref":"#/definitions/t"})",
      {"{}", R"({"l":{"v":1}})", R"({"l":{"l":{"v":1},"v":2}})"}, {R"({"l":{}})"});
}

TEST(SchemaSpelling, NotAndConditions) {
  check(R"({"type":["integer","null","string"],"not":{"type":"null"}})", {"1", "\"\""}, {"null"});
  check(R"({"type":"string","not":{"enum":["a","bc"]}})", {"\"\"", "\"b\"", "\"ab\"", "\"\\n\""},
        {"\"a\"", "\"bc\""});
  check(R"({"type":"string","not":{"pattern":"^a"}})", {"\"\"", "\"ba\""}, {"\"a\"", "\"ab\""});
  check(R"({"type":"string","not":{"minLength":3}})", {"\"ab\""}, {"\"abc\""});
  check(R"({"type":"number","not":{"minimum":3}})", {"2.5"}, {"3", "4"});
  check(R"({"type":"object","properties":{"a":{},"b":{}},"not":{"required":["a","b"]}})",
        {"{}", R"({"a":1})", R"({"b":1})"}, {R"({"a":1,"b":1})"});
  check(R"({"not":{"not":{"type":"null"}}})", {"null"}, {"1"});
  check(R"({"not":{"anyOf":[{"type":"null"},{"type":"string"}]}})", {"1", "[]"}, {"null", "\"\""});
  expect_refused(R"({"not":{}})", StatusCode::kInvalidArgument, "no finite text");
  expect_refused(R"({"properties":{"a":{"not":{"items":{"type":"null"}}}}})",
                 StatusCode::kUnsupported, "#/properties/a/not");
  const char choice[] =
      R"({"type":"object","properties":{"k":{"enum":["x","y"]},"n":{}},"required":["k"],)"
      R"("if":{"properties":{"k":{"const":"x"}}},"then":{"required":["n"]},)"
      R"("else":{"properties":{"n":{"type":"null"}}}})";
  check(choice, {R"({"k":"x","n":1})", R"({"k":"y"})", R"({"k":"y","n":null})"},
        {R"({"k":"x"})", R"({"k":"y","n":1})"});
}

TEST(SchemaSpelling, OneOfThatOverlaps) {
  check(
      R"({"type":"object","properties":{"a":{},"b":{}},"oneOf":[{"required":["a"]},{"required":["b"]}]})",
      {R"({"a":1})", R"({"b":1})"}, {"{}", R"({"a":1,"b":1})"});
  check(R"({"oneOf":[{"type":"string","pattern":"^a"},{"type":"string","pattern":"^b"}]})",
        {"\"ax\"", "\"b\""}, {"\"c\""});
  check(R"({"oneOf":[{"type":"string","maxLength":3},{"type":"string","enum":["abc","abcd"]}]})",
        {"\"ab\"", "\"abcd\""}, {"\"abc\"", "\"abcde\""});
  check(R"({"oneOf":[{"type":"string","format":"ipv4"},{"type":"string","format":"ipv6"}]})",
        {"\"1.2.3.4\"", "\"::1\""}, {"\"x\""});
  check(R"({"oneOf":[{"type":"array","items":{"type":"null"},"minItems":1},)"
        R"({"type":"array","items":{"type":"integer"},"minItems":1}]})",
        {"[null]", "[1,2]"}, {"[]", "[1,null]"});
  expect_refused(R"({"oneOf":[{"items":{"type":"null"}},{"items":{"type":"integer"}}]})",
                 StatusCode::kUnsupported, "#/oneOf/1");
}

TEST(SchemaSpelling, NamesOfProperties) {
  check(R"({"type":"object","properties":{"ab":{"type":"integer"}},"patternProperties":)"
        R"({"^a":{"minimum":5},"b$":{"maximum":9}},"additionalProperties":{"type":"null"}})",
        {"{}", R"({"ab":7})", R"({"ax":"s","xb":3})", R"({"axb":6,"c":null})"},
        {R"({"ab":4})", R"({"ab":10})", R"({"ab":"s"})", R"({"axb":4})", R"({"axb":10})",
         R"({"c":1})", R"({"a\u0078":4})"});
  check(R"({"type":"object","patternProperties":{"^x-":true},"additionalProperties":false})",
        {"{}", R"({"x-a":1,"x-":[]})"}, {R"({"y":1})"});
  check(R"({"type":"object","propertyNames":{"pattern":"^[a-z]+$","maxLength":3}})",
        {R"({"ab":1,"c":2})"}, {R"({"A":1})", R"({"abcd":1})"});
  check(R"({"type":"object","properties":{"A":{},"b":{}},"propertyNames":{"enum":["b","c"]}})",
        {R"({"b":1})", R"({"c":1})"}, {R"({"A":1})", R"({"d":1})"});
  check(R"({"type":"object","propertyNames":false})", {"{}"}, {R"({"a":1})"});
  expect_refused(R"({"patternProperties":{"(":true}})", StatusCode::kInvalidArgument,
                 "#/patternProperties/(");
}

TEST(SchemaSpelling, NumbersOfProperties) {
  const char three[] = R"("type":"object","properties":{"a":{},"b":{},"c":{}})";
  check("{" + std::string(three) + R"(,"additionalProperties":false,"minProperties":2})",
        {R"({"a":1,"c":1})", R"({"a":1,"b":1,"c":1})"}, {"{}", R"({"b":1})"});
  check("{" + std::string(three) + R"(,"maxProperties":1})", {"{}", R"({"b":1})", R"({"x":1})"},
        {R"({"a":1,"b":1})", R"({"a":1,"x":1})", R"({"x":1,"y":1})"});
  // A repeated name is one property, so additional properties count as one at most.
  check("{" + std::string(three) + R"(,"minProperties":2})",
        {R"({"a":1,"b":1})", R"({"a":1,"x":1})"}, {R"({"x":1})", R"({"x":1,"x":2})"});
  expect_refused(R"({"type":"object","minProperties":2})", StatusCode::kUnsupported,
                 "#/minProperties");
  expect_refused("{" + std::string(three) + R"(,"minProperties":4,"additionalProperties":false})",
                 StatusCode::kInvalidArgument, "no finite text");
}

TEST(SchemaSpelling, MultiplesOfDecimals) {
  check(R"({"type":"number","multipleOf":0.5})", {"0", "0.5", "-1.5", "12", "3.0"},
        {"0.25", "1.2", "-0", "01.5", "1.55"});
  check(R"({"type":"number","multipleOf":0.01,"minimum":0.05,"exclusiveMaximum":10.1})",
        {"0.05", "0.1", "0.10", "9.99", "10", "10.09"}, {"0", "0.04", "10.1", "10.10", "0.055"});
  check(R"({"type":"number","multipleOf":2.5,"maximum":-2.5})", {"-2.5", "-5", "-7.5"},
        {"0", "2.5", "-3"});
  for (int hundredths = -350; hundredths <= 350; ++hundredths) {
    std::string text = std::to_string(std::abs(hundredths) / 100) + "." +
                       std::to_string(std::abs(hundredths) / 10 % 10) +
                       std::to_string(std::abs(hundredths) % 10);
    if (hundredths < 0) text = "-" + text;
    const bool inside = hundredths % 15 == 0 && hundredths >= -200 && hundredths < 300;
    check(R"({"type":"number","multipleOf":0.15,"minimum":-2,"exclusiveMaximum":3})",
          inside ? std::vector{text} : std::vector<std::string>(),
          inside ? std::vector<std::string>() : std::vector{text});
  }
  expect_refused(R"({"type":"number","multipleOf":123.456})", StatusCode::kUnsupported,
                 "#/multipleOf");
}

TEST(SchemaSpelling, LongTextsOfAPatternAreCounted) {
  const std::string counted =
      R"({"type":"string","pattern":"^[a-z]+[0-9]*$","minLength":3,"maxLength":65535})";
  const Result<Grammar> grammar = Grammar::from_json_schema(counted);
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  EXPECT_LT(grammar->node_count(), 100u);
  const auto text = [](size_t length) { return "\"" + std::string(length, 'x') + "\""; };
  EXPECT_TRUE(matches(*grammar, text(3)));
  EXPECT_TRUE(matches(*grammar, text(65535)));
  EXPECT_FALSE(matches(*grammar, text(2)));
  EXPECT_FALSE(matches(*grammar, text(65536)));
  EXPECT_TRUE(matches(*grammar, "\"ab12\""));
  EXPECT_FALSE(matches(*grammar, "\"ab12a\""));
  // Escapes and multi-byte characters count as one character each.
  check(R"({"type":"string","pattern":"^[^a]*$","maxLength":1000,"minLength":999})",
        {"\"" + std::string(998, 'b') + "\\n\"", "\"" + std::string(998, 'b') + "\u6f22\u6f22\""},
        {"\"" + std::string(998, 'b') + "\"", "\"" + std::string(1000, 'b') + "\\n\""});
  // If a prefix is not a whole text everywhere, a count could end the text too early, so states are
  // used.
  check(R"({"type":"string","pattern":"^[a-z]+(-[a-z]+)*$","maxLength":300})",
        {"\"a-b\"", "\"" + std::string(298, 'b') + "-a\""},
        {"\"a-\"", "\"" + std::string(299, 'b') + "-a\""});
  check(R"({"type":"string","pattern":"^([a-z]+-)+$","maxLength":65535})",
        {"\"a-\"", "\"" + std::string(255, 'b') + "-\""}, {"\"a\""});
  check(R"({"type":"string","pattern":"end$","maxLength":5000})",
        {"\"end\"", "\"" + std::string(200, 'b') + "\\n end\""}, {"\"end \""});
  // Lengths that the pattern implies cost nothing.
  check(R"({"type":"string","pattern":"^.{2}$","minLength":1,"maxLength":100000})", {"\"ab\""},
        {"\"a\""});
  check(R"({"type":"string","maxLength":2147483647})", {"\"\""}, {"1"});
}

TEST(SchemaSpelling, MasksOfCountedPatternsAreExact) {
  const Result<Grammar> grammar = Grammar::from_json_schema(
      R"({"type":"string","pattern":"^[ab:]*[\u00e9\n\"a]*$","minLength":60,"maxLength":300})");
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  ASSERT_LT(grammar->node_count(), 100u);
  const auto vocabulary = std::make_shared<const VocabularyTrie>(
      synthetic_tokens("\"ab:ba:\u00e9\\n\u00e9\\\"\u00e9a\"", 150, 7));
  TokenMasks masks(vocabulary);
  std::vector<uint32_t> mask(vocabulary->mask_words());
  GrammarState state = grammar->start();
  ASSERT_TRUE(state.accept("\""));
  for (int step = 0; step < 310; ++step) {
    ASSERT_EQ(masks.write(state, mask), state.is_complete());
    const std::vector<uint32_t> wanted = brute_force_mask(state, *vocabulary);
    for (int32_t id = 0; id < vocabulary->vocab_size(); ++id) {
      const auto word = static_cast<size_t>(id) / 32;
      ASSERT_EQ((mask[word] >> (id % 32)) & 1, (wanted[word] >> (id % 32)) & 1)
          << step << " characters, then " << vocabulary->token(id);
    }
    const bool last = step > 200;
    if (!state.accept(last ? step % 3 == 0 ? "\u00e9" : "\\n" : step % 7 == 6 ? ":" : "a")) {
      EXPECT_EQ(step, 300);
      break;
    }
  }
}

TEST(SchemaSpelling, UniqueItemsOfShortLists) {
  check(R"({"type":"array","items":{"enum":["a","b",3]},"uniqueItems":true,"minItems":1})",
        {"[\"b\"]", "[3, \"a\"]", "[\"b\",3,\"a\"]"}, {"[]", "[\"a\",\"a\"]", "[3,\"a\",3]"});
  check(R"({"type":"array","uniqueItems":true,"maxItems":1})", {"[]", "[{}]"}, {"[1,2]"});
  expect_refused(R"({"type":"array","items":{"type":"string"},"uniqueItems":true})",
                 StatusCode::kUnsupported, "#/uniqueItems");
}

TEST(SchemaSpelling, AllOfJoinsWhatItCan) {
  check(
      R"({"allOf":[{"anyOf":[{"type":"null"},{"type":"integer"}]},{"anyOf":[{"minimum":3},{"type":"null"}]}]})",
      {"null", "3"}, {"2", "\"a\""});
  check(R"({"allOf":[{"items":[{"type":"integer"}]},{"items":{"minimum":3}}],"type":"array"})",
        {"[3]", "[4,5]", "[3,\"a\"]"}, {"[2]", "[3,2]"});
  check(
      R"({"allOf":[{"patternProperties":{"^a":{"type":"integer"}}},{"patternProperties":{"^a":{"minimum":3}}}],)"
      R"("type":"object"})",
      {R"({"a":3,"b":null})"}, {R"({"ab":2})", R"({"a":"x"})"});
  expect_refused(R"({"allOf":[{"type":"string"},{"type":"integer"}],"description":"x"})",
                 StatusCode::kInvalidArgument, "no finite text");
}

TEST(SchemaSpelling, OrderOfProperties) {
  const char schema[] =
      R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"integer"},)"
      R"("c":{"type":"string"}},"required":["b","c"],"additionalProperties":false})";
  check(schema,
        {R"({"b":1,"c":"x"})", R"({"c":"x","b":1})", R"({"c": "x", "a": null, "b": 1})",
         R"({"b":1,"c":"x","a":null})"},
        {"{}", R"({"b":1})", R"({"c":"x","a":null})", R"({"b":1,"c":"x","d":1})",
         R"({"b":1,"c":"x",})"});
  check(R"({"type":"object","required":["k"]})", {R"({"x":1,"k":2,"y":3})"}, {R"({"x":1})", "{}"});
  const auto intent = Grammar::from_json_schema(schema, {}, SchemaReading::kIntent);
  ASSERT_TRUE(intent.ok());
  EXPECT_TRUE(matches(*intent, R"({"a":null,"b":1,"c":"x"})"));
  EXPECT_FALSE(matches(*intent, R"({"c":"x","b":1})"));
}

TEST(SchemaSpelling, ByTheLetterAndAsMeant) {
  struct Case {
    const char* schema;
    const char* text;  // accepted only with kLetter
  };
  for (const Case& one : std::vector<Case>{
           {R"({"properties":{"a":true}})", R"({"b":1})"},
           {R"({"properties":{"a":true}})", "[1]"},
           {R"({"prefixItems":[true]})", "[1,2]"},
           {R"({"patternProperties":{"^a":true}})", R"({"b":1})"},
           {R"({"minLength":2})", "null"},
       }) {
    const auto letter = Grammar::from_json_schema(one.schema);
    const auto intent = Grammar::from_json_schema(one.schema, {}, SchemaReading::kIntent);
    ASSERT_TRUE(letter.ok() && intent.ok()) << one.schema;
    EXPECT_TRUE(matches(*letter, one.text)) << one.schema;
    EXPECT_FALSE(matches(*intent, one.text)) << one.schema;
  }
}

TEST(SchemaSpelling, WholeNumbersWithAPointAreIntegersByTheLetter) {
  check(R"({"type":"integer","minimum":-6000})", {"6000.0", "-6000.0", "0.0", "7"},
        {"6000.5", "-6001.0", "6000.", "6000.00"});
  check(R"({"anyOf":[{"type":"string"},{"type":"integer","multipleOf":5}]})", {"5.0", "\"a\""},
        {"6.0", "5.5"});
  const auto intent =
      Grammar::from_json_schema(R"({"type":"integer"})", {}, SchemaReading::kIntent);
  ASSERT_TRUE(intent.ok());
  EXPECT_FALSE(matches(*intent, "1.0"));
}

TEST(SchemaSpelling, KeywordsThatDraft4DoesNotKnow) {
  const std::string parts = R"("type":"object","properties":{"a":{"const":1},"b":{"type":"null"}},)"
                            R"("if":{"properties":{"a":{"enum":[2]}}},"then":{"required":["b"]})";
  check(R"({"$schema":"http://json-schema.org/draft-04/schema#",)" + parts + "}",
        {R"({"a":3})", R"({"a":2})", R"({"b":null})"}, {R"({"b":1})"});
  check(R"({"$schema":"http://json-schema.org/draft-07/schema#",)" + parts + "}", {R"({"a":1})"},
        {R"({"a":3})", R"({"a":2})"});
}

TEST(CharDfa, TellsWhichPatternsMatch) {
  std::vector<CharNfa> nfas;
  for (const char* pattern : {"^a*$", "b", "^\u6f22.$"}) {
    nfas.push_back(*read_pattern(pattern, GrammarLimits()));
  }
  const Result<CharDfa> dfa = read_together(nfas, GrammarLimits());
  ASSERT_TRUE(dfa.ok());
  for (const char* text : {"", "a", "aa", "b", "ab", "\u6f22b", "\u6f22", "\u6f22\u6f22", "c"}) {
    uint64_t marks = 0;
    for (size_t i = 0; i < nfas.size(); ++i) marks |= uint64_t{accepts(nfas[i], text)} << i;
    const CharNfa same = texts_where(*dfa, [&](uint64_t found) { return found == marks; });
    EXPECT_TRUE(accepts(same, text)) << text;
    const CharNfa other = texts_where(*dfa, [&](uint64_t found) { return found != marks; });
    EXPECT_FALSE(accepts(other, text)) << text;
  }
  EXPECT_EQ(lengths_of(nfas[0]).fewest, 0u);
  EXPECT_EQ(lengths_of(nfas[0]).most, UINT32_MAX);
  EXPECT_EQ(lengths_of(nfas[2]).fewest, 2u);
  EXPECT_EQ(lengths_of(nfas[2]).most, 2u);
  const CharNfa none = texts_where(*dfa, [](uint64_t found) { return found == 7; });
  EXPECT_TRUE(none.states.empty());
  EXPECT_EQ(lengths_of(none).fewest, UINT32_MAX);
}

}  // namespace
}  // namespace forerun::grammar
