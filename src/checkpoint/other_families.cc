#include "checkpoint/other_families.h"

namespace forerun {
namespace {

constexpr const char* kOtherEngines = "transformers, vLLM or llama.cpp may run it";

// Families that compute the same as Llama with other tensor names, and the tool that renames them.
struct Conversion {
  std::string_view architecture;
  const char* with;
};

constexpr Conversion kConversions[] = {
    {"BaichuanForCausalLM",
     "convert it to Llama with LLaMA-Factory's scripts/convert_ckpt/llamafy_baichuan2.py"},
    {"BaiChuanForCausalLM",
     "convert it to Llama with LLaMA-Factory's scripts/convert_ckpt/llamafy_baichuan2.py"},
    {"QWenLMHeadModel",
     "convert it to Llama with LLaMA-Factory's scripts/convert_ckpt/llamafy_qwen.py"},
    {"InternLM2ForCausalLM", "convert it to Llama with InternLM's tools/convert2llama.py"},
    {"YiForCausalLM",
     "its tensors are Llama's: write \"LlamaForCausalLM\" and model_type \"llama\""},
};

}  // namespace

std::string way_out_for_architecture(std::string_view architecture) {
  if (architecture.find("Eagle3") != architecture.npos) {
    return "it is a trained head: --draft takes it, beside its target";
  }
  for (const Conversion& conversion : kConversions) {
    if (architecture == conversion.architecture) return conversion.with;
  }
  return std::string("nothing converts another family, whose layers compute something else: ") +
         kOtherEngines;
}

std::string accepted_or_other_engines(std::string_view accepted) {
  return std::string(accepted) + "; no conversion changes what a model computes: " + kOtherEngines;
}

}  // namespace forerun
