// AssistantOutput turns a model's text into an assistant message while the text arrives.
//
// It takes the text of one answer in pieces and returns what each piece adds: content, reasoning,
// the start of a tool call, a piece of its arguments. The concatenated deltas do not depend on how
// the text was split. Text is held back only while it may be the beginning of a tag, of the head of
// a call (up to the arguments' first character), of an end token's name, or one of the newlines
// that belong to a tag.
//
// Text that resembles a call but is not one is content. If the arguments of a call stop being valid
// JSON, the rest of the text is content; if the text ends within them, the arguments so far stay
// and ends_within_call() reports that the call is not complete. If the text ends within the head of
// a call, the head is content if the model ended the text; if something else did (a length, a stop
// string), the head is dropped, and so is the possible beginning of a tag.
//
// Thread rules: one answer, one thread. Keeps no reference to its options.
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
  // kNone if the request offers no tools (see ToolUse::choice): all text is content then.
  ToolFormat tool_format = ToolFormat::kNone;
  // Only these tools may be called; text that calls another one stays content. Empty: any name is a
  // call. If a format does not write arguments as JSON, their types are taken from here.
  std::vector<OfferedTool> tools;
  // False: the text is over when the first call is complete, see is_over().
  bool parallel_tool_calls = true;
  // Returns the id of a call that has none of its own; called once for each, in order. Empty:
  // "call_0", "call_1", ...
  std::function<std::string(int32_t call_idx)> make_call_id;

  ReasoningFormat reasoning_format = ReasoningFormat::kNone;
  bool begins_in_reasoning = false;  // see prompt_opens_reasoning

  // Names that are removed from the end of the text, any number of them: those of end tokens, which
  // are in the text of a request that ignores them and shows special tokens. Elsewhere in the text
  // they stay.
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

  // Ends the text and returns the text that was held back. No text may be pushed after it.
  // `is_cut`: the text's length or something in the request ended it, not the model.
  std::vector<OutputDelta> finish(bool is_cut = false);

  // Returns how many calls have begun. If any has, and the last one is complete, an answer that
  // ended by itself has finish_reason "tool_calls".
  int32_t num_tool_calls() const;
  // Returns, after finish(), whether the last call is incomplete, so that it does not count as a
  // call.
  bool ends_within_call() const;

  // Returns true once the only allowed call is complete: further text has no effect, and the
  // request may be ended.
  bool is_over() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forerun::server
