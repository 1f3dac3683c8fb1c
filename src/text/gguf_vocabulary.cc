#include "text/gguf_vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "text/added_tokens.h"
#include "text/gguf_pre_kinds.h"
#include "text/sentencepiece_merges.h"
#include "text/token_table.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace forerun {
namespace {

using nlohmann::json;
using text::GgufPreKind;

constexpr std::string_view kMark = "\xe2\x96\x81";  // U+2581, SentencePiece's space
constexpr size_t kMaxStringBytes = size_t{1} << 30;
// Advice for a file with an unsupported tokenizer.
constexpr const char* kOriginal =
    "open the model's Hugging Face directory, whose tokenizer.json says all of this";

// Describes unsupported kinds of tokenizers, for messages.
std::string what_is(std::string_view model) {
  constexpr std::pair<std::string_view, std::string_view> kModels[] = {
      {"bert", "WordPiece"},      {"t5", "SentencePiece's unigram model"},
      {"rwkv", "RWKV's trie"},    {"plamo2", "PLaMo 2's table"},
      {"gemma4", "BPE of UTF-8"}, {"hybriddna", "a vocabulary of DNA"},
      {"none", "no tokenizer"},   {"no_vocab", "no tokenizer"},
  };
  for (const auto& [name, meaning] : kModels) {
    if (name == model) return " (" + std::string(meaning) + ")";
  }
  return {};
}

// Converts a vocabulary to the content of a tokenizer.json.
class Converter {
 public:
  Converter(const GgufVocabulary& in, std::string name) : in_(in) { out_.name = std::move(name); }

  Result<text::TokenizerJson> convert() {
    FORERUN_RETURN_IF_ERROR(read_model());
    FORERUN_RETURN_IF_ERROR(check_counts());
    FORERUN_RETURN_IF_ERROR(check_ids());
    FORERUN_RETURN_IF_ERROR(read_tokens());
    in_model_.assign(in_.tokens.size(), 0);
    FORERUN_RETURN_IF_ERROR(in_.merges.empty() && is_llama_ ? merges_from_scores() : read_merges());
    FORERUN_RETURN_IF_ERROR(list_vocab());
    FORERUN_ASSIGN_OR_RETURN(json processor, post_processor());
    json document = {{"added_tokens", added_tokens()},
                     {"post_processor", std::move(processor)},
                     {"decoder", decoder()},
                     {"model", model()}};
    add_splitting(document);
    out_.document = std::make_shared<json>(std::move(document));
    return std::move(out_);
  }

 private:
  Status refuse(const std::string& key, const std::string& found, const std::string& accepted,
                StatusCode code = StatusCode::kCorrupt) const {
    return Status(code, out_.name + ": tokenizer.ggml." + key + ": found " + found +
                            "; accepted: " + accepted);
  }

  Status refuse_token(size_t id, const std::string& found, const std::string& accepted,
                      StatusCode code = StatusCode::kCorrupt) const {
    return refuse("tokens[" + std::to_string(id) + "]", found, accepted, code);
  }

  Status read_model() {
    is_llama_ = in_.model == "llama";
    if (!is_llama_ && in_.model != "gpt2") {
      return refuse(
          "model", in_quotes(in_.model) + what_is(in_.model),
          std::string("\"gpt2\" (byte-level BPE), \"llama\" (SentencePiece BPE); ") + kOriginal,
          StatusCode::kUnsupported);
    }
    if (in_.remove_extra_whitespaces.value_or(false)) {
      return refuse("remove_extra_whitespaces", "true", std::string("false; ") + kOriginal,
                    StatusCode::kUnsupported);
    }
    if (!is_llama_) {
      kind_ = text::find_gguf_pre_kind(in_.pre);
      if (kind_ == nullptr) {
        const char* const way_out =
            in_.pre.empty() ? "a file without it splits text in an unknown way: convert the "
                              "original again with llama.cpp's convert_hf_to_gguf.py, or "
                            : "";
        return refuse("pre", in_.pre.empty() ? "none" : in_quotes(in_.pre),
                      text::gguf_pre_kind_names() + "; " + way_out + kOriginal,
                      StatusCode::kUnsupported);
      }
    }
    adds_prefix_ = in_.add_space_prefix.value_or(is_llama_);
    if (adds_prefix_ && !is_llama_) {
      return refuse("add_space_prefix", "true with model \"gpt2\"",
                    std::string("false; ") + kOriginal, StatusCode::kUnsupported);
    }
    return {};
  }

  Status check_counts() const {
    const size_t count = in_.tokens.size();
    const std::string one_each = "one for each of " + std::to_string(count) + " tokens";
    if (count == 0) return refuse("tokens", "none", "a list of tokens");
    if (count > static_cast<size_t>(text::kMaxTokenId) + 1) {
      return refuse("tokens", std::to_string(count),
                    "at most " + std::to_string(text::kMaxTokenId + 1), StatusCode::kUnsupported);
    }
    if (in_.types.size() != count) {
      return refuse("token_type", std::to_string(in_.types.size()), one_each);
    }
    const bool needs_scores = is_llama_ && in_.merges.empty();
    if (in_.scores.size() != count && (needs_scores || !in_.scores.empty())) {
      return refuse("scores", std::to_string(in_.scores.size()), one_each);
    }
    if (in_.merges.empty() && !is_llama_) return refuse("merges", "none", "a list of merges");
    size_t bytes = 0;
    for (const auto* list : {&in_.tokens, &in_.merges}) {
      for (const std::string_view item : *list) bytes += item.size();
    }
    if (bytes > kMaxStringBytes) {
      return refuse("tokens", std::to_string(bytes) + " bytes of tokens and merges",
                    "at most 1 GiB", StatusCode::kUnsupported);
    }
    return {};
  }

  Status check_ids() const {
    const std::pair<const char*, std::optional<int32_t>> ids[] = {
        {"bos_token_id", in_.bos}, {"eos_token_id", in_.eos},     {"eot_token_id", in_.eot},
        {"eom_token_id", in_.eom}, {"unknown_token_id", in_.unk}, {"padding_token_id", in_.pad}};
    for (const auto& [key, id] : ids) {
      if (id && (*id < 0 || static_cast<size_t>(*id) >= in_.tokens.size())) {
        return refuse(key, std::to_string(*id),
                      "an id from 0 to " + std::to_string(in_.tokens.size() - 1));
      }
    }
    return {};
  }

  // Returns whether the converter wrote the entry only to fill the list, or the entry is empty.
  bool is_no_token(size_t id) const {
    const std::string_view token = in_.tokens[id];
    return token.empty() ||
           (in_.types[id] == GgufVocabulary::kUnused && token == "[PAD" + std::to_string(id) + "]");
  }

  bool is_added(size_t id) const {
    const int32_t type = in_.types[id];
    return type == GgufVocabulary::kUnknown || type == GgufVocabulary::kControl ||
           type == GgufVocabulary::kUserDefined;
  }

  Status read_tokens() {
    size_t bytes = 0;
    for (const std::string_view token : in_.tokens) bytes += token.size();
    out_.strings.reserve(bytes + bytes / 8);
    tokens_.reserve(in_.tokens.size(), bytes + bytes / 8);
    spans_.resize(in_.tokens.size());
    for (size_t id = 0; id < in_.tokens.size(); ++id) {
      if (in_.types[id] < GgufVocabulary::kNormal || in_.types[id] > GgufVocabulary::kByte) {
        return refuse("token_type[" + std::to_string(id) + "]", std::to_string(in_.types[id]),
                      "1 to 6");
      }
      if (!is_no_token(id)) FORERUN_RETURN_IF_ERROR(read_token(id));
    }
    return {};
  }

  Status read_token(size_t id) {
    const std::string_view token = in_.tokens[id];
    if (!text::is_well_formed(token)) {
      return refuse_token(id, in_quotes(token), "UTF-8");
    }
    if ((is_llama_ || is_added(id)) && token.size() > text::kMaxAddedTokenBytes) {
      return refuse_token(id, std::to_string(token.size()) + " bytes",
                          "at most " + std::to_string(text::kMaxAddedTokenBytes),
                          StatusCode::kUnsupported);
    }
    if (is_llama_ && in_.types[id] == GgufVocabulary::kByte && !is_byte_name(token)) {
      return refuse_token(id, in_quotes(token) + " of the type of byte tokens",
                          "\"<0x00>\" to \"<0xFF>\"");
    }
    text::StringSpan& span = spans_[id];
    span.offset = static_cast<uint32_t>(out_.strings.size());
    if (has_spaces_for_marks(id)) {
      for (const char c : token) c == ' ' ? out_.strings.append(kMark) : out_.strings.append(1, c);
    } else {
      out_.strings.append(token);
    }
    span.len_bytes = static_cast<uint32_t>(out_.strings.size() - span.offset);
    const int32_t number = static_cast<int32_t>(id);
    if (tokens_.insert(out_.view(span), number) != text::TokenTable::Inserted::kNew) {
      return refuse_token(id,
                          in_quotes(token) + ", which is token " +
                              std::to_string(tokens_.find(out_.view(span))) + " too",
                          "each token once");
    }
    return {};
  }

  // Returns whether the token is a run of spaces for U+2581. Gemma's runs of U+2581 are
  // user-defined tokens, which llama.cpp's converter writes as spaces, since it looks for them
  // before it turns the text's spaces into U+2581.
  bool has_spaces_for_marks(size_t id) const {
    return is_llama_ && !adds_prefix_ && in_.types[id] == GgufVocabulary::kUserDefined;
  }

  static bool is_byte_name(std::string_view token) {
    const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
    return token.size() == 6 && token.starts_with("<0x") && is_hex(token[3]) && is_hex(token[4]) &&
           token[5] == '>';
  }

  void add_merge(int32_t left, int32_t right) {
    out_.merges.push_back({spans_[static_cast<size_t>(left)], spans_[static_cast<size_t>(right)]});
  }

  Status read_merges() {
    out_.merges.reserve(in_.merges.size());
    std::string joined;
    for (size_t rank = 0; rank < in_.merges.size(); ++rank) {
      const std::string_view merge = in_.merges[rank];
      const size_t space = merge.find(' ', 1);
      if (space == std::string_view::npos) {
        return refuse("merges[" + std::to_string(rank) + "]", in_quotes(merge), "\"left right\"");
      }
      const std::string_view left = merge.substr(0, space);
      const std::string_view right = merge.substr(space + 1);
      joined.assign(left).append(right);
      const int32_t ids[] = {tokens_.find(left), tokens_.find(right), tokens_.find(joined)};
      for (const int32_t id : ids) {
        if (id < 0) {
          return refuse("merges[" + std::to_string(rank) + "]", in_quotes(merge),
                        "two tokens that join to a token");
        }
        in_model_[static_cast<size_t>(id)] = 1;
      }
      add_merge(ids[0], ids[1]);
    }
    return {};
  }

  Status merges_from_scores() {
    std::vector<uint8_t> may_join(in_.tokens.size(), 0);
    for (size_t id = 0; id < in_.tokens.size(); ++id) {
      const int32_t type = in_.types[id];
      may_join[id] = type == GgufVocabulary::kNormal || type == GgufVocabulary::kUserDefined ||
                     type == GgufVocabulary::kUnused;
    }
    const std::vector<text::IdPair> merges = text::derive_merges(tokens_, in_.scores, may_join);
    out_.merges.reserve(merges.size());
    bool differ = merges.size() < 2;
    float first_score = 0;
    std::string joined;
    for (const text::IdPair& pair : merges) {
      if (!differ) {
        joined.assign(tokens_.text(pair.left)).append(tokens_.text(pair.right));
        const float score = in_.scores[static_cast<size_t>(tokens_.find(joined))];
        if (out_.merges.empty()) first_score = score;
        differ = score != first_score;
      }
      add_merge(pair.left, pair.right);
    }
    if (!differ) {
      return refuse("scores", "the same score for all tokens that merges make",
                    "SentencePiece's scores, or tokenizer.ggml.merges", StatusCode::kUnsupported);
    }
    return {};
  }

  // Lists the model's vocabulary. With llama it has all tokens, with gpt2 those that are not added
  // ones and those that merges name, as in most tokenizer.json files; a difference shows only in
  // the decoding of added tokens beyond ASCII.
  Status list_vocab() {
    out_.has_merges = true;
    out_.vocab.reserve(in_.tokens.size());
    for (size_t id = 0; id < in_.tokens.size(); ++id) {
      if (is_no_token(id)) continue;
      if (!is_llama_ && is_added(id) && in_model_[id] == 0) continue;
      out_.vocab.push_back({spans_[id], static_cast<int32_t>(id)});
    }
    if (out_.vocab.empty()) {
      return refuse("tokens", "none that is ordinary", "tokens that texts consist of");
    }
    return {};
  }

  json added_tokens() const {
    json list = json::array();
    for (size_t id = 0; id < in_.tokens.size(); ++id) {
      if (!is_added(id) || is_no_token(id)) continue;
      list.push_back({{"id", id},
                      {"content", out_.view(spans_[id])},
                      {"special", in_.types[id] != GgufVocabulary::kUserDefined},
                      // Searched in text in which spaces have become U+2581.
                      {"normalized", has_spaces_for_marks(id)}});
    }
    return list;
  }

  void add_splitting(json& document) const {
    if (!is_llama_) {
      document["normalizer"] = text::normalizer_json(*kind_);
      document["pre_tokenizer"] = text::pre_tokenizer_json(*kind_);
      return;
    }
    document["normalizer"] = nullptr;
    document["pre_tokenizer"] = nullptr;
    const int32_t instruction = tokens_.find("[INST]");
    if (adds_prefix_ && instruction >= 0 &&
        in_.types[static_cast<size_t>(instruction)] == GgufVocabulary::kControl) {
      document["pre_tokenizer"] = {{"type", "Metaspace"},
                                   {"replacement", kMark},
                                   {"prepend_scheme", "first"},
                                   {"split", false}};
      return;
    }
    json steps = json::array();
    if (adds_prefix_) steps.push_back({{"type", "Prepend"}, {"prepend", kMark}});
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}});
    document["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
  }

  Result<json> post_processor() const {
    const std::optional<int32_t> bos = is_llama_ ? in_.bos.value_or(1) : in_.bos;
    const std::optional<int32_t> eos = is_llama_ ? in_.eos.value_or(2) : in_.eos;
    json single = json::array();
    json special = json::object();
    const auto add = [&](const char* name, std::optional<int32_t> id) {
      if (!id || !tokens_.has(*id)) {
        return refuse(
            std::string(name) + "_token_id", id ? std::to_string(*id) : "none",
            std::string("a token's id, since it is added to each text (add_") + name + "_token)");
      }
      single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
      special[name] = {{"id", name}, {"ids", {*id}}, {"tokens", {tokens_.text(*id)}}};
      return Status();
    };
    if (in_.add_bos.value_or(is_llama_ || kind_->add_bos)) {
      FORERUN_RETURN_IF_ERROR(add("bos", bos));
    }
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    if (in_.add_eos.value_or(false)) FORERUN_RETURN_IF_ERROR(add("eos", eos));
    return json{{"type", "TemplateProcessing"},
                {"single", std::move(single)},
                {"special_tokens", std::move(special)}};
  }

  json decoder() const {
    if (!is_llama_) return {{"type", "ByteLevel"}};
    json steps = {{{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
                  {{"type", "ByteFallback"}},
                  {{"type", "Fuse"}}};
    if (adds_prefix_) {
      steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    }
    return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
  }

  json model() const {
    json model = {{"type", "BPE"}};
    if (!is_llama_) {
      model["ignore_merges"] = kind_->ignore_merges;
      return model;
    }
    const int32_t unk = in_.unk.value_or(0);
    if (tokens_.has(unk)) model["unk_token"] = tokens_.text(unk);
    model["fuse_unk"] = true;
    model["byte_fallback"] = true;
    return model;
  }

  const GgufVocabulary& in_;
  const GgufPreKind* kind_ = nullptr;  // kind of a gpt2 vocabulary; else null
  bool is_llama_ = false;
  bool adds_prefix_ = false;
  text::TokenTable tokens_;
  std::vector<text::StringSpan> spans_;  // indexed by id
  std::vector<uint8_t> in_model_;        // indexed by id: a merge names the token
  text::TokenizerJson out_;
};

}  // namespace

Result<text::TokenizerJson> text::to_tokenizer_json(const GgufVocabulary& vocabulary,
                                                    std::string name) {
  return Converter(vocabulary, std::move(name)).convert();
}

Result<Tokenizer> Tokenizer::from_gguf(const GgufVocabulary& vocabulary, std::string name) {
  FORERUN_ASSIGN_OR_RETURN(const text::TokenizerJson tokenizer,
                           text::to_tokenizer_json(vocabulary, std::move(name)));
  return build(tokenizer, nullptr);
}

}  // namespace forerun
