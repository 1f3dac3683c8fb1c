#include "text/split.h"

#include "base/status_macros.h"
#include "text/utf8.h"

namespace forerun::text {
namespace {

void push(PieceSpan span, std::vector<PieceSpan>& out) {
  if (span.begin < span.end) out.push_back(span);
}

void apply_behavior(const std::vector<SplitPart>& parts, SplitBehavior behavior,
                    std::vector<PieceSpan>& out) {
  const size_t count = parts.size();
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const SplitPart& part : parts) {
        if (!part.is_match) push(part.span, out);
      }
      break;
    case SplitBehavior::kIsolated:
      for (const SplitPart& part : parts) push(part.span, out);
      break;
    case SplitBehavior::kContiguous:
      for (size_t i = 0; i < count;) {
        PieceSpan span = parts[i].span;
        const bool kind = parts[i].is_match;
        for (++i; i < count && parts[i].is_match == kind; ++i) span.end = parts[i].span.end;
        push(span, out);
      }
      break;
    case SplitBehavior::kMergedWithPrevious:
      // If matches follow each other, only the first joins the piece before it.
      for (size_t i = 0; i < count;) {
        PieceSpan span = parts[i].span;
        const bool takes_next = i + 1 < count && parts[i + 1].is_match && !parts[i].is_match;
        if (takes_next) span.end = parts[i + 1].span.end;
        i += takes_next ? 2 : 1;
        push(span, out);
      }
      break;
    case SplitBehavior::kMergedWithNext:
      // If matches follow each other, only the last joins the piece after it.
      for (size_t i = 0; i < count;) {
        PieceSpan span = parts[i].span;
        const bool takes_next = parts[i].is_match && i + 1 < count && !parts[i + 1].is_match;
        if (takes_next) span.end = parts[i + 1].span.end;
        i += takes_next ? 2 : 1;
        push(span, out);
      }
      break;
  }
}

}  // namespace

Result<std::optional<MatchSpan>> MatchCursor::next(Regex::Matcher& matcher) {
  while (from_ <= text_.size()) {
    FORERUN_ASSIGN_OR_RETURN(const std::optional<MatchSpan> match,
                             pattern_.find(text_, from_, matcher));
    if (!match) break;
    if (match->begin == match->end && match->end == last_end_) {
      if (from_ == text_.size()) break;
      from_ += first_code_point(text_.substr(from_)).len_bytes;
      continue;
    }
    from_ = match->end;
    last_end_ = match->end;
    return match;
  }
  from_ = text_.size() + 1;
  return std::optional<MatchSpan>();
}

Status split_text(std::string_view text, PieceSpan piece, const Regex& pattern,
                  SplitBehavior behavior, bool invert, Regex::Matcher& matcher,
                  std::vector<SplitPart>& parts, std::vector<PieceSpan>& out) {
  const std::string_view inside = text.substr(piece.begin, piece.end - piece.begin);
  MatchCursor cursor(pattern, inside);
  // Isolated pieces do not depend on their neighbours.
  const bool direct = behavior == SplitBehavior::kIsolated;
  parts.clear();
  uint32_t from = piece.begin;
  const auto add = [&](PieceSpan span, bool is_match) {
    if (direct) {
      push(span, out);
    } else {
      parts.push_back({span, is_match != invert});
    }
  };
  while (true) {
    FORERUN_ASSIGN_OR_RETURN(const std::optional<MatchSpan> match, cursor.next(matcher));
    if (!match) break;
    const uint32_t begin = piece.begin + static_cast<uint32_t>(match->begin);
    const uint32_t end = piece.begin + static_cast<uint32_t>(match->end);
    if (from < begin) add({from, begin}, false);
    add({begin, end}, true);
    from = end;
  }
  if (from < piece.end) add({from, piece.end}, false);
  if (!direct) apply_behavior(parts, behavior, out);
  return {};
}

}  // namespace forerun::text
