#include "engine/loop/reasoning_constraint.h"

#include <algorithm>
#include <utility>

namespace forerun {
namespace {

constexpr size_t kMaxLineBreaks = 2;

void set(std::span<uint32_t> words, TokenId token, bool value) {
  const auto word = static_cast<size_t>(token) / 32;
  if (word >= words.size()) return;
  const uint32_t bit = 1u << (static_cast<uint32_t>(token) % 32);
  words[word] = value ? words[word] | bit : words[word] & ~bit;
}

}  // namespace

ReasoningTokens::ReasoningTokens(OutputReasoning tags,
                                 std::shared_ptr<const std::vector<std::string>> bytes)
    : tags_(std::move(tags)),
      bytes_(std::move(bytes)),
      shorter_(tags_.close.size() + 1, 0),
      closing_(tags_.close.size()),
      opening_(tags_.open.size()) {
  for (size_t length = 2; length <= tags_.close.size(); ++length) {
    shorter_[length] = match_close(shorter_[length - 1], tags_.close[length - 1]);
  }
  for (size_t token = 0; token < bytes_->size(); ++token) {
    sort_in(static_cast<TokenId>(token), (*bytes_)[token]);
  }
}

size_t ReasoningTokens::match_close(size_t matched, char byte) const {
  while (matched > 0 && tags_.close[matched] != byte) matched = shorter_[matched];
  return tags_.close[matched] == byte ? matched + 1 : 0;
}

void ReasoningTokens::sort_in(TokenId token, std::string_view bytes) {
  if (bytes.empty()) return;
  if (bytes.front() == '\n') line_breaks_.push_back(token);
  for (size_t matched = 0; matched < opening_.size(); ++matched) {
    const std::string_view rest = std::string_view(tags_.open).substr(matched);
    if (rest.starts_with(bytes) || bytes.starts_with(rest)) opening_[matched].push_back(token);
  }
  if (bytes.find(tags_.close.back()) == std::string_view::npos) return;
  for (size_t begun = 0; begun < closing_.size(); ++begun) {
    size_t matched = begun;
    for (const char byte : bytes) {
      matched = match_close(matched, byte);
      if (matched == tags_.close.size()) {
        closing_[begun].push_back(token);
        break;
      }
    }
  }
}

ReasoningConstraint::ReasoningConstraint(std::shared_ptr<const Edges> edges,
                                         std::shared_ptr<const GrammarConstraint> format)
    : edges_(std::move(edges)), format_(std::move(format)), format_start_(format_->start()) {}

std::shared_ptr<const ReasoningConstraint::Edges> ReasoningConstraint::find_edges(
    std::shared_ptr<const ReasoningTokens> tokens, const GrammarConstraint& format,
    std::vector<TokenId> end_tokens) {
  auto edges = std::make_shared<Edges>();
  edges->tokens = std::move(tokens);
  edges->end_tokens = std::move(end_tokens);
  // Without `edges` the object can step over tokens, but has no masks.
  const ReasoningConstraint steps(edges, std::make_shared<const GrammarConstraint>(format));
  const OutputReasoning& tags = edges->tokens->tags();
  for (size_t matched = 0; matched < tags.close.size(); ++matched) {
    edges->not_closing.push_back(
        steps.select({.matched = matched}, edges->tokens->closing(matched), /*leading=*/false));
  }
  for (size_t matched = 0; matched < tags.open.size(); ++matched) {
    edges->opening.push_back(steps.select({.place = Place::kOpening, .matched = matched},
                                          edges->tokens->opening(matched), /*leading=*/true));
  }
  for (size_t breaks = 0; breaks < kMaxLineBreaks; ++breaks) {
    edges->led_by_a_break.push_back(steps.select({.place = Place::kBehind, .matched = breaks},
                                                 edges->tokens->line_breaks(), /*leading=*/true));
  }
  return edges;
}

std::vector<TokenId> ReasoningConstraint::select(const At& at, std::span<const TokenId> tokens,
                                                 bool leading) const {
  std::vector<TokenId> selected;
  for (const TokenId token : tokens) {
    const bool leads = step(at, token, edges_->tokens->bytes(token)) != nullptr;
    if (leads == leading) selected.push_back(token);
  }
  return selected;
}

TokenConstraint::State ReasoningConstraint::start() const {
  const bool is_open = edges_->tokens->tags().open.empty();
  return std::make_shared<const At>(
      is_open ? At{} : At{.place = Place::kOpening, .format = format_start_});
}

TokenConstraint::State ReasoningConstraint::after(const State& state, TokenId token) const {
  const At& at = of(state);
  const std::string_view bytes = edges_->tokens->bytes(token);
  if (!bytes.empty()) return step(at, token, bytes);
  return at.place == Place::kReasoning ? state : nullptr;
}

TokenConstraint::State ReasoningConstraint::step(const At& at, TokenId token,
                                                 std::string_view bytes) const {
  if (at.place == Place::kReasoning) return reason(at.matched, bytes);
  if (at.place == Place::kBehind) return leave(at.matched, bytes);
  State format;
  if (at.place == Place::kOpening) {
    // begin() resolves the state at once, since the next step depends on whether the format allows
    // it.
    if (at.format != nullptr) {
      std::string text = edges_->tokens->tags().open.substr(0, at.matched);
      format = format_->begin(text.append(bytes));
    }
    if (State opened = open(at.matched, bytes, format)) return opened;
  } else {
    format = format_->after(at.format, token);
  }
  if (format == nullptr) return nullptr;
  return std::make_shared<const At>(At{.place = Place::kFormat, .format = std::move(format)});
}

TokenConstraint::State ReasoningConstraint::open(size_t matched, std::string_view bytes,
                                                 State format) const {
  const std::string_view rest = std::string_view(edges_->tokens->tags().open).substr(matched);
  if (bytes.starts_with(rest)) return reason(0, bytes.substr(rest.size()));
  if (!rest.starts_with(bytes)) return nullptr;
  return std::make_shared<const At>(
      At{.place = Place::kOpening, .matched = matched + bytes.size(), .format = std::move(format)});
}

TokenConstraint::State ReasoningConstraint::reason(size_t matched, std::string_view bytes) const {
  for (size_t idx = 0; idx < bytes.size(); ++idx) {
    matched = edges_->tokens->match_close(matched, bytes[idx]);
    if (matched == edges_->tokens->tags().close.size()) return leave(0, bytes.substr(idx + 1));
  }
  return std::make_shared<const At>(At{.matched = matched});
}

// Tries to skip as many line breaks as possible first: a line break may also be the format's own
// first byte.
TokenConstraint::State ReasoningConstraint::leave(size_t line_breaks,
                                                  std::string_view bytes) const {
  const size_t first_other = std::min(bytes.find_first_not_of('\n'), bytes.size());
  const size_t max_breaks = std::min(first_other, kMaxLineBreaks - line_breaks);
  if (max_breaks == bytes.size()) {
    return std::make_shared<const At>(
        At{.place = Place::kBehind, .matched = line_breaks + max_breaks});
  }
  for (size_t skipped = max_breaks + 1; skipped-- > 0;) {
    State format = format_->begin(bytes.substr(skipped));
    if (format == nullptr) continue;
    return std::make_shared<const At>(At{.place = Place::kFormat, .format = std::move(format)});
  }
  return nullptr;
}

void ReasoningConstraint::allow(const State& state, std::span<uint32_t> words) const {
  const At& at = of(state);
  switch (at.place) {
    case Place::kFormat:
      return format_->allow(at.format, words);
    case Place::kOpening:
      std::fill(words.begin(), words.end(), 0u);
      if (at.format != nullptr) format_->allow(at.format, words);
      for (const TokenId token : edges_->opening[at.matched]) set(words, token, true);
      return;
    case Place::kBehind:
      format_->allow(format_start_, words);
      if (at.matched == kMaxLineBreaks) return;
      for (const TokenId token : edges_->led_by_a_break[at.matched]) set(words, token, true);
      return;
    case Place::kReasoning:
      std::fill(words.begin(), words.end(), ~0u);
      for (const TokenId token : edges_->not_closing[at.matched]) set(words, token, false);
      for (const TokenId token : edges_->end_tokens) set(words, token, false);
  }
}

TokenConstraint::State ReasoningConstraint::counting(const At& at) const {
  if (at.place == Place::kReasoning) return nullptr;
  return at.place == Place::kBehind ? format_start_ : at.format;
}

MaskState ReasoningConstraint::prepare(const State& state, int64_t& steps) const {
  const State format = counting(of(state));
  return format == nullptr ? MaskState::kReady : format_->prepare(format, steps);
}

bool ReasoningConstraint::is_late(const State& state) const {
  const State format = counting(of(state));
  return format != nullptr && format_->is_late(format);
}

Status ReasoningConstraint::error(const State& state) const {
  const State format = counting(of(state));
  return format == nullptr ? Status() : format_->error(format);
}

}  // namespace forerun
