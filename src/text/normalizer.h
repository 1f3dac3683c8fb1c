// The normalizer of tokenizer.json: a list of rewrites of the text before it is split.
// Const and thread-safe; callers bring their own scratch.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "forerun/status.h"
#include "json/json_value.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace forerun::text {

class Normalizer {
 public:
  struct Scratch {
    std::string front, back;
  };

  // Accepts Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip, StripAccents and
  // ByteLevel; null is the empty list. Others are kUnsupported by name.
  static Result<Normalizer> build(const JsonValue& field);

  bool empty() const { return steps_.empty(); }
  // Normalizing makes a text shorter, in bytes, by at most this factor; 0: there is no bound.
  size_t max_shrink() const;

  // The rewritten text: `text` itself where nothing changed, else a view of `scratch` that lives
  // until its next use. `text` must be well-formed UTF-8 and must not lie in `scratch`.
  Result<std::string_view> apply(std::string_view text, Scratch& scratch,
                                 Regex::Matcher& matcher) const;

 private:
  struct Form {
    NormalForm form;
  };
  struct Lowercase {};
  struct ByteLevel {};
  struct Prepend {
    std::string text;
  };
  struct ReplaceText {
    std::string pattern, content;
  };
  struct ReplaceRegex {
    Regex pattern;
    std::string content;
  };
  struct Strip {
    bool left, right;
  };
  using Step = std::variant<Form, Lowercase, ByteLevel, Prepend, ReplaceText, ReplaceRegex, Strip>;

  static Status append(const JsonValue& field, int depth, std::vector<Step>& out);

  std::vector<Step> steps_;
};

// `pattern` as tokenizer.json writes it: {"String": s} or {"Regex": r}.
Result<Regex> read_pattern(const JsonValue& pattern);

}  // namespace forerun::text
