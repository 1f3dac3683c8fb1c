#include "server/output/call_frame.h"

namespace forerun::server {

CallFrame call_frame(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
      return {};
    case ToolFormat::kHermes:
    case ToolFormat::kQwenCoder:
      return {.before_all = "",
              .before_name = "<tool_call>\n{\"name\": \"",
              .before_arguments = "\", \"arguments\": ",
              .after_arguments = "}\n</tool_call>",
              .between = "\n",
              .after_all = ""};
    case ToolFormat::kLlamaJson:
      return {.before_all = "",
              .before_name = "{\"name\": \"",
              .before_arguments = "\", \"parameters\": ",
              .after_arguments = "}",
              .between = "; ",
              .after_all = "",
              .more_than_one = false};
    case ToolFormat::kLlamaFunction:
      return {.before_all = "",
              .before_name = "<function=",
              .before_arguments = ">",
              .after_arguments = "</function>",
              .between = "\n",
              .after_all = ""};
    case ToolFormat::kMistral:
      return {.before_all = "[TOOL_CALLS][",
              .before_name = "{\"name\": \"",
              .before_arguments = "\", \"arguments\": ",
              .after_arguments = "}",
              .between = ", ",
              .after_all = "]"};
    case ToolFormat::kJsonList:
      return {.before_all = "<|tool_call|>[",
              .before_name = "{\"name\": \"",
              .before_arguments = "\", \"arguments\": ",
              .after_arguments = "}",
              .between = ", ",
              .after_all = "]"};
    case ToolFormat::kDeepSeek:
      return {.before_all = "<｜tool▁calls▁begin｜>",
              .before_name = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
              .before_arguments = "\n```json\n",
              .after_arguments = "\n```<｜tool▁call▁end｜>",
              .between = "\n",
              .after_all = "<｜tool▁calls▁end｜>"};
  }
  return {};
}

}  // namespace forerun::server
