// Tests every form of calls and reasoning, with each text split in every way.
#include "server/output/assistant_output.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <ostream>
#include <utility>

#include "server/output/call_frame.h"
#include "server/output/testing.h"

namespace forerun::server {

void PrintTo(const ParsedMessage& message, std::ostream* out) {
  *out << "reasoning '" << message.reasoning << "' content '" << message.content << "'";
  for (const ParsedCall& call : message.calls) {
    *out << " call " << call.id << " " << call.name << " '" << call.arguments << "'";
  }
}

namespace {

AssistantOutputOptions options_for(ToolFormat format) {
  AssistantOutputOptions options;
  options.tool_format = format;
  return options;
}

AssistantOutputOptions thinking(ToolFormat format = ToolFormat::kNone, bool begins_inside = false) {
  AssistantOutputOptions options = options_for(format);
  options.reasoning_format = ReasoningFormat::kThink;
  options.begins_in_reasoning = begins_inside;
  return options;
}

// Expects this of the whole text, of its splits into two at every place, and of pieces of 1 to 7
// bytes.
void expect_message(const AssistantOutputOptions& options, std::string_view text,
                    const ParsedMessage& expected) {
  SCOPED_TRACE(text);
  ASSERT_EQ(parse_whole(options, text), expected);
  for (size_t first = 0; first <= text.size(); ++first) {
    ASSERT_EQ(parse_in_pieces(options, text, first, text.size()), expected) << "cut at " << first;
  }
  for (size_t piece = 1; piece <= 7; ++piece) {
    ASSERT_EQ(parse_in_pieces(options, text, piece, piece), expected) << "pieces of " << piece;
  }
}

void expect_content(ToolFormat format, std::string_view text) {
  expect_message(options_for(format), text, {"", std::string(text), {}});
}

TEST(AssistantOutput, PlainTextIsContentAtOnce) {
  AssistantOutput output(options_for(ToolFormat::kHermes));
  const auto deltas = output.push("Hello, wörld! a < b");
  ASSERT_EQ(deltas.size(), 1u);
  EXPECT_EQ(deltas[0].kind, OutputDelta::Kind::kContent);
  EXPECT_EQ(deltas[0].text, "Hello, wörld! a < b");
  EXPECT_TRUE(output.finish().empty());
  EXPECT_EQ(output.num_tool_calls(), 0);
}

TEST(AssistantOutput, EmptyTextGivesNothing) {
  expect_message(options_for(ToolFormat::kLlamaJson), "", {});
  expect_message(thinking(), "", {});
}

TEST(AssistantOutput, HoldsBackOnlyWhatMayBeATag) {
  AssistantOutput output(options_for(ToolFormat::kHermes));
  EXPECT_EQ(output.push("x\n<tool").at(0).text, "x");
  EXPECT_EQ(output.push("s>\n").at(0).text, "\n<tools>");
  EXPECT_EQ(output.push("y").at(0).text, "\ny");
}

TEST(AssistantOutput, ArgumentsComeAsTheyAreWritten) {
  AssistantOutput output(options_for(ToolFormat::kHermes));
  EXPECT_TRUE(output.push("<tool_call>\n{\"name\": \"f\", \"arguments\": ").empty());
  const auto begin = output.push("{\"a");
  ASSERT_EQ(begin.size(), 2u);
  EXPECT_EQ(begin[0].kind, OutputDelta::Kind::kToolCall);
  EXPECT_EQ(begin[0].name, "f");
  EXPECT_EQ(begin[0].call_id, "call_0");
  EXPECT_EQ(begin[1].text, "{\"a");
  EXPECT_EQ(output.push("\": 1").at(0).text, "\": 1");
  EXPECT_EQ(output.push("}}\n</tool_call>").at(0).text, "}");
  EXPECT_TRUE(output.finish().empty());
}

TEST(AssistantOutput, HermesCalls) {
  const auto options = options_for(ToolFormat::kHermes);
  expect_message(options,
                 "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]}}\n</tool_call>",
                 {"", "", {{"call_0", "f", "{\"a\": [1, \"}\"]}"}}});
  expect_message(options,
                 "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n"
                 "<tool_call>\n{\"arguments\": {\"b\": \"ü\"}, \"name\": \"g\"}\n</tool_call>\n",
                 {"", "Let me see.", {{"call_0", "f", "{}"}, {"call_1", "g", "{\"b\": \"ü\"}"}}});
  // Without arguments, with null, with text in place of an object, with other members.
  expect_message(options, "<tool_call>{\"name\": \"f\"}</tool_call>",
                 {"", "", {{"call_0", "f", "{}"}}});
  expect_message(options, "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>",
                 {"", "", {{"call_0", "f", "{}"}}});
  expect_message(options, R"(<tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</tool_call>)",
                 {"", "", {{"call_0", "f", "{\"a\": 1}"}}});
  expect_message(
      options,
      R"(<tool_call>{"type": "function", "n": -1.5e3, "name": "f", "arguments": {}}</tool_call>)",
      {"", "", {{"call_0", "f", "{}"}}});
  // Text after a call, and a call without its closing tag.
  expect_message(options, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\nDone.",
                 {"", "\nDone.", {{"call_0", "f", "{}"}}});
  expect_message(options,
                 "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n"
                 "<tool_call>{\"name\": \"g\", \"arguments\": {}}",
                 {"", "", {{"call_0", "f", "{}"}, {"call_1", "g", "{}"}}});
}

TEST(AssistantOutput, WhatIsNoCallIsContent) {
  for (const char* text :
       {"<tool_call>", "\n<tool_call>\n", "<tool_call>{}</tool_call>", "<tool_call>[1]</tool_call>",
        "a <tool_call> b {\"name\": \"f\", \"arguments\": {}}",
        "<tool_call>{\"name\": 1}</tool_call>",
        "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": \"x\"}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": nul}</tool_call>",
        "<tool_call>{'name': 'f'}</tool_call>", "<tool_call>{\"name\": \"f\", \"argum",
        "<tool_call><tool_call", "<<tool_call><tool_call>x",
        "<tool_call>\n<func{\"name\": \"f\"}"}) {
    expect_content(ToolFormat::kHermes, text);
  }
  expect_content(ToolFormat::kNone, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>");
}

TEST(AssistantOutput, ATagWithinWhatIsNoCallOpensOne) {
  expect_message(options_for(ToolFormat::kHermes),
                 "<tool_call>\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
                 {"", "<tool_call>", {{"call_0", "f", "{}"}}});
}

TEST(AssistantOutput, ArgumentsThatBreakGoOnAsContent) {
  expect_message(options_for(ToolFormat::kHermes),
                 "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": oops}}</tool_call>",
                 {"", "oops}}</tool_call>", {{"call_0", "f", "{\"a\": "}}});
}

TEST(AssistantOutput, ACallThatIsCutKeepsWhatCame) {
  const auto options = options_for(ToolFormat::kHermes);
  expect_message(options, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b",
                 {"", "", {{"call_0", "f", "{\"a\": \"b"}}});
  expect_message(options, "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n</tool_c",
                 {"", "", {{"call_0", "f", "{}"}}});
}

// Wherever the text is cut, no markup is content, and a call counts from its arguments' last byte
// on.
TEST(AssistantOutput, NothingOfACallThatIsCutIsContent) {
  using enum ToolFormat;
  for (const ToolFormat format :
       {kHermes, kLlamaJson, kLlamaFunction, kMistral, kQwenCoder, kDeepSeek, kJsonList}) {
    SCOPED_TRACE(tool_format_name(format));
    const CallFrame frame = call_frame(format);
    const std::string arguments = R"({"a": "b"})";
    const auto joined = [&](std::initializer_list<std::string_view> parts) {
      std::string text;
      for (const std::string_view part : parts) text += part;
      return text;
    };
    std::string text = joined({frame.before_all, frame.before_name, "f", frame.before_arguments,
                               arguments, frame.after_arguments, frame.after_all});
    size_t whole_at = text.find(arguments) + arguments.size();
    if (format == kQwenCoder) {
      text = "<tool_call>\n<function=f>\n<parameter=a>\nb\n</parameter>\n</function>\n</tool_call>";
      whole_at = text.find("\n</tool_call>");
    }
    if (format == kMistral) ++whole_at;  // an id may follow the arguments
    for (size_t cut = 1; cut <= text.size(); ++cut) {
      AssistantOutput output(options_for(format));
      ParsedMessage message;
      add_deltas(output.push(std::string_view(text).substr(0, cut)), message);
      add_deltas(output.finish(/*is_cut=*/true), message);
      EXPECT_EQ(message.content, "") << text.substr(0, cut);
      EXPECT_EQ(output.ends_within_call(), !message.calls.empty() && cut < whole_at);
      if (cut < whole_at) continue;
      ASSERT_EQ(message.calls.size(), 1u) << text.substr(0, cut);
      EXPECT_EQ(message.calls[0].arguments, arguments);
    }
  }
  // Text that can no longer become a call, or never could, stays text for any ending.
  const std::pair<ToolFormat, const char*> texts[] = {
      {kLlamaJson, R"({"city": "Bonn", "da)"},
      {kLlamaJson, R"({"name": "Bob", "age)"},
      {kHermes, "<tool_call>{\"name\": \"nobody's\", \"argum"},
      {kHermes, "if a < b:\n  "},
      {kNone, "<tool_call>{\"name\""}};
  for (const auto& [format, text] : texts) {
    AssistantOutputOptions options = options_for(format);
    options.tools = {{"f", "{}"}};
    AssistantOutput output(options);
    ParsedMessage message;
    add_deltas(output.push(text), message);
    add_deltas(output.finish(/*is_cut=*/true), message);
    EXPECT_EQ(message.content, text);
    EXPECT_FALSE(output.ends_within_call());
  }
}

TEST(AssistantOutput, AModelThatEndsWithinACallHasMadeNone) {
  AssistantOutput output(options_for(ToolFormat::kHermes));
  output.push("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ");
  output.finish();
  EXPECT_TRUE(output.ends_within_call());
}

TEST(AssistantOutput, ATagOfReasoningThatIsCutIsNoContent) {
  AssistantOutputOptions options;
  options.reasoning_format = ReasoningFormat::kThink;
  for (const char* const text : {"<", "<thi", "<think>", "<think>\nabc</thi"}) {
    AssistantOutput output(options);
    ParsedMessage message;
    add_deltas(output.push(text), message);
    add_deltas(output.finish(/*is_cut=*/true), message);
    EXPECT_EQ(message.content, "") << text;
  }
}

TEST(AssistantOutput, LlamaCalls) {
  const auto options = options_for(ToolFormat::kLlamaJson);
  const ParsedMessage two = {"", "", {{"call_0", "f", "{\"a\": 1}"}, {"call_1", "g", "{}"}}};
  expect_message(options, R"({"name": "f", "parameters": {"a": 1}})", {"", "", {two.calls[0]}});
  expect_message(
      options,
      "\n {\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"g\", \"parameters\": {}}\n",
      two);
  expect_message(
      options,
      R"(<|python_tag|>{"name": "f", "parameters": {"a": 1}}{"name": "g", "arguments": {}})", two);
  expect_message(options,
                 R"(Well.<|python_tag|>{"type": "function", "name": "f", "parameters": {"a": 1}})",
                 {"", "Well.", {two.calls[0]}});
  expect_message(options, "<function=f>{\"a\": 1}</function>\n<function=g>{}</function>", two);
  expect_message(options, R"({"name": "f", "parameters": {"a": 1}} and so on)",
                 {"", " and so on", {two.calls[0]}});
  expect_message(options, R"({"name": "f", "parameters": {"a": 1}}; {"name": "g)",
                 {"", "; {\"name\": \"g", {two.calls[0]}});
  for (const char* text :
       {R"({"name": "Bob", "age": 5})", R"({"name": "Bob"})", "{\"a\": 1}", "[1, 2]", "  x",
        R"(Answer: {"name": "f", "parameters": {}})", "<|python_tag|>print(1)",
        "<function=f>(1)</function>", "<function=f", "  \n "}) {
    expect_content(ToolFormat::kLlamaJson, text);
  }
  expect_content(ToolFormat::kLlamaFunction, R"({"name": "f", "parameters": {}})");
  expect_message(options_for(ToolFormat::kLlamaFunction), "<function=f>{\"a\": 1}</function>",
                 {"", "", {two.calls[0]}});
}

TEST(AssistantOutput, MistralCalls) {
  const auto options = options_for(ToolFormat::kMistral);
  expect_message(
      options,
      R"([TOOL_CALLS][{"name": "f", "arguments": {"a": 1}, "id": "abcDEF123"}, {"name": "g", "arguments": {}}])",
      {"", "", {{"abcDEF123", "f", "{\"a\": 1}"}, {"call_1", "g", "{}"}}});
  expect_message(options,
                 R"(Hm.[TOOL_CALLS] [{"id": "abcDEF123", "name": "f", "arguments": {"a": )",
                 {"", "Hm.", {{"abcDEF123", "f", "{\"a\": "}}});
  expect_message(options, R"([TOOL_CALLS] [{"name": "f", "arguments": {"a": 1)",
                 {"", "", {{"call_0", "f", "{\"a\": 1"}}});
  expect_message(options, R"([TOOL_CALLS]{"name": "f", "arguments": {}})",
                 {"", "", {{"call_0", "f", "{}"}}});
  expect_message(
      options,
      R"([TOOL_CALLS]f{"a": 1}[TOOL_CALLS]g [ARGS] {}[TOOL_CALLS]h[CALL_ID]abcDEF123[ARGS]{"b": 2})",
      {"",
       "",
       {{"call_0", "f", "{\"a\": 1}"}, {"call_1", "g", "{}"}, {"abcDEF123", "h", "{\"b\": 2}"}}});
  for (const char* text :
       {"[TOOL_CALLS]", "[TOOL_CALLS][]", "[TOOL_CALLS] what now?", "[TOOL_CALLS]f[ARG]{}",
        "[TOOL_CALLS][1]", "[TOOL_CALLS]f[ARGS][CALL_ID]x{}", "[TOOL_CALL]f{}"}) {
    expect_content(ToolFormat::kMistral, text);
  }
}

TEST(AssistantOutput, QwenCoderCalls) {
  auto options = options_for(ToolFormat::kQwenCoder);
  const char* text =
      "I will.\n\n<tool_call>\n<function=write>\n<parameter=path>\n/tmp/a\n</parameter>\n"
      "<parameter=text>\n1\n\n\t\"</p>\"\n</parameter>\n<parameter=mode>\n7\n</parameter>\n"
      "<parameter=flags>\n[\"x\"]\n</parameter>\n<parameter=deep>True</parameter>\n"
      "</function>\n</tool_call>";
  expect_message(
      options, text,
      {"",
       "I will.",
       {{"call_0", "write",
         R"({"path": "/tmp/a", "text": "1\n\n\t\"</p>\"", "mode": 7, "flags": ["x"], "deep": true})"}}});
  options.tools = {
      {"write", R"({"properties": {"path": {"type": "string"}, "text": {"type": "string"},
                                 "mode": {"type": "string"}, "flags": {"type": "array"}}})"}};
  expect_message(
      options, text,
      {"",
       "I will.",
       {{"call_0", "write",
         R"({"path": "/tmp/a", "text": "1\n\n\t\"</p>\"", "mode": "7", "flags": ["x"], "deep": true})"}}});
  expect_message(options, "<seed:tool_call>\n<function=write>\n</function>\n</seed:tool_call>",
                 {"", "", {{"call_0", "write", "{}"}}});
  expect_message(options, "<function=write>\n</function>", {"", "", {{"call_0", "write", "{}"}}});
  expect_message(options, "<tool_call><function=write><parameter=text>\nab\nc",
                 {"", "", {{"call_0", "write", "{\"text\": \"ab\\nc"}}});
  expect_content(ToolFormat::kQwenCoder, "<tool_call>\n<function=a b\n>");
  expect_message(options, "<tool_call>{\"name\": \"write\", \"arguments\": {}}</tool_call>",
                 {"", "", {{"call_0", "write", "{}"}}});

  AssistantOutput output(options);
  output.push("<function=write><parameter=text>\n");
  EXPECT_EQ(output.push("as it comes").at(0).text, "as it comes");
}

TEST(AssistantOutput, ListsOfCallsBetweenTags) {
  const auto options = options_for(ToolFormat::kJsonList);
  const ParsedMessage two = {"", "Ok.", {{"call_0", "f", "{}"}, {"call_1", "g", "{\"a\": 1}"}}};
  const std::string list = R"([{"name": "f"}, {"name": "g", "arguments": {"a": 1}}])";
  expect_message(options, "Ok.\n<TOOLCALL>" + list + "</TOOLCALL>", two);
  expect_message(options, "Ok.<|tool_call|> " + list, two);
  expect_message(options, "Ok.<tool_calls>" + list + "\n</tool_calls>\n", two);
  expect_message(options, "<TOOLCALL>[{\"name\": \"f\"}, {\"name",
                 {"", ", {\"name", {{"call_0", "f", "{}"}}});
  expect_message(options, "<TOOLCALL>[{\"name\": \"f\"}, ", {"", "", {{"call_0", "f", "{}"}}});
  expect_content(ToolFormat::kJsonList, "<TOOLCALL>[]</TOOLCALL>");
}

TEST(AssistantOutput, DeepSeekCalls) {
  const auto options = options_for(ToolFormat::kDeepSeek);
  const ParsedMessage two = {"", "Ok.", {{"call_0", "f", "{\"a\": 1}"}, {"call_1", "g", "{}"}}};
  expect_message(
      options,
      "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
      "1}\n```"
      "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```"
      "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      two);
  expect_message(
      options,
      "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
      "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      two);
  expect_content(ToolFormat::kDeepSeek, "<｜tool▁calls▁begin｜>no<｜x");
}

TEST(AssistantOutput, Reasoning) {
  expect_message(thinking(), "<think>\nHm.\nWell.\n</think>\n\nAnswer\n",
                 {"Hm.\nWell.", "Answer\n", {}});
  expect_message(thinking(), " \n<think></think>Answer", {"", "Answer", {}});
  expect_message(thinking(ToolFormat::kNone, true), "Hm. 1 < 2 </thin\n</think>\n\nAnswer",
                 {"Hm. 1 < 2 </thin", "Answer", {}});
  expect_message(thinking(ToolFormat::kNone, true), "\nnever ends\n", {"never ends", "", {}});
  // It is reasoning only at the start.
  expect_message(thinking(), "So: <think>x</think>", {"", "So: <think>x</think>", {}});
  expect_message(thinking(), "\n <thin", {"", "\n <thin", {}});
  expect_message(thinking(), " <<think>x", {"", " <<think>x", {}});
  expect_message(thinking(ToolFormat::kHermes),
                 "<think>\n<tool_call> perhaps\n</think>\n\n<tool_call>\n{\"name\": \"f\", "
                 "\"arguments\": {}}\n</tool_call>",
                 {"<tool_call> perhaps", "", {{"call_0", "f", "{}"}}});
  AssistantOutputOptions box;
  box.reasoning_format = ReasoningFormat::kThinkBox;
  expect_message(box, "[THINK]Hm.[/THINK]Answer", {"Hm.", "Answer", {}});
}

TEST(AssistantOutput, EndTokenNamesGoFromTheEndOnly) {
  auto options = options_for(ToolFormat::kHermes);
  options.end_token_names = {"<|im_end|>", "</s>", ""};
  expect_message(options, "Answer<|im_end|>", {"", "Answer", {}});
  expect_message(options, "Answer</s></s><|im_end|>", {"", "Answer", {}});
  expect_message(options, "A</s>B</s>", {"", "A</s>B", {}});
  expect_message(options, "A</s><|im", {"", "A</s><|im", {}});
  expect_message(options, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call><|im_end|>",
                 {"", "", {{"call_0", "f", "{}"}}});
}

TEST(AssistantOutput, OnlyOfferedToolsAreCalled) {
  auto options = options_for(ToolFormat::kHermes);
  options.tools = {{"f", "{}"}};
  expect_message(options, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
                 {"", "", {{"call_0", "f", "{}"}}});
  const char* other = "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";
  expect_message(options, other, {"", other, {}});
}

TEST(AssistantOutput, OneCallIsAllWithoutParallelCalls) {
  auto options = options_for(ToolFormat::kMistral);
  options.parallel_tool_calls = false;
  const char* text =
      R"([TOOL_CALLS][{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}] x)";
  expect_message(options, text, {"", "", {{"call_0", "f", "{}"}}});
  AssistantOutput output(options);
  output.push("[TOOL_CALLS]f{}");
  EXPECT_TRUE(output.is_over());
  EXPECT_TRUE(output.push("[TOOL_CALLS]g{}").empty());
}

TEST(AssistantOutput, IdsAreMadeOnceACall) {
  auto options = options_for(ToolFormat::kHermes);
  int made = 0;
  options.make_call_id = [&made](int32_t call_idx) {
    ++made;
    return "id" + std::to_string(call_idx);
  };
  const auto message = parse_whole(
      options, "<tool_call>{\"name\": \"f\"}</tool_call><tool_call>{\"name\": \"g\"}</tool_call>");
  EXPECT_EQ(message.calls[1].id, "id1");
  EXPECT_EQ(made, 2);
}

TEST(CallFrame, WhatItWritesIsRead) {
  for (int idx = 1; idx <= 7; ++idx) {
    const auto format = static_cast<ToolFormat>(idx);
    const CallFrame frame = call_frame(format);
    const auto written = [&frame](std::string_view name, std::string_view arguments) {
      std::string text(frame.before_name);
      text += name;
      text += frame.before_arguments;
      text += arguments;
      return text += frame.after_arguments;
    };
    std::string text(frame.before_all);
    text += written("f", "{\"a\": 1}");
    text += frame.between;
    text += written("g", "{}");
    text += frame.after_all;
    expect_message(options_for(format), text,
                   {"", "", {{"call_0", "f", "{\"a\": 1}"}, {"call_1", "g", "{}"}}});
  }
}

}  // namespace
}  // namespace forerun::server
