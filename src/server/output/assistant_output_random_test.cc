// Properties of AssistantOutput over many texts and splits.
#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <string>
#include <string_view>

#include "server/output/testing.h"
#include "text/utf8.h"

namespace forerun::server {
namespace {

AssistantOutputOptions with_format(ToolFormat format) {
  AssistantOutputOptions options;
  options.tool_format = format;
  return options;
}

// The text has beginnings, middles and ends of tags next to characters of two to four bytes.
TEST(AssistantOutput, PiecesOfWholeCharactersGiveWholeCharacters) {
  const std::string text =
      "ü<｜tool▁calls▁🦙<｜tool▁calls▁begin｜>｜<tool_call>ü<tool_call>{\"name\": "
      "\"ü\", "
      "\"arguments\": {\"ü\": "
      "\"🦙\"}}</tool_call><function=f><parameter=ü>\n🦙<｜</parameter>｜";
  for (const ToolFormat format :
       {ToolFormat::kHermes, ToolFormat::kQwenCoder, ToolFormat::kDeepSeek, ToolFormat::kMistral}) {
    AssistantOutput output(with_format(format));
    size_t begin = 0;
    while (begin < text.size()) {
      const size_t bytes = text::first_code_point(std::string_view(text).substr(begin)).len_bytes;
      for (const OutputDelta& delta : output.push(std::string_view(text).substr(begin, bytes))) {
        EXPECT_TRUE(text::is_well_formed(delta.text)) << delta.text;
      }
      begin += bytes;
    }
    for (const OutputDelta& delta : output.finish()) {
      EXPECT_TRUE(text::is_well_formed(delta.text)) << delta.text;
    }
  }
}

// Uses texts of random parts of calls, mostly broken: no split changes the result or loses text.
TEST(AssistantOutput, RandomPartsInAnyPieces) {
  constexpr const char* kParts[] = {
      "<tool_call>{\"name\": \"f\", \"arguments\": {",
      "<function=f>{",
      "{\"parameters\": {}, \"name\": \"g\"}",
      "[TOOL_CALLS][{\"arguments\": {}, \"name\": \"f\"}",
      "[TOOL_CALLS]f{",
      "<tool_call><function=f>\n<parameter=a>\n",
      "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{",
      "<tool_call>",
      "\n",
      "</tool_call>",
      "{\"name\": \"f\", \"arguments\": ",
      "{",
      "}",
      "{}",
      "[",
      "]",
      ", ",
      "; ",
      "\"a\": 1",
      "\"b\": \"<tool_call>\"",
      "<function=f>",
      "<parameter=a>",
      "x y",
      "</parameter>",
      "</function>",
      "[TOOL_CALLS]",
      "<TOOLCALL>",
      "[ARGS]",
      "[CALL_ID]",
      "f",
      "<|python_tag|>",
      "<｜tool▁calls▁begin｜>",
      "<｜tool▁call▁begin｜>",
      "<｜tool▁sep｜>",
      "```json\n",
      "```",
      "<｜tool▁call▁end｜>",
      "<｜tool▁calls▁end｜>",
      "<th",
      "<",
      "ü",
  };
  std::minstd_rand random(17);
  size_t num_calls = 0;
  for (int round = 0; round < 4000; ++round) {
    auto options = with_format(static_cast<ToolFormat>(1 + round % 7));
    std::string text;
    for (size_t parts = random() % 12; parts > 0; --parts)
      text += kParts[random() % std::size(kParts)];
    const ParsedMessage whole = parse_whole(options, text);
    if (whole.calls.empty()) {
      ASSERT_EQ(whole.content, text);
    }
    num_calls += whole.calls.size();
    for (int cut = 0; cut < 4; ++cut) {
      const size_t piece_bytes = 1 + random() % 9;
      ASSERT_EQ(parse_in_pieces(options, text, random() % (text.size() + 1), piece_bytes), whole)
          << tool_format_name(options.tool_format) << " " << text;
    }
  }
  EXPECT_GT(num_calls, 100u);
}

// Uses heads of calls within heads of calls, each of which is read again as text.
TEST(AssistantOutput, TextThatIsReadAgainAndAgainComesToAnEnd) {
  std::string text;
  while (text.size() < 400000)
    text += "[TOOL_CALLS][{\"\": [TOOL_CALLS] <tool_call>{\"a\": \"<tool_call>";
  for (const ToolFormat format : {ToolFormat::kHermes, ToolFormat::kMistral}) {
    const ParsedMessage message = parse_whole(with_format(format), text);
    EXPECT_TRUE(message.content == text);
    EXPECT_TRUE(parse_in_pieces(with_format(format), text, 0, 1000) == message);
  }
}

}  // namespace
}  // namespace forerun::server
