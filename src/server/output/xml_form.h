// Reads the text after Qwen3-Coder's <function=, i.e. name>, any number of
// <parameter=key>value</parameter>, and </function>. The arguments are written as JSON. A value has
// the type that the schema names; without one it is the JSON value that the text is, or else a
// string. Strings are put out as they come.
#pragma once

#include <string>

#include "server/output/call_form.h"
#include "server/output/literal.h"

namespace forerun::server {

class XmlForm : public CallForm {
 public:
  Step push(char byte, CallSink& sink) override;
  bool finish(CallSink& sink) override;

 private:
  enum class Reading : uint8_t { kName, kTag, kKey, kValue };

  Step in_name(char byte, CallSink& sink);
  Step in_tag(char byte, CallSink& sink);
  Step in_value(char byte, CallSink& sink);
  void begin_argument(CallSink& sink);
  void put_value(std::string_view text, CallSink& sink);
  void end_value(CallSink& sink);

  Reading reading_ = Reading::kName;
  std::string name_, tag_, key_;
  bool has_begun_ = false;      // the call has been put out
  bool has_arguments_ = false;  // one at least
  bool streams_ = false;        // the value is a string by its schema
  std::string value_;           // text of a value that does not stream
  bool at_value_start_ = false;
  bool holds_newline_ = false;  // a newline is held, which goes with the closing tag, should that
                                // follow
  std::string close_;           // what may be the closing tag
};

}  // namespace forerun::server
