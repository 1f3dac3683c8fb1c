#include "text/added_tokens.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "text/regex.h"
#include "text/tokenizer_json.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace forerun::text {
namespace {

bool is_word(const CodePoint& point) {
  if (point.len_bytes == 0) return false;
  const char32_t c = point.value;
  if (c < 0x80) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
  // \w as in Rust's regex, which Hugging Face uses here: it includes the two joiners.
  static const Result<Regex> word = Regex::compile("[\\w\\x{200c}\\x{200d}]");
  if (!word.ok()) return false;
  std::string text;
  append_utf8(c, text);
  Regex::Matcher matcher;
  const auto match = word->find(text, 0, matcher);
  return match.ok() && match->has_value();
}

size_t begin_of_space_before(std::string_view text, size_t end, size_t floor) {
  while (end > floor) {
    const CodePoint point = last_code_point(text.substr(floor, end - floor));
    if (!is_white_space(point.value)) break;
    end -= point.len_bytes;
  }
  return end;
}

size_t end_of_space_behind(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const CodePoint point = first_code_point(text.substr(begin));
    if (!is_white_space(point.value)) break;
    begin += point.len_bytes;
  }
  return begin;
}

// Reads all members but the id.
Result<AddedToken> read_added_token(const JsonValue& entry) {
  AddedToken token;
  FORERUN_ASSIGN_OR_RETURN(token.content, entry["content"].as_string());
  if (token.content.size() > kMaxAddedTokenBytes) {
    return entry["content"].refuse("at most " + std::to_string(kMaxAddedTokenBytes) + " bytes",
                                   StatusCode::kUnsupported);
  }
  FORERUN_ASSIGN_OR_RETURN(token.special, entry["special"].bool_or(false));
  FORERUN_ASSIGN_OR_RETURN(token.single_word, entry["single_word"].bool_or(false));
  FORERUN_ASSIGN_OR_RETURN(token.lstrip, entry["lstrip"].bool_or(false));
  FORERUN_ASSIGN_OR_RETURN(token.rstrip, entry["rstrip"].bool_or(false));
  FORERUN_ASSIGN_OR_RETURN(token.normalized, entry["normalized"].bool_or(!token.special));
  return token;
}

}  // namespace

Result<std::vector<AddedToken>> read_added_tokens(const JsonValue& list) {
  std::vector<AddedToken> out;
  if (list.is_null()) return out;
  FORERUN_ASSIGN_OR_RETURN(const std::vector<JsonValue> entries, list.as_list());
  for (const JsonValue& entry : entries) {
    FORERUN_ASSIGN_OR_RETURN(const int64_t id, entry["id"].as_integer(0, kMaxTokenId));
    FORERUN_ASSIGN_OR_RETURN(AddedToken token, read_added_token(entry));
    token.id = static_cast<int32_t>(id);
    out.push_back(std::move(token));
  }
  return out;
}

Status merge_added_tokens_decoder(const JsonValue& decoder, const TokenTable& vocab,
                                  std::vector<AddedToken>& added) {
  if (decoder.is_null()) return {};
  FORERUN_ASSIGN_OR_RETURN(const std::vector<std::string> keys, decoder.keys());
  std::map<int32_t, AddedToken> by_id;
  for (const std::string& key : keys) {
    int32_t id = -1;
    const auto end = std::from_chars(key.data(), key.data() + key.size(), id);
    if (end.ec != std::errc() || end.ptr != key.data() + key.size() || id < 0 || id > kMaxTokenId) {
      return decoder[key].refuse("ids from 0 to " + std::to_string(kMaxTokenId) + " as keys",
                                 StatusCode::kCorrupt);
    }
    FORERUN_ASSIGN_OR_RETURN(by_id[id], read_added_token(decoder[key]));
  }
  int32_t next = vocab.end_id();
  for (const AddedToken& token : added) next = std::max(next, token.id + 1);
  for (auto& entry : by_id) {
    const int32_t id = entry.first;
    AddedToken& token = entry.second;
    const auto known = std::find_if(added.begin(), added.end(), [&](const AddedToken& other) {
      return other.content == token.content;
    });
    if (known != added.end()) {
      token.id = known->id;
      *known = token;
      continue;
    }
    token.id = vocab.find(token.content);
    if (token.id < 0) {
      token.id = next++;
      if (token.id != id) {
        return decoder[std::to_string(id)].refuse(
            "the next id that tokenizer.json leaves free, " + std::to_string(token.id),
            StatusCode::kCorrupt);
      }
    }
    added.push_back(token);
  }
  return {};
}

AddedTokenFinder::AddedTokenFinder(const std::vector<AddedToken>& tokens)
    : nodes_(1), starts_(256, false) {
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    starts_[static_cast<uint8_t>(token.content[0])] = true;
    uint32_t at = 0;
    for (const char c : token.content) {
      const uint8_t byte = static_cast<uint8_t>(c);
      auto& next = nodes_[at].next;
      const auto place = std::lower_bound(next.begin(), next.end(), std::pair(byte, uint32_t{0}));
      if (place != next.end() && place->first == byte) {
        at = place->second;
        continue;
      }
      const uint32_t fresh = static_cast<uint32_t>(nodes_.size());
      next.insert(place, {byte, fresh});
      nodes_.emplace_back();
      at = fresh;
    }
    if (nodes_[at].token < 0) nodes_[at].token = static_cast<int32_t>(tokens_.size());
    tokens_.push_back(token);
  }
}

AddedTokenFinder::Found AddedTokenFinder::longest_at(std::string_view text, size_t begin) const {
  Found best;
  uint32_t node = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    const uint8_t byte = static_cast<uint8_t>(text[at]);
    const auto& next = nodes_[node].next;
    const auto place = std::lower_bound(next.begin(), next.end(), std::pair(byte, uint32_t{0}));
    if (place == next.end() || place->first != byte) break;
    node = place->second;
    if (nodes_[node].token >= 0) best = {nodes_[node].token, at + 1};
  }
  return best;
}

void AddedTokenFinder::find(std::string_view text, bool parse_special,
                            std::vector<Segment>& out) const {
  out.clear();
  size_t covered = 0;  // `out` has all text before this position
  size_t at = tokens_.empty() ? text.size() : 0;
  while (at < text.size()) {
    if (!starts_[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const Found found = longest_at(text, at);
    if (found.token < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(found.token)];
    size_t begin = at;
    size_t end = found.end;
    at = found.end;
    if (token.special && !parse_special) continue;
    if (token.single_word && ((begin > 0 && is_word(last_code_point(text.substr(0, begin)))) ||
                              is_word(first_code_point(text.substr(end))))) {
      continue;
    }
    if (token.lstrip) begin = begin_of_space_before(text, begin, std::min(covered, begin));
    if (token.rstrip) end = end_of_space_behind(text, end);
    if (covered < begin) out.push_back({covered, begin, -1});
    out.push_back({begin, end, token.id});
    covered = end;
  }
  if (covered < text.size()) out.push_back({covered, text.size(), -1});
}

}  // namespace forerun::text
