#include "text/tokenizer_conversion.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "text/added_tokens.h"
#include "text/gguf_pre_kinds.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace forerun {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr float kNeverMerged = -1e9f;

Status refuse_tokenizer(const std::string& name, const std::string& found) {
  return Status(StatusCode::kUnsupported,
                name + ": found " + found +
                    ", which a GGUF file cannot express; accepted: a directory as the output");
}

// Builds the vocabulary of a GGUF file from a tokenizer.json.
class VocabularyBuilder {
 public:
  VocabularyBuilder(const text::TokenizerJson& file, const Tokenizer& tokenizer,
                    std::map<int32_t, bool> added)
      : file_(file), tokenizer_(tokenizer), added_(std::move(added)) {}

  Result<OwnedGgufVocabulary> build(int32_t num_rows) {
    const json& model = file_.document->at("model");
    is_sentencepiece_ = model.value("byte_fallback", false);
    to().model = is_sentencepiece_ ? "llama" : "gpt2";
    to().pre = "default";
    if (!is_sentencepiece_) {
      const auto kind = gguf_pre_of(tokenizer_);
      if (!kind.ok()) {
        return kind.status().with_context(file_.name + "; or take a directory as the output");
      }
      to().pre = *kind;
    }
    unknown_ = model.value("unk_token", json()).is_string()
                   ? model.at("unk_token").get<std::string>()
                   : std::string();
    list_tokens(std::max(num_rows, tokenizer_.vocab_size()));
    is_sentencepiece_ ? score_tokens() : list_merges();
    FORERUN_RETURN_IF_ERROR(find_surroundings());
    return std::move(out_);
  }

 private:
  GgufVocabulary& to() { return out_.vocabulary; }
  std::string_view keep(std::string text) { return out_.strings.emplace_back(std::move(text)); }

  static bool is_byte_name(std::string_view token) {
    return token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
  }

  int32_t type_of(int32_t id, std::string_view token) const {
    if (token.empty()) return GgufVocabulary::kUnused;
    if (is_sentencepiece_ && token == unknown_) return GgufVocabulary::kUnknown;
    if (tokenizer_.is_special(id)) return GgufVocabulary::kControl;
    if (added_.contains(id)) return GgufVocabulary::kUserDefined;
    return is_sentencepiece_ && is_byte_name(token) ? GgufVocabulary::kByte
                                                    : GgufVocabulary::kNormal;
  }

  void list_tokens(int32_t count) {
    for (int32_t id = 0; id < count; ++id) {
      const std::string_view token = tokenizer_.token_text(id);
      to().types.push_back(type_of(id, token));
      to().tokens.push_back(
          keep(token.empty() ? "[PAD" + std::to_string(id) + "]" : std::string(token)));
      if (!unknown_.empty() && token == unknown_) to().unk = id;
    }
  }

  void list_merges() {
    for (const text::MergeEntry& merge : file_.merges) {
      to().merges.push_back(
          keep(std::string(file_.view(merge.left)) + " " + std::string(file_.view(merge.right))));
    }
  }

  // Sets the scores. SentencePiece's vocabularies are in the order of their scores; runs of U+2581
  // have the lowest one. If a vocabulary is not, the comparison of the result with the original
  // detects it.
  void score_tokens() {
    to().scores.assign(to().tokens.size(), 0.0f);
    for (size_t id = 0; id < to().types.size(); ++id) {
      if (to().types[id] != GgufVocabulary::kNormal) continue;
      to().scores[id] = is_run_of_marks(to().tokens[id]) ? kNeverMerged : -static_cast<float>(id);
    }
  }

  static bool is_run_of_marks(std::string_view token) {
    constexpr std::string_view kSpaceMark = "\xe2\x96\x81";
    if (token.size() <= kSpaceMark.size()) return false;
    for (size_t at = 0; at < token.size(); at += kSpaceMark.size()) {
      if (token.substr(at, kSpaceMark.size()) != kSpaceMark) return false;
    }
    return true;
  }

  // Finds the tokens that the tokenizer puts before and after each text.
  Status find_surroundings() {
    FORERUN_ASSIGN_OR_RETURN(const std::vector<int32_t> around, tokenizer_.encode(""));
    FORERUN_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer_.encode("a"));
    FORERUN_ASSIGN_OR_RETURN(const std::vector<int32_t> bare,
                             tokenizer_.encode("a", {.add_special_tokens = false}));
    const auto at = std::search(ids.begin(), ids.end(), bare.begin(), bare.end());
    const auto before = at - ids.begin();
    const auto behind = static_cast<std::ptrdiff_t>(around.size()) - before;
    if (before > 1 || behind > 1 || behind < 0) {
      return refuse_tokenizer(file_.name, "several tokens around each text");
    }
    to().add_bos = before == 1;
    to().add_eos = behind == 1;
    if (before == 1) to().bos = around.front();
    if (behind == 1) to().eos = around.back();
    return {};
  }

  const text::TokenizerJson& file_;
  const Tokenizer& tokenizer_;
  std::map<int32_t, bool> added_;
  bool is_sentencepiece_ = false;
  std::string unknown_;
  OwnedGgufVocabulary out_;
};

// Returns the ids of added tokens, and whether each has a flag that GGUF files do not hold.
Result<std::map<int32_t, bool>> added_ids(const text::TokenizerJson& file,
                                          const text::TokenizerJson* config) {
  std::map<int32_t, bool> ids;
  FORERUN_ASSIGN_OR_RETURN(const std::vector<text::AddedToken> added,
                           text::read_added_tokens(file.root()["added_tokens"]));
  for (const text::AddedToken& token : added) {
    ids[token.id] = token.single_word || token.lstrip || token.rstrip;
  }
  if (config == nullptr) return ids;
  const json& tokens = config->document->value("added_tokens_decoder", json::object());
  if (!tokens.is_object()) return ids;
  for (const auto& [id, token] : tokens.items()) {
    bool is_flagged = false;
    for (const char* const flag : {"single_word", "lstrip", "rstrip"}) {
      is_flagged = is_flagged || (token.is_object() && token.value(flag, false));
    }
    ids[std::atoi(id.c_str())] = is_flagged;
  }
  return ids;
}

// Adds fields that Hugging Face's tokenizers requires and that have no effect here.
void add_offsets(ordered_json& item) {
  if (item.is_object() && item.value("type", "") == "ByteLevel") {
    item.emplace("add_prefix_space", false);
    item.emplace("trim_offsets", true);
    item.emplace("use_regex", true);
  }
  if (!item.is_structured()) return;
  for (ordered_json& part : item) add_offsets(part);
}

ordered_json with_all_flags(const json& added) {
  ordered_json list = ordered_json::array();
  for (const json& token : added) {
    ordered_json full = {{"id", token.at("id")}, {"content", token.at("content")}};
    for (const char* const flag : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
      full[flag] = token.value(flag, false);
    }
    list.push_back(std::move(full));
  }
  return list;
}

// Returns a template for two texts: the one for a single text, followed by the second text.
ordered_json with_pair(ordered_json processor) {
  ordered_json pair = processor.at("single");
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"},
          {"single", processor.at("single")},
          {"pair", std::move(pair)},
          {"special_tokens", processor.at("special_tokens")}};
}

}  // namespace

Result<OwnedGgufVocabulary> to_gguf_vocabulary(std::string_view bytes, const std::string& name,
                                               std::string_view config_bytes, int32_t num_rows) {
  FORERUN_ASSIGN_OR_RETURN(const Tokenizer tokenizer,
                           Tokenizer::from_json(bytes, name, config_bytes));
  FORERUN_ASSIGN_OR_RETURN(const text::TokenizerJson file, text::parse_tokenizer_json(bytes, name));
  std::optional<text::TokenizerJson> config;
  if (!config_bytes.empty()) {
    FORERUN_ASSIGN_OR_RETURN(config,
                             text::parse_tokenizer_json(config_bytes, "tokenizer_config.json"));
  }
  FORERUN_ASSIGN_OR_RETURN(const auto added, added_ids(file, config ? &*config : nullptr));
  FORERUN_ASSIGN_OR_RETURN(OwnedGgufVocabulary out,
                           VocabularyBuilder(file, tokenizer, added).build(num_rows));
  for (const auto& [id, is_flagged] : added) {
    if (is_flagged) out.lost_flags.emplace_back(tokenizer.token_text(id));
  }
  // SentencePiece models differ in whether a text begins with U+2581.
  const bool is_sentencepiece = out.vocabulary.model == "llama";
  Status difference;
  for (const bool adds_prefix : {is_sentencepiece, false}) {
    out.vocabulary.add_space_prefix = adds_prefix;
    const Result<Tokenizer> read = Tokenizer::from_gguf(out.vocabulary, name);
    difference = read.ok() ? check_same_tokenizer(tokenizer, *read) : read.status();
    if (difference.ok()) return out;
  }
  return refuse_tokenizer(name, "a tokenizer (" + difference.message() + ")");
}

Result<std::string> to_tokenizer_json_text(const GgufVocabulary& vocabulary,
                                           const std::string& name) {
  FORERUN_ASSIGN_OR_RETURN(const text::TokenizerJson file,
                           text::to_tokenizer_json(vocabulary, name));
  const json& document = *file.document;
  ordered_json out = {{"version", "1.0"},
                      {"truncation", nullptr},
                      {"padding", nullptr},
                      {"added_tokens", with_all_flags(document.at("added_tokens"))},
                      {"normalizer", document.at("normalizer")},
                      {"pre_tokenizer", document.at("pre_tokenizer")},
                      {"post_processor", with_pair(document.at("post_processor"))},
                      {"decoder", document.at("decoder")}};
  add_offsets(out["pre_tokenizer"]);
  add_offsets(out["decoder"]);
  ordered_json model = document.at("model");
  ordered_json& vocab = model["vocab"] = ordered_json::object();
  // Entries are distinct, and ordered_json would search all of them before it adds one.
  auto& members = vocab.get_ref<ordered_json::object_t&>();
  members.reserve(file.vocab.size());
  for (const text::VocabEntry& entry : file.vocab) {
    static_cast<ordered_json::object_t::Container&>(members).emplace_back(
        std::string(file.view(entry.text)), entry.id);
  }
  ordered_json& merges = model["merges"] = ordered_json::array();
  for (const text::MergeEntry& merge : file.merges) {
    merges.push_back({file.view(merge.left), file.view(merge.right)});
  }
  out["model"] = std::move(model);
  std::string text = out.dump(1) + "\n";

  FORERUN_ASSIGN_OR_RETURN(const Tokenizer wanted, Tokenizer::from_gguf(vocabulary, name));
  FORERUN_ASSIGN_OR_RETURN(const Tokenizer written, Tokenizer::from_json(text));
  FORERUN_RETURN_IF_ERROR(check_same_tokenizer(wanted, written).with_context(name));
  return text;
}

}  // namespace forerun
