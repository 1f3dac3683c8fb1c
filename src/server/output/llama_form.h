// Llama 3.1's calls: a sequence of JSON objects, and a name in a tag followed by the arguments.
#pragma once

#include <optional>
#include <string>

#include "server/output/call_form.h"
#include "server/output/call_object.h"
#include "server/output/literal.h"
#include "server/output/named_call.h"

namespace forerun::server {

// Parses {"name": ..., "parameters": {...}}, repeated with ';' or ',' or nothing between. Does not
// end by itself.
class LlamaObjectsForm : public CallForm {
 public:
  Step push(char byte, CallSink& sink) override;
  bool finish(CallSink& sink) override;

 private:
  std::optional<CallObject> object_;
  bool has_call_ = false;
};

// Parses the text after <function=, i.e. name>{...}</function>.
class LlamaFunctionForm : public CallForm {
 public:
  Step push(char byte, CallSink& sink) override;
  bool finish(CallSink& /*sink*/) override { return has_begun_; }

 private:
  enum class Reading : uint8_t { kName, kOpen, kArguments, kClose };

  Reading reading_ = Reading::kName;
  std::string name_;
  NamedCall call_;
  bool has_begun_ = false;
  Literal close_{"</function>"};
};

}  // namespace forerun::server
