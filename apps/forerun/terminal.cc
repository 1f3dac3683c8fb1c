#include "terminal.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace forerun::app {
namespace {

const char* escape_of(Colour colour) {
  switch (colour) {
    case Colour::kGreen:
      return "\033[32m";
    case Colour::kRed:
      return "\033[31m";
    case Colour::kYellow:
      return "\033[33m";
    case Colour::kCyan:
      return "\033[36m";
    case Colour::kDim:
      return "\033[2m";
    case Colour::kBold:
      return "\033[1m";
    case Colour::kNone:
      return "";
  }
  return "";
}

// Returns the number of characters, not bytes; sufficient for tables of numbers and names.
size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

std::string paint(std::FILE* stream, Colour colour, std::string_view text) {
  const char* no_colour = std::getenv("NO_COLOR");
  const bool plain = (no_colour != nullptr && *no_colour != '\0') || !is_terminal(stream);
  if (plain || colour == Colour::kNone) return std::string(text);
  return escape_of(colour) + std::string(text) + "\033[0m";
}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::update(const std::string& what, double fraction) {
  if (!is_terminal(stderr)) return;
  const int permille = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 1000.0);
  if (permille == last_permille_ && what == last_what_) return;
  last_permille_ = permille;
  last_what_ = what;
  constexpr int kWidth = 20;  // a line of 80 columns has room for the name of the work
  const int filled = permille * kWidth / 1000;
  std::string bar;
  for (int cell = 0; cell < kWidth; ++cell) bar += cell < filled ? "█" : "░";
  std::fprintf(stderr, "\r\033[K%s %3d%% %s", bar.c_str(), permille / 10, what.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], display_width(row[column]));
    }
  }
  std::string out;
  for (size_t row_idx = 0; row_idx < rows.size(); ++row_idx) {
    const auto& row = rows[row_idx];
    for (size_t column = 0; column < row.size(); ++column) {
      const std::string padding(widths[column] - display_width(row[column]), ' ');
      if (column > 0) out += "  ";
      out += column == 0 ? row[column] + padding : padding + row[column];
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
    if (row_idx == 0) {
      size_t total = widths.empty() ? 0 : 2 * (widths.size() - 1);
      for (size_t width : widths) total += width;
      for (size_t dash = 0; dash < total; ++dash) out += "─";
      out += '\n';
    }
  }
  return out;
}

std::string format_fixed(double value, int digits) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", digits, value);
  return buffer.data();
}

std::string format_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 1000.0 && unit + 1 < kUnits.size()) {
    bytes /= 1000.0;
    ++unit;
  }
  return format_fixed(bytes, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

}  // namespace forerun::app
