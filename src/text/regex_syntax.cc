#include "text/regex_syntax.h"

#include <algorithm>
#include <iterator>

#include "base/status_macros.h"

namespace forerun::text {
namespace {

// Oniguruma's Unicode \s, \w and \d as members of a class. PCRE2's own differ: its \s has U+180E (a
// space before Unicode 6.3), its \w lacks marks and connectors.
constexpr std::string_view kSpaceMembers =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";
constexpr std::string_view kWordMembers = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
// Outside a class, and for \b, Oniguruma uses a table of Latin-1 first, which has superscripts and
// fractions among the word characters. Circled digits are never word characters.
constexpr std::string_view kWord =
    "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}]";
constexpr std::string_view kDigitMembers = "\\p{Nd}";

std::string_view members_of(char kind) {
  switch (kind) {
    case 's':
    case 'S':
      return kSpaceMembers;
    case 'd':
    case 'D':
      return kDigitMembers;
    default:
      return {};
  }
}

// Members of Oniguruma's POSIX classes; PCRE2's own [:alpha:] lacks circled letters and marks, and
// its [:punct:] lacks symbols beyond Latin-1. [:graph:] and [:print:] are left out: they include
// format and private-use characters, which have no short name.
std::string_view posix_members(std::string_view name) {
  struct Class {
    std::string_view name, members;
  };
  static constexpr Class kClasses[] = {
      {"alpha", "\\p{Alphabetic}"}, {"alnum", "\\p{Alphabetic}\\p{Nd}"},
      {"ascii", "\\x{0}-\\x{7f}"},  {"blank", "\\p{Zs}\\x{9}"},
      {"cntrl", "\\p{Cc}"},         {"digit", kDigitMembers},
      {"lower", "\\p{Lowercase}"},  {"punct", "\\p{P}\\p{S}"},
      {"space", kSpaceMembers},     {"upper", "\\p{Uppercase}"},
      {"word", kWordMembers},       {"xdigit", "0-9a-fA-F"},
  };
  for (const Class& known : kClasses) {
    if (known.name == name) return known.members;
  }
  return {};
}

// Returns whether `name` is a Unicode script that tokenizers' patterns use.
bool is_script(std::string_view name) {
  static constexpr std::string_view kScripts[] = {
      "Arabic",   "Armenian", "Bengali",   "Bopomofo",  "Cyrillic", "Devanagari",
      "Ethiopic", "Georgian", "Greek",     "Gujarati",  "Gurmukhi", "Han",
      "Hangul",   "Hebrew",   "Hiragana",  "Kannada",   "Katakana", "Khmer",
      "Lao",      "Latin",    "Malayalam", "Mongolian", "Myanmar",  "Oriya",
      "Sinhala",  "Tamil",    "Telugu",    "Thai",      "Tibetan"};
  return std::find(std::begin(kScripts), std::end(kScripts), name) != std::end(kScripts);
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      Status step;
      if (c == '\\') {
        step = escape();
      } else if (class_open_ >= 0) {
        step = class_member(c);
      } else if (c == '[') {
        open_class();
      } else if (c == '(') {
        step = group();
      } else {
        out_.push_back(c);
        ++at_;
      }
      FORERUN_RETURN_IF_ERROR(step);
    }
    if (class_open_ >= 0) return refuse("a character class that is not closed");
    return out_;
  }

 private:
  Status refuse(const std::string& what) const {
    return Status(StatusCode::kUnsupported,
                  "regular expression '" + std::string(pattern_) + "': found " + what +
                      "; accepted: the syntax that Oniguruma and PCRE2 share");
  }

  Status escape() {
    if (at_ + 1 >= pattern_.size()) return refuse("a backslash at the end");
    const char kind = pattern_[at_ + 1];
    const bool in_class = class_open_ >= 0;
    switch (kind) {
      case 'h':
      case 'H':
      case 'R':
      case 'X':
      case 'K':
      case 'G':
      case 'y':
      case 'Y':
      case 'O':
      case 'N':
      case 'C':
      case 'Q':
      case 'E':
      case 'M':
      case 'c':
        return refuse(std::string("\\") + kind);
      case 'v':  // a vertical tab in Oniguruma, any vertical space in PCRE2
        out_ += "\\x{b}";
        break;
      case 'b':
      case 'B':
        if (in_class) {
          if (kind == 'B') return refuse("\\B inside a character class");
          out_ += "\\x{8}";  // a backspace
        } else {
          word_boundary(kind == 'b');
        }
        break;
      case 'w':
      case 'W':
        if (in_class && kind == 'W') return refuse("\\W inside a character class");
        out_ += in_class ? kWordMembers : kWord;
        if (kind == 'W') out_.insert(out_.size() - kWord.size() + 1, "^");
        break;
      case 's':
      case 'd':
        if (!in_class) out_ += "[";
        out_ += members_of(kind);
        if (!in_class) out_ += "]";
        break;
      case 'S':
      case 'D':
        if (in_class) return negated_member(kind);
        out_ += "[^";
        out_ += members_of(kind);
        out_ += "]";
        break;
      case 'p':
      case 'P':
        property(kind);
        return {};
      default:
        out_.push_back('\\');
        out_.push_back(kind);
    }
    at_ += 2;
    return {};
  }

  // Translates \p{...}. \p{Han} is the script itself; PCRE2's also has the characters that are used
  // with the script.
  void property(char kind) {
    out_.push_back('\\');
    out_.push_back(kind);
    at_ += 2;
    if (at_ >= pattern_.size() || pattern_[at_] != '{') return;
    const size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) return;
    std::string_view name = pattern_.substr(at_ + 1, end - at_ - 1);
    out_.push_back('{');
    if (name.starts_with('^')) {
      out_.push_back('^');
      name.remove_prefix(1);
    }
    if (is_script(name)) out_ += "sc:";
    out_ += name;
    out_.push_back('}');
    at_ = end + 1;
  }

  // Matches between a word character and another one or, unless `at_change`, between two of one
  // kind.
  void word_boundary(bool at_change) {
    const std::string word(kWord);
    const std::string begins = "(?<!" + word + ")(?" + (at_change ? "=" : "!") + word + ")";
    const std::string ends = "(?<=" + word + ")(?" + (at_change ? "!" : "=") + word + ")";
    out_ += "(?:" + begins + "|" + ends + ")";
  }

  // \S inside a class becomes PCRE2's \S and U+180E, \D a property.
  Status negated_member(char kind) {
    out_ += kind == 'D' ? "\\P{Nd}" : "\\S\\x{180e}";
    at_ += 2;
    return {};
  }

  void open_class() {
    class_open_ = static_cast<std::ptrdiff_t>(at_);
    out_.push_back('[');
    ++at_;
    if (at_ < pattern_.size() && pattern_[at_] == '^') {
      out_.push_back('^');
      ++at_;
    }
    if (at_ < pattern_.size() && pattern_[at_] == ']') {  // a literal bracket in both syntaxes
      out_ += "\\]";
      ++at_;
    }
  }

  Status class_member(char c) {
    if (c == ']') {
      class_open_ = -1;
    } else if (c == '[') {
      const size_t close = pattern_.find(":]", at_);
      if (at_ + 1 >= pattern_.size() || pattern_[at_ + 1] != ':' ||
          close == std::string_view::npos) {
        return refuse("a character class inside a character class");
      }
      const std::string_view name = pattern_.substr(at_ + 2, close - at_ - 2);
      const std::string_view members = posix_members(name);
      if (members.empty()) return refuse("[:" + std::string(name) + ":]");
      out_ += members;
      at_ = close + 2;
      return {};
    } else if (c == '&' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] == '&') {
      return refuse("&& inside a character class");
    }
    out_.push_back(c);
    ++at_;
    return {};
  }

  // Inline flags: i and x mean the same; Oniguruma's m is PCRE2's s, and others have no equivalent.
  Status group() {
    out_.push_back('(');
    ++at_;
    if (at_ < pattern_.size() && pattern_[at_] == '*') return refuse("(*");
    if (at_ + 1 >= pattern_.size() || pattern_[at_] != '?') return {};
    const char first = pattern_[at_ + 1];
    if (first == ':' || first == '=' || first == '!' || first == '>' || first == '<') return {};
    size_t end = at_ + 1;
    while (end < pattern_.size() &&
           (pattern_[end] == 'i' || pattern_[end] == 'x' || pattern_[end] == '-')) {
      ++end;
    }
    if (end >= pattern_.size() || (pattern_[end] != ':' && pattern_[end] != ')')) {
      return refuse("(?" + std::string(1, first));
    }
    out_ += pattern_.substr(at_, end - at_);
    at_ = end;
    return {};
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::ptrdiff_t class_open_ = -1;  // start of the open class, or -1
  std::string out_;
};

}  // namespace

Result<std::string> translate_onig_to_pcre(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace forerun::text
