// Parses the text after Qwen3-Coder's <function=, i.e. name>, any number of
// <parameter=key>value</parameter>, and </function>. The arguments are emitted as JSON. A value has
// the type that the schema names; without a type it is the text parsed as JSON, or else a string.
// Strings are emitted as they arrive.
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
  bool has_begun_ = false;      // the call has been emitted
  bool has_arguments_ = false;  // at least one
  bool streams_ = false;        // the value is a string by its schema
  std::string value_;           // text of a value that does not stream
  bool at_value_start_ = false;
  // A newline is held, which belongs to the closing tag if that follows.
  bool holds_newline_ = false;
  std::string close_;  // the possible beginning of the closing tag
};

}  // namespace forerun::server
