#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "base/status_macros.h"
#include "text/regex_syntax.h"

namespace forerun::text {
namespace {

// Enough for any reasonable pattern on megabytes of text; a hostile one stops within about a
// second.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr size_t kJitStackStart = 32 * 1024;
constexpr size_t kJitStackMax = 1024 * 1024;
constexpr size_t kMaxPatternBytes = 16 * 1024;

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  // Returns the first position from `from` on where a match can begin. This is far cheaper than a
  // call that finds nothing, which most pieces of a long chain of splits would cost.
  size_t first_candidate(std::string_view text, size_t from) const {
    if (!first_bytes) return from;
    while (from < text.size()) {
      const uint8_t byte = static_cast<uint8_t>(text[from]);
      if ((first_bytes[byte / 8] >> (byte % 8)) & 1) break;
      ++from;
    }
    return from;
  }

  pcre2_code* code = nullptr;
  bool jit = false;
  const uint8_t* first_bytes = nullptr;  // 256 bits, if every match begins with one of a set
};

struct Regex::Matcher::State {
  State()
      : data(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr)) {
    if (!context) return;
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_depth_limit(context, 100'000);
    if (stack) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

Regex::Matcher::Matcher() : state_(std::make_unique<State>()) {}
Regex::Matcher::~Matcher() = default;
Regex::Matcher::Matcher(Matcher&&) noexcept = default;
Regex::Matcher& Regex::Matcher::operator=(Matcher&&) noexcept = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return Status(StatusCode::kUnsupported,
                  "regular expression of " + std::to_string(pattern.size()) +
                      " bytes; accepted: at most " + std::to_string(kMaxPatternBytes));
  }
  FORERUN_ASSIGN_OR_RETURN(const std::string translated, translate_onig_to_pcre(pattern));
  return compile_translated(translated, pattern);
}

Result<Regex> Regex::compile_literal(std::string_view text) {
  if (text.size() > kMaxPatternBytes) {
    return Status(StatusCode::kUnsupported, "string pattern of " + std::to_string(text.size()) +
                                                " bytes; accepted: at most " +
                                                std::to_string(kMaxPatternBytes));
  }
  std::string quoted;
  for (const char c : text) {
    const bool word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                      static_cast<unsigned char>(c) >= 0x80;
    if (c == '\0') {
      quoted += "\\x{0}";
      continue;
    }
    if (!word) quoted.push_back('\\');
    quoted.push_back(c);
  }
  return compile_translated(quoted, text);
}

Result<Regex> Regex::compile_translated(const std::string& translated, std::string_view shown) {
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  if (!context) return Status(StatusCode::kResourceExhausted, "no memory for a regular expression");
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context, 100);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* compiled = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (!compiled) {
    return Status(StatusCode::kUnsupported, "regular expression '" + std::string(shown) +
                                                "': " + message_of(error) + " near byte " +
                                                std::to_string(offset));
  }
  auto code = std::make_shared<Code>(compiled);
  code->jit = pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE) == 0;
  if (pcre2_pattern_info(compiled, PCRE2_INFO_FIRSTBITMAP, &code->first_bytes) != 0) {
    code->first_bytes = nullptr;
  }
  return Regex(std::shared_ptr<const Code>(std::move(code)));
}

Result<std::optional<MatchSpan>> Regex::find(std::string_view text, size_t from,
                                             Matcher& matcher) const {
  Matcher::State& state = *matcher.state_;
  if (!state.data || !state.context) {
    return Status(StatusCode::kResourceExhausted, "no memory for a regular expression match");
  }
  if (code_->first_bytes) {
    from = code_->first_candidate(text, from);
    if (from == text.size()) return std::optional<MatchSpan>();
  }
  // An empty view may have a null pointer, which the JIT's direct entry does not accept.
  static constexpr char kEmpty[] = "";
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.empty() ? kEmpty : text.data());
  const int found = code_->jit ? pcre2_jit_match(code_->code, subject, text.size(), from, 0,
                                                 state.data, state.context)
                               : pcre2_match(code_->code, subject, text.size(), from,
                                             PCRE2_NO_UTF_CHECK, state.data, state.context);
  if (found == PCRE2_ERROR_NOMATCH) return std::optional<MatchSpan>();
  if (found < 0) {
    return Status(StatusCode::kResourceExhausted,
                  "regular expression gave up on this text: " + message_of(found));
  }
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state.data);
  // \K can move the beginning past the end; such a match reads as empty.
  const size_t end = offsets[1];
  return std::optional<MatchSpan>(MatchSpan{offsets[0] < end ? offsets[0] : end, end});
}

}  // namespace forerun::text
