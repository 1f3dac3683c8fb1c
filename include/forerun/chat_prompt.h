// A conversation, to be rendered by a checkpoint's own chat template.
#pragma once

#include <string>

namespace forerun {

// JSON texts in the shapes of the OpenAI and Hugging Face APIs; those that are empty are not given.
struct ChatPrompt {
  std::string messages_json;   // [{"role": "user", "content": ...}, ...], tool calls included
  std::string tools_json;      // [{"type": "function", "function": {...}}, ...]
  std::string documents_json;  // [{"title": ..., "text": ...}, ...]
  // Further variables of the template: {"enable_thinking": false, ...}.
  std::string variables_json;
  // Ends with what begins the assistant's answer. False: to tokenize a conversation as it is.
  bool add_generation_prompt = true;
};

}  // namespace forerun
