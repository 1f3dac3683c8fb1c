// CallScanner finds the tool calls in the text of an answer and passes the rest on as content.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/output/call_form.h"
#include "server/output/call_sink.h"
#include "server/output/tag_search.h"
#include "server/output/tool_format.h"

namespace forerun::server {

class CallScanner {
 public:
  explicit CallScanner(ToolFormat format);

  void push(std::string_view text, CallSink& sink);
  // `is_cut`: something other than the model ended the text.
  void finish(CallSink& sink, bool is_cut);
  // Returns true once the only call that the sink allows is complete; later text is dropped.
  bool is_over() const { return is_over_; }
  // Returns true after finish() if the last call is incomplete.
  bool ends_within_call() const { return ends_within_call_; }

 private:
  void take(char byte, CallSink& sink);
  void in_text(char byte, CallSink& sink);
  void in_form(char byte, CallSink& sink);
  void open(std::unique_ptr<CallForm> form, bool is_untagged);
  void end_form();
  // Reads the bytes that the form has taken again as text, since they were not a call.
  void give_up(CallSink& sink);
  // Returns whether the text that is held when the text is cut belongs to a call: after a whole tag
  // it does; without a tag, if it begins like a call.
  bool holds_markup() const;

  const ToolFormat format_;
  const std::vector<CallOpening> openings_;
  TagSearch search_;
  bool at_answer_start_ = true;     // only white space has arrived
  bool is_after_call_ = false;      // only white space has arrived since a call
  std::unique_ptr<CallForm> form_;  // null: within text
  bool form_has_call_ = false;      // the form has emitted something
  // Bytes that the form took since then; includes the tag if it has emitted nothing.
  std::string held_;
  std::string text_;             // content that has not been emitted yet
  std::string pending_;          // bytes to be taken, in reverse order
  size_t bytes_read_again_ = 0;  // beyond a limit, calls are no longer detected
  bool form_is_untagged_ = false;
  bool is_over_ = false;
  bool ends_within_call_ = false;
};

}  // namespace forerun::server
