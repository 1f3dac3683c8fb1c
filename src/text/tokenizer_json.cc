#include "text/tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"

namespace forerun::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxFileBytes = size_t{1} << 30;

class Handler final : public nlohmann::json_sax<json> {
 public:
  explicit Handler(TokenizerJson& out) : out_(out) {}

  const Status& status() const { return status_; }

  bool null() override { return value(json(nullptr)); }
  bool boolean(bool flag) override { return value(json(flag)); }
  bool number_float(number_float_t number, const string_t&) override { return value(json(number)); }
  bool binary(binary_t&) override { return value(json(nullptr)); }

  bool number_integer(number_integer_t number) override {
    if (mode_ == Mode::kVocab) return vocab_id(number);
    return value(json(number));
  }
  bool number_unsigned(number_unsigned_t number) override {
    if (mode_ == Mode::kVocab) {
      return vocab_id(number > uint64_t{1} << 40 ? -1 : static_cast<int64_t>(number));
    }
    return value(json(number));
  }

  bool string(string_t& text) override {
    if (mode_ == Mode::kMerges) return merge_text(text);
    return value(json(std::move(text)));
  }

  bool key(string_t& name) override {
    if (mode_ == Mode::kVocab) {
      vocab_text_ = keep(name);
      return true;
    }
    key_ = std::move(name);
    return true;
  }

  bool start_object(size_t) override {
    if (at_model_member("vocab")) {
      mode_ = Mode::kVocab;
      return true;
    }
    return open(json::object());
  }
  bool end_object() override {
    if (mode_ == Mode::kVocab) {
      mode_ = Mode::kDocument;
      return true;
    }
    return close();
  }

  bool start_array(size_t) override {
    if (mode_ == Mode::kMerges) {
      if (pair_len_ >= 0) return unexpected("a list inside a pair");
      pair_len_ = 0;
      return true;
    }
    if (at_model_member("merges")) {
      mode_ = Mode::kMerges;
      out_.has_merges = true;
      return true;
    }
    return open(json::array());
  }
  bool end_array() override {
    if (mode_ != Mode::kMerges) return close();
    if (pair_len_ < 0) {
      mode_ = Mode::kDocument;
      return true;
    }
    if (pair_len_ != 2) return unexpected("a list of " + std::to_string(pair_len_));
    pair_len_ = -1;
    out_.merges.push_back({pair_[0], pair_[1]});
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return fail("found broken JSON at byte " + std::to_string(position));
  }

 private:
  enum class Mode : uint8_t { kDocument, kVocab, kMerges };

  bool fail(std::string message) {
    if (status_.ok()) status_ = Status(StatusCode::kCorrupt, out_.name + ": " + std::move(message));
    return false;
  }

  bool unexpected(const std::string& found) {
    if (mode_ == Mode::kVocab) {
      return fail("model.vocab[" + in_quotes(out_.view(vocab_text_)) + "]: found " + found +
                  "; accepted: an id from 0 to " + std::to_string(kMaxTokenId));
    }
    return fail("model.merges[" + std::to_string(out_.merges.size()) + "]: found " + found +
                "; accepted: \"left right\" or [\"left\", \"right\"]");
  }

  StringSpan keep(std::string_view text) {
    const StringSpan span{static_cast<uint32_t>(out_.strings.size()),
                          static_cast<uint32_t>(text.size())};
    out_.strings.append(text);
    return span;
  }

  bool at_model_member(std::string_view name) const {
    return mode_ == Mode::kDocument && stack_.size() == 2 && key_ == name &&
           stack_[0]->is_object() && stack_[1] == model_;
  }

  bool vocab_id(int64_t id) {
    if (id < 0 || id > kMaxTokenId) return unexpected("an id out of range");
    out_.vocab.push_back({vocab_text_, static_cast<int32_t>(id)});
    return true;
  }

  bool merge_text(const std::string& text) {
    if (pair_len_ >= 0) {
      if (pair_len_ >= 2) return unexpected("a list of more than two");
      pair_[pair_len_++] = keep(text);
      return true;
    }
    if (out_.merges.empty() && text.starts_with("#version")) return true;
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return unexpected(in_quotes(text));
    }
    const std::string_view view = text;
    const StringSpan left = keep(view.substr(0, space));
    const StringSpan right = keep(view.substr(space + 1));
    out_.merges.push_back({left, right});
    return true;
  }

  bool value(json item) {
    if (mode_ != Mode::kDocument) return unexpected(item.dump(-1, ' ', true, replace_));
    insert(std::move(item));
    return true;
  }

  bool open(json item) {
    if (mode_ != Mode::kDocument) return unexpected("a nested value");
    if (stack_.size() >= kMaxDepth) {
      return fail("found more than " + std::to_string(kMaxDepth) +
                  " nested levels; accepted: at most " + std::to_string(kMaxDepth));
    }
    const bool is_model = stack_.size() == 1 && stack_[0]->is_object() && key_ == "model";
    json* inserted = insert(std::move(item));
    if (is_model) model_ = inserted;
    stack_.push_back(inserted);
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  json* insert(json item) {
    if (stack_.empty()) {
      *out_.document = std::move(item);
      return out_.document.get();
    }
    json& top = *stack_.back();
    if (top.is_array()) {
      top.push_back(std::move(item));
      return &top.back();
    }
    json& member = top[key_];
    member = std::move(item);
    return &member;
  }

  static constexpr auto replace_ = json::error_handler_t::replace;
  TokenizerJson& out_;
  Status status_;
  Mode mode_ = Mode::kDocument;
  std::string key_;
  // Open objects and arrays. An array's growth moves only its closed elements, so these pointers
  // stay valid.
  std::vector<json*> stack_;
  const json* model_ = nullptr;
  StringSpan vocab_text_;
  StringSpan pair_[2];
  int pair_len_ = -1;  // number of strings read of a ["left", "right"]; -1 outside
};

}  // namespace

JsonValue TokenizerJson::root() const { return JsonValue(document.get(), name); }

Result<TokenizerJson> parse_tokenizer_json(std::string_view bytes, std::string name) {
  TokenizerJson out;
  out.name = std::move(name);
  out.document = std::make_shared<json>();
  if (bytes.size() > kMaxFileBytes) {
    return Status(StatusCode::kUnsupported, out.name + ": " + std::to_string(bytes.size()) +
                                                " bytes; accepted: at most 1 GiB");
  }
  Handler handler(out);
  const bool parsed = json::sax_parse(bytes.begin(), bytes.end(), &handler);
  FORERUN_RETURN_IF_ERROR(handler.status());
  if (!parsed) return Status(StatusCode::kCorrupt, out.name + ": broken JSON");
  if (!out.document->is_object()) {
    return Status(StatusCode::kCorrupt, out.name + ": found no object; accepted: an object");
  }
  return out;
}

}  // namespace forerun::text
