// Splits text at the matches of a regular expression, with tokenizer.json's behaviours for the
// matches.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "forerun/status.h"
#include "text/regex.h"

namespace forerun::text {

// Steps through the matches of `pattern` in `text` from left to right. An empty match directly
// after the previous match is skipped. Keeps references to both.
class MatchCursor {
 public:
  MatchCursor(const Regex& pattern, std::string_view text) : pattern_(pattern), text_(text) {}

  Result<std::optional<MatchSpan>> next(Regex::Matcher& matcher);

 private:
  const Regex& pattern_;
  std::string_view text_;
  size_t from_ = 0;
  size_t last_end_ = SIZE_MAX;
};

enum class SplitBehavior : uint8_t {
  kRemoved,             // matches are dropped
  kIsolated,            // a match is a piece of its own
  kMergedWithPrevious,  // a match ends the piece before it
  kMergedWithNext,      // a match begins the piece after it
  kContiguous,          // neighbouring matches form one piece
};

// Half-open byte range of a piece.
struct PieceSpan {
  uint32_t begin = 0, end = 0;
};

// Parts of a text in order, each with whether it matched. Reused memory of split_text().
struct SplitPart {
  PieceSpan span;
  bool is_match = false;
};

// Appends the non-empty pieces of text[piece] to `out`; `invert` swaps matches and the text between
// them. The expression sees only the piece itself.
Status split_text(std::string_view text, PieceSpan piece, const Regex& pattern,
                  SplitBehavior behavior, bool invert, Regex::Matcher& matcher,
                  std::vector<SplitPart>& parts, std::vector<PieceSpan>& out);

}  // namespace forerun::text
