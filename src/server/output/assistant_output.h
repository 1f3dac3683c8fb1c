// AssistantOutput: a model's text as an assistant message, while it comes.
//
// Takes the text of one answer in pieces and says what each adds: content, reasoning, the start of
// a tool call, a piece of its arguments. The deltas of all pieces, put together, are the same
// however the text was cut. Text is held back only while it may be the beginning of a tag, of the
// head of a call (up to the arguments' first character), of an end token's name, or one of the
// newlines that go with a tag.
//
// What looks like a call and is none is content. Where the arguments of a call that has begun stop
// being JSON, the rest of the text is content; where the text ends within them, they are what came,
// and the call is not whole: ends_within_call(). A head of a call that the model ends in is
// content, one that was cut (by a length or a stop string) is dropped, as is what may begin a tag
// there.
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

  // What `text`, the next piece, adds. Pieces that end within no UTF-8 character give deltas that
  // end within none. Neighbouring deltas differ in kind or call.
  std::vector<OutputDelta> push(std::string_view text);

  // The text has ended: what was held back. Nothing may be pushed after it. `is_cut`: it was ended
  // by its length or by something of the request's, not by the model.
  std::vector<OutputDelta> finish(bool is_cut = false);

  // How many calls have begun. If any, and the last one is whole, an answer that ended by itself
  // has finish_reason "tool_calls".
  int32_t num_tool_calls() const;
  // After finish(): the last call is not whole, so it is none.
  bool ends_within_call() const;

  // True once the one call that was allowed is complete: further text changes nothing, and the
  // request may be ended.
  bool is_over() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forerun::server
