#include "text/token_decoder.h"

#include <utility>

#include "base/status_macros.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace forerun::text {
namespace {

constexpr int kMaxDecoderNesting = 16;
constexpr size_t kMaxDecoders = 32;
constexpr size_t kMaxReplacementBytes = 64;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Returns the byte of "<0xHH>", or -1.
int16_t byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const int high = hex_digit(token[3]);
  const int low = hex_digit(token[4]);
  return high < 0 || low < 0 ? int16_t{-1} : static_cast<int16_t>(high * 16 + low);
}

std::string replaced(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  size_t from = 0;
  for (size_t found = text.find(pattern); found != std::string_view::npos;
       found = text.find(pattern, from)) {
    out.append(text, from, found - from);
    out.append(content);
    from = found + pattern.size();
  }
  out.append(text, from);
  return out;
}

// Drops `content` up to `count` times from the front of `text`; returns the remaining count.
int64_t strip_front(std::string_view& text, std::string_view content, int64_t count) {
  while (count > 0 && text.starts_with(content)) {
    text.remove_prefix(content.size());
    --count;
  }
  return count;
}

}  // namespace

Result<TokenDecoder> TokenDecoder::build(const JsonValue& field) {
  TokenDecoder out;
  out.join_by_space_ = field.is_null();
  FORERUN_RETURN_IF_ERROR(append(field, 0, out));
  if (out.steps_.size() > kMaxDecoders) {
    return field.refuse("at most " + std::to_string(kMaxDecoders) + " steps",
                        StatusCode::kUnsupported);
  }
  return out;
}

Status TokenDecoder::append(const JsonValue& field, int depth, TokenDecoder& out) {
  if (field.is_null()) return {};
  if (depth > kMaxDecoderNesting)
    return field.refuse("sequences nested at most 16 deep", StatusCode::kUnsupported);
  FORERUN_ASSIGN_OR_RETURN(const std::string type, field["type"].as_string());
  if (type == "Sequence") {
    FORERUN_ASSIGN_OR_RETURN(const std::vector<JsonValue> parts, field["decoders"].as_list());
    for (const JsonValue& part : parts) FORERUN_RETURN_IF_ERROR(append(part, depth + 1, out));
    return {};
  }
  if (type == "Fuse") {
    out.fused_ = true;
    return {};
  }
  if (type == "Strip") return out.append_strip(field);
  if (type == "ByteLevel") {
    if (!out.steps_.empty() || out.bytes_ != Bytes::kNone || out.fused_) {
      return field.refuse("ByteLevel as the first decoder", StatusCode::kUnsupported);
    }
    out.bytes_ = Bytes::kLevel;
    return {};
  }
  if (out.bytes_ != Bytes::kNone || out.fused_) {
    return field.refuse("Fuse or Strip after ByteLevel, ByteFallback or Fuse",
                        StatusCode::kUnsupported);
  }
  if (type == "ByteFallback") {
    out.bytes_ = Bytes::kFallback;
  } else if (type == "Replace") {
    FORERUN_ASSIGN_OR_RETURN(std::string pattern, field["pattern"]["String"].as_string());
    FORERUN_ASSIGN_OR_RETURN(std::string content, field["content"].as_string());
    if (pattern.empty() || content.size() > kMaxReplacementBytes) {
      return field.refuse("a pattern that is not empty and a content of at most 64 bytes",
                          StatusCode::kUnsupported);
    }
    out.steps_.push_back(Replace{std::move(pattern), std::move(content)});
  } else if (type == "Metaspace") {
    FORERUN_ASSIGN_OR_RETURN(std::string mark, field["replacement"].string_or("\xe2\x96\x81"));
    FORERUN_ASSIGN_OR_RETURN(const bool add, field["add_prefix_space"].bool_or(true));
    FORERUN_ASSIGN_OR_RETURN(const std::string scheme,
                             field["prepend_scheme"].string_or(add ? "always" : "never"));
    if (mark.empty()) return field["replacement"].refuse("one character", StatusCode::kUnsupported);
    const bool drop = scheme != "never";
    out.depends_on_first_ |= drop;
    out.steps_.push_back(Metaspace{std::move(mark), drop});
  } else {
    return field["type"].refuse(
        "Sequence, ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace",
        StatusCode::kUnsupported);
  }
  return {};
}

Status TokenDecoder::append_strip(const JsonValue& field) {
  Strip strip;
  FORERUN_ASSIGN_OR_RETURN(strip.content, field["content"].as_string());
  FORERUN_ASSIGN_OR_RETURN(strip.start, field["start"].as_integer(0, INT64_MAX));
  FORERUN_ASSIGN_OR_RETURN(strip.stop, field["stop"].as_integer(0, INT64_MAX));
  if (first_code_point(strip.content).len_bytes != strip.content.size() || strip.content.empty()) {
    return field["content"].refuse("one character", StatusCode::kUnsupported);
  }
  if (!fused_) {
    if (bytes_ != Bytes::kNone)
      return field.refuse("Strip before ByteFallback or after Fuse", StatusCode::kUnsupported);
    steps_.push_back(std::move(strip));
    return {};
  }
  if (strip.stop != 0) return field["stop"].refuse("0 after Fuse", StatusCode::kUnsupported);
  if (strip_.start != 0) return field.refuse("one Strip after Fuse", StatusCode::kUnsupported);
  strip_ = std::move(strip);
  return {};
}

std::string TokenDecoder::apply_steps(std::string_view token, bool first) const {
  std::string text(token);
  for (const TokenStep& step : steps_) {
    if (const auto* replace = std::get_if<Replace>(&step)) {
      text = replaced(text, replace->pattern, replace->content);
    } else if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
      text = replaced(text, metaspace->mark, first && metaspace->drop_in_first ? "" : " ");
    } else if (const auto* strip = std::get_if<Strip>(&step)) {
      std::string_view view = text;
      strip_front(view, strip->content, strip->start);
      for (int64_t left = strip->stop; left > 0 && view.ends_with(strip->content); --left) {
        view.remove_suffix(strip->content.size());
      }
      text = std::string(view);
    }
  }
  return text;
}

void TokenDecoder::add_token(std::string_view token, bool present, bool literal) {
  const auto add = [&](bool first, std::string& arena, std::vector<Entry>& entries) {
    Entry entry;
    entry.present = present;
    entry.offset = static_cast<uint32_t>(arena.size());
    if (bytes_ == Bytes::kLevel) {
      if (literal || !append_from_byte_alphabet(token, arena)) arena.append(token);
    } else {
      const std::string text = apply_steps(token, first);
      if (bytes_ == Bytes::kFallback) entry.byte = byte_of_token(text);
      arena.append(text);
    }
    entry.len_bytes = static_cast<uint32_t>(arena.size()) - entry.offset;
    entries.push_back(entry);
  };
  add(false, arena_, entries_);
  if (depends_on_first_) add(true, first_arena_, first_entries_);
}

void TokenDecoder::push(int32_t id, DecodeState& state, std::string& out) const {
  if (id < 0 || static_cast<size_t>(id) >= entries_.size()) return;
  const bool other = state.first && depends_on_first_;
  const Entry& entry = (other ? first_entries_ : entries_)[static_cast<size_t>(id)];
  if (!entry.present) return;
  const std::string_view text =
      std::string_view(other ? first_arena_ : arena_).substr(entry.offset, entry.len_bytes);
  if (join_by_space_ && !state.first) out.push_back(' ');
  state.first = false;
  if (bytes_ == Bytes::kLevel) {
    state.pending.append(text);
    drain(false, state, out);
  } else if (entry.byte >= 0) {
    state.pending.push_back(static_cast<char>(entry.byte));
    drain(false, state, out);
  } else {
    if (!state.pending.empty()) drain(true, state, out);
    emit(text, state, out);
  }
}

std::optional<std::string> TokenDecoder::bytes_of(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= entries_.size()) return std::nullopt;
  const Entry& entry = entries_[static_cast<size_t>(id)];
  if (!entry.present) return std::nullopt;
  if (entry.byte >= 0) return std::string(1, static_cast<char>(entry.byte));
  return arena_.substr(entry.offset, entry.len_bytes);
}

void TokenDecoder::finish(DecodeState& state, std::string& out) const {
  drain(true, state, out);
  state = DecodeState();
}

void TokenDecoder::drain(bool at_end, DecodeState& state, std::string& out) const {
  std::string_view left = state.pending;
  while (!left.empty()) {
    const size_t good = well_formed_prefix(left);
    emit(left.substr(0, good), state, out);
    left.remove_prefix(good);
    if (left.empty() || (!at_end && is_incomplete_character(left))) break;
    const uint32_t bad = first_code_point(left).len_bytes;
    const uint32_t marks = bytes_ == Bytes::kFallback ? bad : 1;
    for (uint32_t i = 0; i < marks; ++i) emit("\xef\xbf\xbd", state, out);
    left.remove_prefix(bad);
  }
  state.pending.erase(0, state.pending.size() - left.size());
}

void TokenDecoder::emit(std::string_view text, DecodeState& state, std::string& out) const {
  if (state.to_strip < 0) state.to_strip = strip_.start;
  if (state.to_strip > 0) {
    state.to_strip = strip_front(text, strip_.content, state.to_strip);
    if (!text.empty()) state.to_strip = 0;
  }
  out.append(text);
}

}  // namespace forerun::text
