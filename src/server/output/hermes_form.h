// Reads the text after <tool_call>: a JSON object, or Qwen3-Coder's <function=...>, then
// </tool_call>. Some checkpoints have longer names for the two tags.
#pragma once

#include <memory>
#include <string_view>

#include "server/output/call_form.h"
#include "server/output/literal.h"

namespace forerun::server {

class HermesForm : public CallForm {
 public:
  // `close` must outlive the object.
  explicit HermesForm(std::string_view close = "</tool_call>") : close_(close) {}

  Step push(char byte, CallSink& sink) override;
  bool finish(CallSink& sink) override {
    return is_closing_ || (call_ != nullptr && call_->finish(sink));
  }

 private:
  std::unique_ptr<CallForm> call_;  // null before its first byte
  bool is_closing_ = false;
  Literal open_function_{"<function="};
  Literal close_;
};

}  // namespace forerun::server
