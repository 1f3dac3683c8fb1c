#include "checkpoint/layouts/name_pattern.h"

#include <bitset>
#include <cstddef>
#include <cstdint>

namespace forerun {
namespace {

constexpr std::string_view kPatternPrefix = "re:";
constexpr size_t kMaxNameLength = 255;
constexpr int kMaxGroupDepth = 16;
constexpr int64_t kMaxAtomSteps = 1 << 20;

// A walk of a pattern that follows all ways to match at once: from a set of positions in the name
// to the set of possible next positions. So no pattern takes exponential time.
class PatternWalk {
 public:
  using Places = std::bitset<kMaxNameLength + 1>;

  PatternWalk(std::string_view pattern, std::string_view name) : pattern_(pattern), name_(name) {}

  Places run() {
    Places start;
    start.set(0);
    const Places ends = alternatives(start);
    if (at_ != pattern_.size()) failed_ = true;  // an unmatched ")"
    return failed_ ? Places() : ends;
  }
  bool failed() const { return failed_; }

 private:
  bool is_next(char c) const { return at_ < pattern_.size() && pattern_[at_] == c; }
  bool take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  Places alternatives(const Places& from) {
    Places to = sequence(from);
    while (!failed_ && take("|")) to |= sequence(from);
    return to;
  }

  Places sequence(Places from) {
    while (!failed_ && at_ < pattern_.size() && !is_next('|') && !is_next(')')) {
      from = repeated(from);
    }
    return from;
  }

  Places repeated(const Places& from) {
    const size_t begin = at_;
    const Places once = atom(from);
    if (failed_ || at_ == pattern_.size()) return once;
    const char sign = pattern_[at_];
    if (sign == '{') failed_ = true;
    if (sign != '*' && sign != '+' && sign != '?') return once;
    ++at_;
    take("?");  // non-greedy, which has the same matches
    if (is_next('*') || is_next('+')) failed_ = true;
    const size_t end = at_;
    if (sign == '?') return from | once;
    Places all = sign == '*' ? from | once : once;
    while (!failed_) {
      at_ = begin;
      const Places more = all | atom(all);
      if (more == all) break;
      all = more;
    }
    at_ = end;
    return all;
  }

  Places atom(const Places& from) {
    if (++steps_ > kMaxAtomSteps) failed_ = true;
    if (failed_) return {};
    const char c = pattern_[at_++];
    switch (c) {
      case '(':
        return group(from);
      case '[':
        return set(from);
      case '\\':
        return escaped(from);
      case '.':
        return step(from, [](char) { return true; });
      case '^':
        return from & Places(1);
      case '$': {
        Places end;
        end.set(name_.size());
        return from & end;
      }
      case '*':
      case '+':
      case '?':
      case '{':
        failed_ = true;
        return {};
      default:
        return step(from, [c](char other) { return other == c; });
    }
  }

  Places group(const Places& from) {
    if (++depth_ > kMaxGroupDepth) failed_ = true;
    Places to;
    if (take("?=")) {
      to = ahead(from, true);
    } else if (take("?!")) {
      to = ahead(from, false);
    } else {
      if (!take("?:") && is_next('?')) failed_ = true;
      to = failed_ ? Places() : alternatives(from);
    }
    if (!take(")")) failed_ = true;
    --depth_;
    return to;
  }

  // Returns the positions behind which the rest of the group matches, or does not.
  Places ahead(const Places& from, bool wanted) {
    const size_t begin = at_;
    alternatives({});
    const size_t end = at_;
    Places kept;
    for (size_t place = 0; place <= name_.size() && !failed_; ++place) {
      if (!from[place]) continue;
      at_ = begin;
      Places single;
      single.set(place);
      if (alternatives(single).any() == wanted) kept.set(place);
    }
    at_ = end;
    return kept;
  }

  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  // Returns whether an escaped character stands for `c`; also false for unknown escapes.
  bool in_escape(char escape, char c) {
    switch (escape) {
      case 'd':
        return c >= '0' && c <= '9';
      case 'w':
        return is_word(c);
      case 's':
        return c == ' ' || (c >= '\t' && c <= '\r');
      default:
        if (is_word(escape)) failed_ = true;
        return c == escape;
    }
  }

  Places escaped(const Places& from) {
    if (at_ == pattern_.size()) failed_ = true;
    if (failed_) return {};
    const char escape = pattern_[at_++];
    in_escape(escape, 'a');  // also fails if no position is left to try
    return step(from, [&](char c) { return in_escape(escape, c); });
  }

  Places set(const Places& from) {
    const bool excludes = take("^");
    std::bitset<256> members;
    for (bool first = true; first || !is_next(']'); first = false) {
      if (at_ + 1 >= pattern_.size()) {
        failed_ = true;
        return {};
      }
      const char c = pattern_[at_++];
      if (c == '\\') {
        const char escape = pattern_[at_++];
        for (int other = 0; other < 128; ++other) {
          if (in_escape(escape, static_cast<char>(other))) members.set(static_cast<size_t>(other));
        }
        continue;
      }
      auto last = static_cast<unsigned char>(c);
      if (is_next('-') && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']') {
        last = static_cast<unsigned char>(pattern_[at_ + 1]);
        at_ += 2;
      }
      for (size_t other = static_cast<unsigned char>(c); other <= last; ++other) members.set(other);
    }
    ++at_;
    return step(from, [&](char c) { return members[static_cast<unsigned char>(c)] != excludes; });
  }

  template <class Takes>
  Places step(const Places& from, const Takes& takes) {
    Places to;
    for (size_t place = 0; place < name_.size(); ++place) {
      if (from[place] && takes(name_[place])) to.set(place + 1);
    }
    return to;
  }

  const std::string_view pattern_;
  const std::string_view name_;
  size_t at_ = 0;
  int depth_ = 0;
  int64_t steps_ = 0;
  bool failed_ = false;
};

}  // namespace

bool matches_layer(std::string_view pattern, std::string_view name, bool in_full) {
  if (pattern.starts_with(kPatternPrefix)) {
    if (name.size() > kMaxNameLength) return false;
    return PatternWalk(pattern.substr(kPatternPrefix.size()), name).run().any();
  }
  if (pattern.empty()) return false;
  return in_full ? pattern == name : name.find(pattern) != name.npos;
}

bool matches_words(std::string_view pattern, std::string_view name) {
  if (pattern.starts_with(kPatternPrefix)) return matches_layer(pattern, name, true);
  const size_t first = pattern.find_first_not_of('.');
  if (first == pattern.npos) return false;
  pattern = pattern.substr(first, pattern.find_last_not_of('.') + 1 - first);
  const auto ends_word = [name](size_t at) { return at >= name.size() || name[at] == '.'; };
  for (size_t at = name.find(pattern); at != name.npos; at = name.find(pattern, at + 1)) {
    if ((at == 0 || ends_word(at - 1)) && ends_word(at + pattern.size())) return true;
  }
  return false;
}

bool is_readable_pattern(std::string_view pattern) {
  if (!pattern.starts_with(kPatternPrefix)) return true;
  PatternWalk walk(pattern.substr(kPatternPrefix.size()), "model.layers.0.self_attn.q_proj");
  walk.run();
  return !walk.failed();
}

}  // namespace forerun
