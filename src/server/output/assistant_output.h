// AssistantOutput: turns a model's text into an assistant message while the text comes.
//
// Takes the text of one answer in pieces and says what each adds: content, reasoning, the start of
// a tool call, a piece of its arguments. The deltas of all pieces, put together, are the same
// however the text was cut. Text is held back only while it may be the beginning of a tag, of the
// head of a call (up to the arguments' first character), of an end token's name, or one of the
// newlines that go with a tag.
//
// Text that looks like a call and is not one is content. Where the arguments of a call that has
// begun stop being JSON, the rest of the text is content; where the text ends within them, the
// arguments so far stay and ends_within_call() says that the call is not whole. Where the text ends
// within the head of a call, the head is content if the model ended the text; if something else did
// (a length, a stop string), the head is dropped, and so is the possible beginning of a tag.
//
// One answer, one thread. Holds no reference to its options.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/output/output_delta.h"
#include "server/output/reasoning_format.h"
#include "server/output/tool_format.h"
#include "server/output/tool_use.h"

namespace forerun::server {

struct AssistantOutputOptions {
  // kNone where the request offers no tools (see ToolUse::choice): all is content then.
  ToolFormat tool_format = ToolFormat::kNone;
  // Only these may be called; text that calls another stays content. Empty: any name is a call.
  // Where arguments are not written as JSON their types are taken from here.
  std::vector<OfferedTool> tools;
  // False: the text is over when the first call is complete, see is_over().
  bool parallel_tool_calls = true;
  // Gives the id of a call that brings none of its own; called once for each, in order. Empty:
  // "call_0", "call_1", ...
  std::function<std::string(int32_t call_idx)> make_call_id;

  ReasoningFormat reasoning_format = ReasoningFormat::kNone;
  bool begins_in_reasoning = false;  // see prompt_opens_reasoning

  // Names that are removed from the end of the text, however many stand there: those of end tokens,
  // which are in the text of a request that ignores them and shows special tokens. Elsewhere in the
  // text they stay.
  std::vector<std::string> end_token_names;
};

class AssistantOutput {
 public:
  explicit AssistantOutput(AssistantOutputOptions options);
  ~AssistantOutput();
  AssistantOutput(AssistantOutput&&) noexcept;
  AssistantOutput& operator=(AssistantOutput&&) noexcept;

  // Returns the deltas that `text`, the next piece, adds. If no piece ends within a UTF-8
  // character, no delta does. Neighbouring deltas differ in kind or call.
  std::vector<OutputDelta> push(std::string_view text);

  // Ends the text and returns what was held back. Nothing may be pushed after it. `is_cut`: the
  // text's length or something in the request ended it, not the model.
  std::vector<OutputDelta> finish(bool is_cut = false);

  // How many calls have begun. If any, and the last one is whole, an answer that ended by itself
  // has finish_reason "tool_calls".
  int32_t num_tool_calls() const;
  // After finish(): the last call is not whole, so it does not count as a call.
  bool ends_within_call() const;

  // True once the one call that was allowed is complete: further text changes nothing, and the
  // request may be ended.
  bool is_over() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forerun::server
