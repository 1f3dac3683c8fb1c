#include "text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "text/byte_alphabet.h"
#include "text/normalizer.h"
#include "text/utf8.h"

namespace forerun::text {
namespace {

constexpr int kMaxPreTokenizerNesting = 16;
constexpr size_t kMaxPreTokenizers = 64;
constexpr size_t kMaxTextBytes = size_t{1} << 29;

constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kPunctuation = R"([!-/:-@\[-`{-~\p{P}])";

Result<SplitBehavior> read_behavior(const JsonValue& field) {
  FORERUN_ASSIGN_OR_RETURN(const std::string name, field.as_string());
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return field.refuse("Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous",
                      StatusCode::kUnsupported);
}

// Rewrites every piece: `rewrite(piece, is_first, out)` appends its new text to `out`.
template <class Rewrite>
void rewrite_pieces(Pieces& pieces, Rewrite rewrite) {
  std::string& out = pieces.owned_next;
  out.clear();
  for (size_t i = 0; i < pieces.spans.size(); ++i) {
    PieceSpan& span = pieces.spans[i];
    const uint32_t begin = static_cast<uint32_t>(out.size());
    rewrite(pieces.text.substr(span.begin, span.end - span.begin), i == 0, out);
    span = {begin, static_cast<uint32_t>(out.size())};
  }
  pieces.owned.swap(out);
  pieces.text = pieces.owned;
}

}  // namespace

Result<PreTokenizer> PreTokenizer::build(const JsonValue& field) {
  PreTokenizer out;
  FORERUN_RETURN_IF_ERROR(append(field, 0, out.steps_));
  if (out.steps_.size() > kMaxPreTokenizers) {
    return field.refuse("at most " + std::to_string(kMaxPreTokenizers) + " steps",
                        StatusCode::kUnsupported);
  }
  if (!out.steps_.empty() && std::holds_alternative<SpellBytes>(out.steps_.back())) {
    out.steps_.pop_back();
    out.ends_in_byte_level_ = true;
  }
  return out;
}

void PreTokenizer::spell_bytes() {
  steps_.push_back(SpellBytes{});
  ends_in_byte_level_ = false;
}

bool PreTokenizer::keeps_all() const {
  return std::none_of(steps_.begin(), steps_.end(), [](const Step& step) {
    const auto* split = std::get_if<Split>(&step);
    return split != nullptr && split->behavior == SplitBehavior::kRemoved;
  });
}

Status PreTokenizer::append(const JsonValue& field, int depth, std::vector<Step>& out) {
  if (field.is_null()) return {};
  if (depth > kMaxPreTokenizerNesting)
    return field.refuse("sequences nested at most 16 deep", StatusCode::kUnsupported);
  FORERUN_ASSIGN_OR_RETURN(const std::string type, field["type"].as_string());
  if (type == "Sequence") {
    FORERUN_ASSIGN_OR_RETURN(const std::vector<JsonValue> parts, field["pretokenizers"].as_list());
    for (const JsonValue& part : parts) FORERUN_RETURN_IF_ERROR(append(part, depth + 1, out));
    return {};
  }
  if (type == "Split") return append_split(field, out);
  if (type == "ByteLevel") return append_byte_level(field, out);
  if (type == "Metaspace") return append_metaspace(field, out);
  if (type == "Digits") {
    FORERUN_ASSIGN_OR_RETURN(const bool single, field["individual_digits"].bool_or(false));
    // Written so that a match's first byte is one of few, which skips most pieces quickly.
    return append_pattern("[0-9]|(?=[^\\x{0}-\\x{7f}])\\p{N}",
                          single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false,
                          out);
  }
  if (type == "Whitespace") {
    // Rust's regex, not Oniguruma: \w includes the two joiners and none of Latin-1's fractions.
    return append_pattern("[\\w\\x{200c}\\x{200d}]+|[^\\w\\s\\x{200c}\\x{200d}]+",
                          SplitBehavior::kRemoved, true, out);
  }
  if (type == "WhitespaceSplit") return append_pattern("\\s", SplitBehavior::kRemoved, false, out);
  if (type == "Punctuation") {
    SplitBehavior behavior = SplitBehavior::kIsolated;
    if (!field["behavior"].is_null()) {
      FORERUN_ASSIGN_OR_RETURN(behavior, read_behavior(field["behavior"]));
    }
    return append_pattern(kPunctuation, behavior, false, out);
  }
  if (type == "BertPreTokenizer") {
    FORERUN_RETURN_IF_ERROR(append_pattern("\\s", SplitBehavior::kRemoved, false, out));
    return append_pattern(kPunctuation, SplitBehavior::kIsolated, false, out);
  }
  if (type == "CharDelimiterSplit") {
    FORERUN_ASSIGN_OR_RETURN(const std::string delimiter, field["delimiter"].as_string());
    FORERUN_ASSIGN_OR_RETURN(Regex pattern, Regex::compile_literal(delimiter));
    out.push_back(Split{std::move(pattern), SplitBehavior::kRemoved, false});
    return {};
  }
  return field["type"].refuse(
      "Sequence, Split, ByteLevel, Metaspace, Digits, Whitespace, WhitespaceSplit, Punctuation, "
      "BertPreTokenizer, CharDelimiterSplit",
      StatusCode::kUnsupported);
}

Status PreTokenizer::append_pattern(std::string_view pattern, SplitBehavior behavior, bool invert,
                                    std::vector<Step>& out) {
  FORERUN_ASSIGN_OR_RETURN(Regex compiled, Regex::compile(pattern));
  out.push_back(Split{std::move(compiled), behavior, invert});
  return {};
}

Status PreTokenizer::append_split(const JsonValue& field, std::vector<Step>& out) {
  FORERUN_ASSIGN_OR_RETURN(Regex pattern, read_pattern(field["pattern"]));
  FORERUN_ASSIGN_OR_RETURN(const SplitBehavior behavior, read_behavior(field["behavior"]));
  FORERUN_ASSIGN_OR_RETURN(const bool invert, field["invert"].bool_or(false));
  out.push_back(Split{std::move(pattern), behavior, invert});
  return {};
}

Status PreTokenizer::append_byte_level(const JsonValue& field, std::vector<Step>& out) {
  FORERUN_ASSIGN_OR_RETURN(const bool prefix, field["add_prefix_space"].bool_or(true));
  FORERUN_ASSIGN_OR_RETURN(const bool words, field["use_regex"].bool_or(true));
  if (prefix) out.push_back(PrefixSpace{});
  if (words) {
    FORERUN_RETURN_IF_ERROR(append_pattern(kGpt2Words, SplitBehavior::kIsolated, false, out));
  }
  out.push_back(SpellBytes{});
  return {};
}

Status PreTokenizer::append_metaspace(const JsonValue& field, std::vector<Step>& out) {
  FORERUN_ASSIGN_OR_RETURN(std::string mark, field["replacement"].string_or("\xe2\x96\x81"));
  if (mark.empty() || first_code_point(mark).len_bytes != mark.size()) {
    return field["replacement"].refuse("one character", StatusCode::kUnsupported);
  }
  // Files older than prepend_scheme have only a flag whether a space is added.
  FORERUN_ASSIGN_OR_RETURN(const bool add, field["add_prefix_space"].bool_or(true));
  FORERUN_ASSIGN_OR_RETURN(const std::string scheme,
                           field["prepend_scheme"].string_or(add ? "always" : "never"));
  FORERUN_ASSIGN_OR_RETURN(const bool split, field["split"].bool_or(true));
  Metaspace::Prepend prepend = Metaspace::Prepend::kNever;
  if (scheme == "first") {
    prepend = Metaspace::Prepend::kFirst;
  } else if (scheme == "always") {
    prepend = Metaspace::Prepend::kAlways;
  } else if (scheme != "never") {
    return field["prepend_scheme"].refuse("first, always, never", StatusCode::kUnsupported);
  }
  FORERUN_ASSIGN_OR_RETURN(Regex mark_regex, Regex::compile_literal(mark));
  out.push_back(Metaspace{std::move(mark), prepend, split, std::move(mark_regex)});
  return {};
}

Status PreTokenizer::apply_metaspace(const Metaspace& step, Regex::Matcher& matcher,
                                     Pieces& pieces) {
  rewrite_pieces(pieces, [&](std::string_view piece, bool is_first, std::string& out) {
    const bool wanted =
        step.prepend == Metaspace::Prepend::kAlways ||
        (step.prepend == Metaspace::Prepend::kFirst && is_first && pieces.starts_input);
    if (wanted && !piece.starts_with(' ') && !piece.starts_with(step.mark)) out.append(step.mark);
    size_t from = 0;
    for (size_t space = piece.find(' '); space != std::string_view::npos;
         space = piece.find(' ', from)) {
      out.append(piece, from, space - from);
      out.append(step.mark);
      from = space + 1;
    }
    out.append(piece, from);
  });
  if (!step.split) return {};
  pieces.spans_next.clear();
  for (const PieceSpan& span : pieces.spans) {
    FORERUN_RETURN_IF_ERROR(split_text(pieces.text, span, step.mark_regex,
                                       SplitBehavior::kMergedWithNext, false, matcher, pieces.parts,
                                       pieces.spans_next));
  }
  pieces.spans.swap(pieces.spans_next);
  return {};
}

Status PreTokenizer::apply(std::string_view text, bool starts_input, Regex::Matcher& matcher,
                           Pieces& pieces) const {
  pieces.text = text;
  pieces.starts_input = starts_input;
  pieces.spans.clear();
  if (!text.empty()) pieces.spans.push_back({0, static_cast<uint32_t>(text.size())});
  for (const Step& step : steps_) {
    if (const auto* split = std::get_if<Split>(&step)) {
      pieces.spans_next.clear();
      for (const PieceSpan& span : pieces.spans) {
        FORERUN_RETURN_IF_ERROR(split_text(pieces.text, span, split->pattern, split->behavior,
                                           split->invert, matcher, pieces.parts,
                                           pieces.spans_next));
      }
      pieces.spans.swap(pieces.spans_next);
    } else if (std::get_if<SpellBytes>(&step)) {
      rewrite_pieces(pieces, [](std::string_view piece, bool, std::string& out) {
        out += to_byte_alphabet(piece);
      });
    } else if (std::get_if<PrefixSpace>(&step)) {
      rewrite_pieces(pieces, [](std::string_view piece, bool, std::string& out) {
        if (!piece.starts_with(' ')) out.push_back(' ');
        out.append(piece);
      });
    } else if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
      FORERUN_RETURN_IF_ERROR(apply_metaspace(*metaspace, matcher, pieces));
    }
    // A step at most quadruples the text: below this, offsets of the next one fit into 32 bits.
    if (pieces.text.size() > kMaxTextBytes) {
      return Status(StatusCode::kResourceExhausted,
                    "pre-tokenizer: text grew past 512 MiB; accepted: shorter text");
    }
  }
  return {};
}

}  // namespace forerun::text
