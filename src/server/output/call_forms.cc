#include "server/output/call_form.h"
#include "server/output/call_object.h"
#include "server/output/deepseek_form.h"
#include "server/output/hermes_form.h"
#include "server/output/llama_form.h"
#include "server/output/mistral_form.h"
#include "server/output/xml_form.h"

namespace forerun::server {
namespace {

template <class Form>
std::unique_ptr<CallForm> make() {
  return std::make_unique<Form>();
}

template <bool in_call>
std::unique_ptr<CallForm> make_deepseek() {
  return std::make_unique<DeepSeekForm>(in_call);
}

}  // namespace

std::vector<CallOpening> call_openings(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
      return {};
    case ToolFormat::kHermes:
      return {{"<tool_call>", make<HermesForm>}};
    case ToolFormat::kLlamaJson:
      return {{"<|python_tag|>", make<LlamaObjectsForm>}, {"<function=", make<LlamaFunctionForm>}};
    case ToolFormat::kLlamaFunction:
      return {{"<function=", make<LlamaFunctionForm>}};
    case ToolFormat::kMistral:
      return {{"[TOOL_CALLS]", make<MistralForm>}};
    case ToolFormat::kQwenCoder:
      // Some calls come without the outer tags.
      return {{"<tool_call>", make<HermesForm>}, {"<function=", make<XmlForm>}};
    case ToolFormat::kDeepSeek:
      return {{"<｜tool▁calls▁begin｜>", make_deepseek<false>},
              {"<｜tool▁call▁begin｜>", make_deepseek<true>}};
  }
  return {};
}

std::unique_ptr<CallForm> make_untagged_form(ToolFormat format) {
  if (format == ToolFormat::kLlamaJson) return std::make_unique<LlamaObjectsForm>();
  return nullptr;
}

}  // namespace forerun::server
