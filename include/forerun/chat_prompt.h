// A conversation that is rendered by a checkpoint's own chat template.
#pragma once

#include <string>

namespace forerun {

// JSON texts in the shapes of the OpenAI and Hugging Face APIs; an empty text is not passed to the
// template.
struct ChatPrompt {
  std::string messages_json;   // [{"role": "user", "content": ...}, ...], tool calls included
  std::string tools_json;      // [{"type": "function", "function": {...}}, ...]
  std::string documents_json;  // [{"title": ..., "text": ...}, ...]
  // Further variables of the template: {"enable_thinking": false, ...}.
  std::string variables_json;
  // Whether the rendered text ends with the beginning of an assistant message. False renders the
  // conversation as it is.
  bool add_generation_prompt = true;
};

}  // namespace forerun
