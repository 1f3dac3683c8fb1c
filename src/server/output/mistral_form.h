// Parses the text after Mistral's [TOOL_CALLS]: a list of JSON objects, or one object, or a name
// followed by [CALL_ID]id and [ARGS], either of which may be missing, and the arguments.
#pragma once

#include <memory>
#include <string>

#include "server/output/call_form.h"
#include "server/output/call_list.h"
#include "server/output/call_object.h"
#include "server/output/named_call.h"

namespace forerun::server {

class MistralForm : public CallForm {
 public:
  Step push(char byte, CallSink& sink) override;
  bool finish(CallSink& sink) override;

 private:
  enum class Reading : uint8_t {
    kStart,
    kJson,  // a list, or an object
    kName,
    kId,
    kTag,   // [CALL_ID] or [ARGS]
    kOpen,  // the arguments' first byte
    kArguments,
  };

  Step at_start(char byte, CallSink& sink);
  Step in_json(char byte, CallSink& sink);
  Step in_word(char byte, std::string& word, CallSink& sink);
  Step in_tag(char byte);
  Step begin_arguments(CallSink& sink);

  Reading reading_ = Reading::kStart;
  bool is_list_ = false;
  std::unique_ptr<CallForm> json_;
  std::string name_, id_, tag_;
  NamedCall call_;
};

}  // namespace forerun::server
