// Output formats are compiled once, and quick attempts leave those that take long alone.
#include "engine/submit/output_formats.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace forerun {
namespace {

using Kind = OutputFormat::Kind;

const Tokenizer& tokenizer() {
  static const Tokenizer loaded = *Tokenizer::load(FORERUN_SOURCE_DIR "/models/demo-target");
  return loaded;
}

OutputFormat regex(const std::string& text) { return {.kind = Kind::kRegex, .text = text}; }

TEST(OutputFormats, EverydayFormatsAreQuick) {
  OutputFormats formats(tokenizer(), {0});
  for (const OutputFormat& format :
       {OutputFormat{}, OutputFormat{.kind = Kind::kJsonObject}, regex("[a-z]{1,20}(, [a-z]+)*"),
        OutputFormat{.kind = Kind::kJsonSchema,
        .text = R"({"type":"object","properties":{"name":{"type":"string"},)"
                R"("tags":{"type":"array","items":{"type":"string"}},)"
                R"("size":{"type":"integer","minimum":1,"maximum":500}}})"},
        OutputFormat{.kind = Kind::kGrammar, .text = "root ::= \"a\" root | \"b\""}}) {
    EXPECT_TRUE(formats.prepare(format, /*quick=*/true)) << format.text;
    EXPECT_TRUE(formats.constraint(format).ok()) << format.text;
  }
}

TEST(OutputFormats, FormatsThatTakeLongAreNotQuick) {
  OutputFormats formats(tokenizer(), {0});
  std::string lengths = R"({"anyOf":[)";
  for (int idx = 1; idx <= 100; ++idx) {
    lengths += std::string(idx > 1 ? "," : "") + R"({"type":"string","pattern":"^[a-z]{)" +
               std::to_string(idx) + R"(}$"})";
  }
  const OutputFormat slow{.kind = Kind::kJsonSchema, .text = lengths + "]}"};
  EXPECT_FALSE(formats.prepare(slow, /*quick=*/true));
  EXPECT_FALSE(formats.prepare(slow, /*quick=*/true)) << "the first attempt is not kept";
  EXPECT_TRUE(formats.prepare(slow, /*quick=*/false));
  EXPECT_TRUE(formats.prepare(slow, /*quick=*/true)) << "it is there now";
  EXPECT_TRUE(formats.constraint(slow).ok());
}

TEST(OutputFormats, ErrorsAreKeptAsWell) {
  OutputFormats formats(tokenizer(), {0});
  const OutputFormat slow = regex("(a?){500}a{500}");
  EXPECT_FALSE(formats.prepare(slow, /*quick=*/true));
  EXPECT_TRUE(formats.prepare(slow, /*quick=*/false));
  EXPECT_TRUE(formats.prepare(slow, /*quick=*/true)) << "the refusal is kept";
  EXPECT_EQ(formats.constraint(slow).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(formats.prepare(regex("(a"), /*quick=*/true));
  const Status refused = formats.constraint(regex("(a")).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(refused.message().starts_with("output_format")) << refused.message();
}

}  // namespace
}  // namespace forerun
