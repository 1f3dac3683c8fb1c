// The normalizer of tokenizer.json: a list of rewrites of the text before it is split. Const and
// thread-safe; callers bring their own scratch.
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
  // ByteLevel; null is the empty list. Fails with kUnsupported and the name for others.
  static Result<Normalizer> build(const JsonValue& field);

  bool empty() const { return steps_.empty(); }
  // Returns the largest factor, in bytes, by which normalizing shortens a text; 0: there is no
  // bound.
  size_t max_shrink() const;

  // Returns the rewritten text: `text` itself if it is unchanged, else a view of `scratch` that is
  // valid until its next use. `text` must be well-formed UTF-8 and must not be in `scratch`.
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

// Reads a `pattern` of tokenizer.json: {"String": s} or {"Regex": r}.
Result<Regex> read_pattern(const JsonValue& pattern);

}  // namespace forerun::text
