// An addition to the client's assistant message from a piece of a model's text.
#pragma once

#include <cstdint>
#include <string>

namespace forerun::server {

struct OutputDelta {
  enum class Kind : uint8_t {
    kContent,        // text of the message's content
    kReasoning,      // text of its reasoning_content
    kToolCall,       // a tool call begins: call_idx, call_id and name; its arguments follow
    kToolArguments,  // text of the arguments of call call_idx
  };

  Kind kind = Kind::kContent;
  int32_t call_idx = -1;  // kToolCall, kToolArguments: from 0, in the order of the text
  std::string call_id;    // only for kToolCall
  std::string name;       // kToolCall: name of the function
  std::string text;       // not for kToolCall; otherwise never empty
};

}  // namespace forerun::server
