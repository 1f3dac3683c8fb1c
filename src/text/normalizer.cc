#include "text/normalizer.h"

#include <utility>

#include "base/status_macros.h"
#include "text/byte_alphabet.h"
#include "text/split.h"
#include "text/unicode_case.h"
#include "text/utf8.h"

namespace forerun::text {
namespace {

constexpr int kMaxNormalizerNesting = 16;
// A rewrite may lengthen the text; growth beyond this factor counts as an attack.
constexpr size_t kMaxGrowth = 64;
constexpr size_t kMaxNormalizers = 64;

std::string_view strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    const CodePoint point = first_code_point(text);
    if (!is_white_space(point.value)) break;
    text.remove_prefix(point.len_bytes);
  }
  while (right && !text.empty()) {
    const CodePoint point = last_code_point(text);
    if (!is_white_space(point.value)) break;
    text.remove_suffix(point.len_bytes);
  }
  return text;
}

// Writes `text` to `out` with every `pattern` replaced; returns false, with `out` unchanged, if
// there is none.
bool replace_text(std::string_view text, std::string_view pattern, std::string_view content,
                  std::string& out) {
  size_t found = pattern.empty() ? std::string_view::npos : text.find(pattern);
  if (found == std::string_view::npos) return false;
  out.clear();
  out.reserve(text.size() + text.size() / 4);
  size_t from = 0;
  for (; found != std::string_view::npos; found = text.find(pattern, from)) {
    out.append(text, from, found - from);
    out.append(content);
    from = found + pattern.size();
  }
  out.append(text, from);
  return true;
}

Result<bool> replace_regex(std::string_view text, const Regex& pattern, std::string_view content,
                           Regex::Matcher& matcher, std::string& out) {
  MatchCursor cursor(pattern, text);
  size_t from = 0;
  bool any = false;
  while (true) {
    FORERUN_ASSIGN_OR_RETURN(const std::optional<MatchSpan> match, cursor.next(matcher));
    if (!match) break;
    if (!any) out.clear();
    any = true;
    out.append(text, from, match->begin - from);
    out.append(content);
    from = match->end;
  }
  if (any) out.append(text, from);
  return any;
}

Result<NormalForm> form_of(const std::string& type, const JsonValue& field) {
  if (type == "NFC") return NormalForm::kNfc;
  if (type == "NFD") return NormalForm::kNfd;
  if (type == "NFKC") return NormalForm::kNfkc;
  if (type == "NFKD") return NormalForm::kNfkd;
  return field["type"].refuse(
      "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip, StripAccents, "
      "ByteLevel",
      StatusCode::kUnsupported);
}

}  // namespace

Result<Regex> read_pattern(const JsonValue& pattern) {
  const JsonValue text = pattern["String"];
  const JsonValue regex = pattern["Regex"];
  if (text.is_null() == regex.is_null()) {
    return pattern.refuse("{\"String\": ...} or {\"Regex\": ...}", StatusCode::kUnsupported);
  }
  const JsonValue& given = text.is_null() ? regex : text;
  FORERUN_ASSIGN_OR_RETURN(const std::string source, given.as_string());
  Result<Regex> compiled = text.is_null() ? Regex::compile(source) : Regex::compile_literal(source);
  if (!compiled.ok()) return compiled.status().with_context(given.name());
  return compiled;
}

Result<Normalizer> Normalizer::build(const JsonValue& field) {
  Normalizer out;
  FORERUN_RETURN_IF_ERROR(append(field, 0, out.steps_));
  if (out.steps_.size() > kMaxNormalizers) {
    return field.refuse("at most " + std::to_string(kMaxNormalizers) + " normalizers",
                        StatusCode::kUnsupported);
  }
  return out;
}

Status Normalizer::append(const JsonValue& field, int depth, std::vector<Step>& out) {
  if (field.is_null()) return {};
  if (depth > kMaxNormalizerNesting)
    return field.refuse("sequences nested at most 16 deep", StatusCode::kUnsupported);
  FORERUN_ASSIGN_OR_RETURN(const std::string type, field["type"].as_string());
  if (type == "Sequence") {
    FORERUN_ASSIGN_OR_RETURN(const std::vector<JsonValue> parts, field["normalizers"].as_list());
    for (const JsonValue& part : parts) FORERUN_RETURN_IF_ERROR(append(part, depth + 1, out));
  } else if (type == "Lowercase") {
    out.push_back(Lowercase{});
  } else if (type == "ByteLevel") {
    out.push_back(ByteLevel{});
  } else if (type == "Prepend") {
    FORERUN_ASSIGN_OR_RETURN(std::string text, field["prepend"].as_string());
    out.push_back(Prepend{std::move(text)});
  } else if (type == "Replace") {
    FORERUN_ASSIGN_OR_RETURN(std::string content, field["content"].as_string());
    const JsonValue literal = field["pattern"]["String"];
    if (literal.is_string()) {
      FORERUN_ASSIGN_OR_RETURN(std::string pattern, literal.as_string());
      out.push_back(ReplaceText{std::move(pattern), std::move(content)});
    } else {
      FORERUN_ASSIGN_OR_RETURN(Regex pattern, read_pattern(field["pattern"]));
      out.push_back(ReplaceRegex{std::move(pattern), std::move(content)});
    }
  } else if (type == "Strip") {
    FORERUN_ASSIGN_OR_RETURN(const bool left, field["strip_left"].bool_or(true));
    FORERUN_ASSIGN_OR_RETURN(const bool right, field["strip_right"].bool_or(true));
    out.push_back(Strip{left, right});
  } else if (type == "StripAccents") {
    FORERUN_ASSIGN_OR_RETURN(Regex marks, Regex::compile("\\p{M}+"));
    out.push_back(ReplaceRegex{std::move(marks), ""});
  } else {
    FORERUN_ASSIGN_OR_RETURN(const NormalForm form, form_of(type, field));
    out.push_back(Form{form});
  }
  return {};
}

size_t Normalizer::max_shrink() const {
  // Normalization composes one character from at most four, of up to four bytes each; lower case
  // turns three bytes into one (U+212A).
  constexpr size_t kFormShrink = 16;
  constexpr size_t kLowerShrink = 3;
  constexpr size_t kMaxShrink = size_t{1} << 20;  // a larger bound would be useless
  size_t shrink = 1;
  for (const Step& step : steps_) {
    if (std::holds_alternative<Form>(step)) {
      shrink *= kFormShrink;
    } else if (std::holds_alternative<Lowercase>(step)) {
      shrink *= kLowerShrink;
    } else if (const auto* literal = std::get_if<ReplaceText>(&step)) {
      if (literal->pattern.empty()) continue;
      if (literal->content.empty()) return 0;
      shrink *= (literal->pattern.size() + literal->content.size() - 1) / literal->content.size();
    } else if (std::holds_alternative<ReplaceRegex>(step) || std::holds_alternative<Strip>(step)) {
      return 0;
    }
    if (shrink > kMaxShrink) return 0;
  }
  return shrink;
}

Result<std::string_view> Normalizer::apply(std::string_view text, Scratch& scratch,
                                           Regex::Matcher& matcher) const {
  const size_t max_bytes = kMaxGrowth * (text.size() + 1024);
  std::string_view current = text;
  std::string* next = &scratch.front;
  for (const Step& step : steps_) {
    if (current.empty()) break;
    bool changed = true;
    if (const auto* form = std::get_if<Form>(&step)) {
      changed = form->form != NormalForm::kNfc || !is_certainly_nfc(current);
      if (changed) *next = normalize(current, form->form);
    } else if (std::get_if<Lowercase>(&step)) {
      *next = lower_case(current);
    } else if (std::get_if<ByteLevel>(&step)) {
      *next = to_byte_alphabet(current);
    } else if (const auto* prepend = std::get_if<Prepend>(&step)) {
      next->assign(prepend->text).append(current);
    } else if (const auto* literal = std::get_if<ReplaceText>(&step)) {
      changed = replace_text(current, literal->pattern, literal->content, *next);
    } else if (const auto* regex = std::get_if<ReplaceRegex>(&step)) {
      FORERUN_ASSIGN_OR_RETURN(
          changed, replace_regex(current, regex->pattern, regex->content, matcher, *next));
    } else if (const auto* ends = std::get_if<Strip>(&step)) {
      current = strip(current, ends->left, ends->right);
      changed = false;
    }
    if (!changed) continue;
    if (next->size() > max_bytes) {
      return Status(StatusCode::kResourceExhausted,
                    "normalizer: text of " + std::to_string(text.size()) + " bytes grew to " +
                        std::to_string(next->size()) + "; accepted: at most 64 times its size");
    }
    current = *next;
    next = next == &scratch.front ? &scratch.back : &scratch.front;
  }
  return current;
}

}  // namespace forerun::text
