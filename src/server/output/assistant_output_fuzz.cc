// Fuzzes the reader of answers with any text in any format. The result must not depend on how the
// text was split, and if it has no call and no reasoning, all text must be content.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include "server/output/testing.h"

namespace {

using namespace forerun::server;

// Bytes below the tab's code are replaced by whole parts of calls, so that short inputs reach deep.
constexpr std::string_view kParts[] = {
    "\n<tool_call>\n",
    "</tool_call>",
    "{\"name\": \"f\", \"arguments\": {",
    "{\"parameters\": {}, \"id\": \"abcdefgh1\", \"name\": \"g\"}",
    "<function=f>",
    "<parameter=a>\n",
    "\n</parameter>",
    "</function>",
    "\"a\": \"\\u00fc\", ",
};
constexpr std::string_view kOtherParts[] = {
    "[TOOL_CALLS]",
    "[CALL_ID]",
    "[ARGS]",
    "<|python_tag|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "\n```json\n",
    "```<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<think>",
    "</think>",
    "</s>",
    "; ",
    "\"arguments\": \"{}\"",
    "<|tool_call|>[",
};

std::string unpack(const uint8_t* data, size_t size) {
  std::string text;
  for (size_t idx = 0; idx < size; ++idx) {
    const uint8_t byte = data[idx];
    if (byte < std::size(kParts)) {
      text += kParts[byte];
    } else if (byte >= 0x0e && byte < 0x0e + std::size(kOtherParts)) {
      text += kOtherParts[byte - 0x0e];
    } else {
      text += static_cast<char>(byte);
    }
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  AssistantOutputOptions options;
  options.tool_format = static_cast<ToolFormat>(data[0] & 7);
  const bool thinks = (data[0] & 8) != 0;
  if (thinks) options.reasoning_format = ReasoningFormat::kThink;
  options.begins_in_reasoning = (data[0] & 16) != 0;
  options.parallel_tool_calls = (data[0] & 32) == 0;
  const bool has_end_names = (data[0] & 64) != 0;
  if (has_end_names) options.end_token_names = {"</s>", "<|eot|>"};
  if ((data[0] & 128) != 0) {
    options.tools = {{"f", R"({"properties": {"a": {"type": "string"}}})"}, {"g", "{}"}};
  }
  const std::string text = unpack(data + 3, size - 3);

  const ParsedMessage whole = parse_whole(options, text);
  const ParsedMessage pieces =
      parse_in_pieces(options, text, data[1] % (text.size() + 1), 1 + data[2] % (text.size() + 1));
  if (whole != pieces || whole != parse_in_pieces(options, text, 0, 1)) abort();
  // The same for a text that was cut: only its end may be dropped.
  const ParsedMessage cut = parse_in_pieces(options, text, text.size(), 1, /*is_cut=*/true);
  if (cut != parse_in_pieces(options, text, 0, 1 + data[2] % 7, /*is_cut=*/true)) abort();
  if (!whole.content.starts_with(cut.content) || cut.calls.size() > whole.calls.size()) abort();
  if (whole.content.find("\nbroken: ") != std::string::npos) {
    if (text.find("\nbroken: ") == std::string::npos) abort();
  }
  if (!thinks && !has_end_names && whole.calls.empty() && whole.content != text) abort();
  return 0;
}
