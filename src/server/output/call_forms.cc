#include "server/output/call_form.h"
#include "server/output/call_list.h"
#include "server/output/deepseek_form.h"
#include "server/output/hermes_form.h"
#include "server/output/llama_form.h"
#include "server/output/mistral_form.h"
#include "server/output/xml_form.h"

namespace forerun::server {
namespace {

template <class Form, class... Arguments>
CallOpening opening(std::string_view tag, Arguments... arguments) {
  return {tag, [arguments...] { return std::make_unique<Form>(arguments...); }};
}

}  // namespace

std::vector<CallOpening> call_openings(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
      return {};
    case ToolFormat::kHermes:
      return {opening<HermesForm>("<tool_call>")};
    case ToolFormat::kLlamaJson:
      return {opening<LlamaObjectsForm>("<|python_tag|>"),
              opening<LlamaFunctionForm>("<function=")};
    case ToolFormat::kLlamaFunction:
      return {opening<LlamaFunctionForm>("<function=")};
    case ToolFormat::kMistral:
      return {opening<MistralForm>("[TOOL_CALLS]")};
    case ToolFormat::kQwenCoder:
      // Some checkpoints write calls without the outer tags.
      return {opening<HermesForm>("<tool_call>"),
              opening<HermesForm>("<seed:tool_call>", "</seed:tool_call>"),
              opening<XmlForm>("<function=")};
    case ToolFormat::kDeepSeek:
      return {opening<DeepSeekForm>("<｜tool▁calls▁begin｜>", /*in_call=*/false),
              opening<DeepSeekForm>("<｜tool▁call▁begin｜>", /*in_call=*/true)};
    case ToolFormat::kJsonList:
      return {opening<TaggedListForm>("<|tool_call|>", "<|/tool_call|>"),
              opening<TaggedListForm>("<TOOLCALL>", "</TOOLCALL>"),
              opening<TaggedListForm>("<tool_calls>", "</tool_calls>")};
  }
  return {};
}

std::unique_ptr<CallForm> make_untagged_form(ToolFormat format) {
  if (format == ToolFormat::kLlamaJson) return std::make_unique<LlamaObjectsForm>();
  return nullptr;
}

}  // namespace forerun::server
