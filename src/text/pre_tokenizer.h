// The pre-tokenizer of tokenizer.json: splits normalized text into the pieces that are encoded one
// by one. Const and thread-safe; callers bring their own Pieces.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "forerun/status.h"
#include "json/json_value.h"
#include "text/regex.h"
#include "text/split.h"

namespace forerun::text {

// A text and its pieces in order; its memory is reused from call to call.
struct Pieces {
  std::string_view text;  // the caller's text, or `owned` once a step has rewritten it
  std::vector<PieceSpan> spans;
  bool starts_input = false;  // the first piece starts at the beginning of the whole input

  std::string owned, owned_next;
  std::vector<PieceSpan> spans_next;
  std::vector<SplitPart> parts;
};

class PreTokenizer {
 public:
  // Accepts Sequence, Split, ByteLevel, Metaspace, Digits, Whitespace, WhitespaceSplit,
  // Punctuation, BertPreTokenizer and CharDelimiterSplit; null keeps the text in one piece. Fails
  // with kUnsupported and the name for others.
  static Result<PreTokenizer> build(const JsonValue& field);

  // Returns whether the last step is ByteLevel's conversion to the byte alphabet. apply() then
  // skips it, for a model that takes raw bytes, unless spell_bytes() is called.
  bool ends_in_byte_level() const { return ends_in_byte_level_; }
  void spell_bytes();

  // Returns whether every byte of a text is in one of its pieces.
  bool keeps_all() const;

  // Splits `text` (well-formed UTF-8, kept as a view).
  Status apply(std::string_view text, bool starts_input, Regex::Matcher& matcher,
               Pieces& pieces) const;

 private:
  struct Split {
    Regex pattern;
    SplitBehavior behavior;
    bool invert;
  };
  struct SpellBytes {};
  struct PrefixSpace {};
  struct Metaspace {
    enum class Prepend : uint8_t { kFirst, kAlways, kNever };
    std::string mark;
    Prepend prepend;
    bool split;
    Regex mark_regex;
  };
  using Step = std::variant<Split, SpellBytes, PrefixSpace, Metaspace>;

  static Status append(const JsonValue& field, int depth, std::vector<Step>& out);
  static Status append_byte_level(const JsonValue& field, std::vector<Step>& out);
  static Status append_metaspace(const JsonValue& field, std::vector<Step>& out);
  static Status append_split(const JsonValue& field, std::vector<Step>& out);
  static Status append_pattern(std::string_view pattern, SplitBehavior behavior, bool invert,
                               std::vector<Step>& out);
  static Status apply_metaspace(const Metaspace& step, Regex::Matcher& matcher, Pieces& pieces);

  std::vector<Step> steps_;
  bool ends_in_byte_level_ = false;
};

}  // namespace forerun::text
