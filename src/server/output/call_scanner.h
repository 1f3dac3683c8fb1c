// CallScanner: finds the tool calls in the text of an answer and lets the rest through as content.
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
  // True once the only call that the sink allows is complete; what follows is dropped.
  bool is_over() const { return is_over_; }
  // True after finish() where the last call is not complete.
  bool ends_within_call() const { return ends_within_call_; }

 private:
  void take(char byte, CallSink& sink);
  void in_text(char byte, CallSink& sink);
  void in_form(char byte, CallSink& sink);
  void open(std::unique_ptr<CallForm> form, bool is_untagged);
  void end_form();
  // Reads the bytes that the form has taken again as text, since they turned out not to be a call.
  void give_up(CallSink& sink);
  // Whether the text that is held when the text is cut belongs to a call: behind a whole tag it
  // does; without a tag, where it begins as calls begin.
  bool holds_markup() const;

  const ToolFormat format_;
  const std::vector<CallOpening> openings_;
  TagSearch search_;
  bool at_answer_start_ = true;     // nothing but white space has come
  bool is_after_call_ = false;      // nothing but white space has come since a call
  std::unique_ptr<CallForm> form_;  // null: in text
  bool form_has_call_ = false;      // it has put out something
  std::string held_;     // what the form took since; with the tag, if it has put out nothing
  std::string text_;     // found to be content, not yet put out
  std::string pending_;  // bytes to be taken, the next one last
  size_t bytes_read_again_ = 0;  // beyond a limit no more calls are looked for
  bool form_is_untagged_ = false;
  bool is_over_ = false;
  bool ends_within_call_ = false;
};

}  // namespace forerun::server
