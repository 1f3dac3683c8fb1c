// Fuzzes chat templates with any bytes: they are refused or parsed, and rendering must then
// terminate.
#include <cstddef>
#include <cstdint>
#include <string>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto chat =
      forerun::ChatTemplate::parse(std::string(reinterpret_cast<const char*>(data), size));
  if (!chat.ok()) return 0;
  forerun::ChatInput input;
  input.messages_json =
      R"([{"role": "system", "content": "s"}, {"role": "user", "content": "u\u00e9"},
          {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f",
           "arguments": {"a": 1.5, "b": [true, "x"]}}}]}])";
  input.tools_json = R"([{"type": "function", "function": {"name": "f"}}])";
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now_unix_s = 0;
  (void)chat->render(input);
  return 0;
}
