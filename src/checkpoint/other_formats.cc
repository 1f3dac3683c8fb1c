#include "checkpoint/other_formats.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace forerun {
namespace {

constexpr const char* kAcceptedFormats =
    "a GGUF file, or a Hugging Face directory with config.json and model.safetensors or "
    "model.safetensors.index.json";

enum class Format {
  kNone,
  kPickle,
  kConsolidatedPth,
  kConsolidated,
  kOtherFramework,
  kAdapter,
  kOldGgml,
  kSafetensors,
};

Format format_of(std::string_view name) {
  if (name.starts_with("adapter_model.")) return Format::kAdapter;
  if (name.starts_with("ggml-") && name.ends_with(".bin")) return Format::kOldGgml;
  if (name.ends_with(".ggml")) return Format::kOldGgml;
  for (const char* extension : {".h5", ".msgpack", ".onnx"}) {
    if (name.ends_with(extension)) return Format::kOtherFramework;
  }
  if (name.starts_with("consolidated") && name.ends_with(".pth")) return Format::kConsolidatedPth;
  for (const char* extension : {".bin", ".pt", ".pth", ".bin.index.json"}) {
    if (name.ends_with(extension) && name != "training_args.bin") return Format::kPickle;
  }
  if (name.starts_with("consolidated") && name.ends_with(".safetensors")) {
    return Format::kConsolidated;
  }
  if (name.ends_with(".safetensors")) return Format::kSafetensors;
  return Format::kNone;
}

std::string convert(Format format, const std::string& dir) {
  switch (format) {
    case Format::kPickle:
      return "convert PyTorch pickles with transformers: AutoModelForCausalLM.from_pretrained(\"" +
             dir + "\").save_pretrained(OUT)";
    case Format::kConsolidatedPth:
      return "convert Meta's layout with transformers' convert_llama_weights_to_hf.py";
    case Format::kConsolidated:
      return "convert Mistral's own layout with transformers' convert_mistral_weights_to_hf.py, or "
             "download the model.safetensors files of the same repository";
    case Format::kOtherFramework:
      return "take the same model's safetensors, from which TensorFlow, Flax and ONNX files are "
             "usually made";
    case Format::kAdapter:
      return "merge the adapter into its base with peft: "
             "AutoPeftModelForCausalLM.from_pretrained(\"" +
             dir + "\").merge_and_unload().save_pretrained(OUT)";
    case Format::kOldGgml:
      return "this is the format before GGUF: take the model's GGUF file, or convert with "
             "llama.cpp's convert_llama_ggml_to_gguf.py";
    case Format::kSafetensors:
    case Format::kNone:
      break;
  }
  return "";
}

Status refusal(const std::filesystem::path& where, Format format, const std::string& dir,
               const std::string& name) {
  return Status(StatusCode::kUnsupported, where.string() + ": found " + name + "; accepted: " +
                                              kAcceptedFormats + "; " + convert(format, dir));
}

}  // namespace

Status refuse_file(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  const std::filesystem::path parent = file.has_parent_path() ? file.parent_path() : ".";
  const Format format = format_of(name);
  if (format == Format::kNone || format == Format::kSafetensors) {
    return Status(StatusCode::kInvalidArgument,
                  file.string() + ": found a file that is no GGUF file; accepted: " +
                      kAcceptedFormats + ", e.g. " + parent.string());
  }
  return refusal(file, format, parent.string(), name);
}

Status refuse_weights_of(const std::filesystem::path& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  for (const Format format : {Format::kConsolidated, Format::kConsolidatedPth, Format::kPickle,
                              Format::kOldGgml, Format::kAdapter, Format::kOtherFramework}) {
    for (const std::string& name : names) {
      if (format_of(name) == format) return refusal(dir, format, dir.string(), name);
    }
  }
  std::vector<std::string> safetensors;
  for (const std::string& name : names) {
    if (format_of(name) == Format::kSafetensors) safetensors.push_back(name);
  }
  if (safetensors.size() > 1) {
    return Status(StatusCode::kNotFound,
                  dir.string() + ": found " + std::to_string(safetensors.size()) +
                      " files of weights (" + safetensors.front() + " to " + safetensors.back() +
                      ") without model.safetensors.index.json, which says what each holds; "
                      "accepted: the index beside them (an interrupted download? hf download "
                      "brings what is missing)");
  }
  const std::string found = safetensors.empty() ? "neither" : safetensors.front();
  return Status(StatusCode::kNotFound, dir.string() + ": found " + found +
                                           "; accepted: model.safetensors or "
                                           "model.safetensors.index.json with its shards (an "
                                           "interrupted download? hf download brings what is "
                                           "missing)");
}

}  // namespace forerun
