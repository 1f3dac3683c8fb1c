#include "supervisor/log_lines.h"

#include <cstdio>
#include <string_view>

#include "base/log.h"

namespace forerun {
namespace {

// Followed by a digit, the level, a space and the text.
constexpr std::string_view kMark = "forerun log ";

}  // namespace

void log_to_supervisor() {
  set_log_sink([](LogLevel level, std::string_view line) {
    std::string text(kMark);
    text += static_cast<char>('0' + static_cast<int>(level));
    text += ' ';
    text += line;
    text += '\n';
    std::fwrite(text.data(), 1, text.size(), stderr);  // as a whole, since ranks write concurrently
  });
}

bool take_log_line(const std::string& line) {
  const size_t at = kMark.size();
  if (!line.starts_with(kMark) || line.size() < at + 2 || line[at + 1] != ' ') return false;
  const int level = line[at] - '0';
  if (level < 0 || level > static_cast<int>(LogLevel::kError)) return false;
  log_line(static_cast<LogLevel>(level), std::string_view(line).substr(at + 2));
  return true;
}

}  // namespace forerun
