#include "engine/load/model_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/gguf/gguf_file.h"
#include "text/gguf_vocabulary.h"

namespace forerun {
namespace {

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kTemplate = "tokenizer.chat_template";
constexpr const char* kTemplateNames = "tokenizer.chat_templates";

// Returns the special tokens by the names that templates use, such as "bos_token".
std::vector<std::pair<std::string, std::string>> special_tokens(GgufMetadataReader& fields) {
  std::vector<std::pair<std::string, std::string>> names;
  const auto tokens = fields.strings(kTokens);
  if (!tokens) return names;
  for (const auto& [key, name] : {std::pair("tokenizer.ggml.bos_token_id", "bos_token"),
                                  std::pair("tokenizer.ggml.eos_token_id", "eos_token"),
                                  std::pair("tokenizer.ggml.unknown_token_id", "unk_token"),
                                  std::pair("tokenizer.ggml.padding_token_id", "pad_token")}) {
    const auto id = fields.token_id(key);
    if (!id || static_cast<size_t>(*id) >= tokens->size()) continue;
    names.emplace_back(name, std::string((*tokens)[static_cast<size_t>(*id)]));
  }
  return names;
}

// Describes a file without a template of the plain name: "no chat template", or only other names.
std::string named_templates(GgufMetadataReader& fields) {
  const auto names = fields.strings(kTemplateNames);
  if (!names || names->empty()) return "no chat template";
  std::string list;
  for (const std::string_view name : *names) (list += list.empty() ? "" : ", ") += name;
  return "no chat template but " + printable(list);
}

// Fails if the list of names has one without a template. The plain key holds the template
// "default".
void check_named_templates(GgufMetadataReader& fields) {
  const auto names = fields.strings(kTemplateNames);
  if (!names) return;
  for (const std::string_view name : *names) {
    const std::string key = std::string(kTemplate) + "." + std::string(name);
    if (fields.has(key) || (name == "default" && fields.has(kTemplate))) continue;
    fields.refuse(kTemplateNames, "names of templates that the file has, as " + printable(key),
                  StatusCode::kCorrupt, in_quotes(name) + " without its template");
  }
}

}  // namespace

Result<GgufVocabulary> read_gguf_vocabulary(const GgufFile& file) {
  GgufMetadataReader fields = file.metadata_reader();
  GgufVocabulary vocabulary;
  vocabulary.model = fields.required_string("tokenizer.ggml.model");
  vocabulary.pre = fields.string("tokenizer.ggml.pre").value_or("");
  const auto copy = [&](const char* key, auto& to) {
    if (const auto values = fields.strings(key)) to.assign(values->begin(), values->end());
  };
  copy(kTokens, vocabulary.tokens);
  copy("tokenizer.ggml.merges", vocabulary.merges);
  if (const auto types = fields.integers("tokenizer.ggml.token_type", 0, INT32_MAX)) {
    for (const int64_t type : *types) vocabulary.types.push_back(static_cast<int32_t>(type));
  }
  if (auto scores = fields.numbers("tokenizer.ggml.scores", -1e30, 1e30)) {
    vocabulary.scores = std::move(*scores);
  }
  vocabulary.bos = fields.token_id("tokenizer.ggml.bos_token_id");
  vocabulary.eos = fields.token_id("tokenizer.ggml.eos_token_id");
  vocabulary.eot = fields.token_id("tokenizer.ggml.eot_token_id");
  vocabulary.eom = fields.token_id("tokenizer.ggml.eom_token_id");
  vocabulary.unk = fields.token_id("tokenizer.ggml.unknown_token_id");
  // Drops a padding id beyond the vocabulary: the engine pads nothing, and older converters wrote
  // the id of a token that they then left out.
  vocabulary.pad = fields.token_id("tokenizer.ggml.padding_token_id");
  if (vocabulary.pad && static_cast<size_t>(*vocabulary.pad) >= vocabulary.tokens.size()) {
    vocabulary.pad.reset();
  }
  vocabulary.add_bos = fields.boolean("tokenizer.ggml.add_bos_token");
  vocabulary.add_eos = fields.boolean("tokenizer.ggml.add_eos_token");
  vocabulary.add_space_prefix = fields.boolean("tokenizer.ggml.add_space_prefix");
  vocabulary.remove_extra_whitespaces = fields.boolean("tokenizer.ggml.remove_extra_whitespaces");
  if (!fields.ok()) return fields.status();
  return vocabulary;
}

Result<Tokenizer> load_tokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.gguf() == nullptr) return Tokenizer::load(checkpoint.path());
  FORERUN_ASSIGN_OR_RETURN(const GgufVocabulary vocabulary,
                           read_gguf_vocabulary(*checkpoint.gguf()));
  return Tokenizer::from_gguf(vocabulary, checkpoint.path().string());
}

Result<ChatTemplate> load_chat_template(const Checkpoint& checkpoint) {
  FORERUN_ASSIGN_OR_RETURN(ChatTemplateSources sources, load_chat_template_sources(checkpoint));
  return ChatTemplate::make(std::move(sources));
}

Result<ChatTemplateSources> load_chat_template_sources(const Checkpoint& checkpoint) {
  if (checkpoint.gguf() == nullptr) return ChatTemplate::load_sources(checkpoint.path());
  GgufMetadataReader fields = checkpoint.gguf()->metadata_reader();
  ChatTemplateSources sources;
  const std::optional<std::string_view> regular = fields.string(kTemplate);
  sources.tool_use =
      fields.string(std::string(kTemplate) + ".tool_use").value_or(std::string_view());
  sources.special_tokens = special_tokens(fields);
  check_named_templates(fields);
  sources.where = checkpoint.path().string() + ": " + kTemplate;
  sources.tool_use_where = sources.where + ".tool_use";
  if (!fields.ok()) return fields.status();
  if (!regular) {
    return Status(StatusCode::kNotFound, checkpoint.path().string() + ": found " +
                                             named_templates(fields) + "; accepted: metadata key " +
                                             kTemplate);
  }
  sources.regular = *regular;
  return sources;
}

}  // namespace forerun
