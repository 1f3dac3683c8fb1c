// Output for people: colours, a progress bar, aligned tables. Without colours and drawings if the
// stream is not a terminal or NO_COLOR is set.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace forerun::app {

enum class Colour { kNone, kGreen, kRed, kYellow, kCyan, kDim, kBold };

bool is_terminal(std::FILE* stream);
// Returns `text` in `colour` if `stream` is a terminal, else `text`.
std::string paint(std::FILE* stream, Colour colour, std::string_view text);

// A bar on stderr that is redrawn in place and removed at the end. Draws nothing if stderr is not a
// terminal.
class ProgressBar {
 public:
  ~ProgressBar();
  // `fraction` is in [0, 1].
  void update(const std::string& what, double fraction);
  void clear();

 private:
  bool drawn_ = false;
  int last_permille_ = -1;
  std::string last_what_;
};

// Returns a table with the first column aligned to the left, the others to the right. The first row
// is the heading.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

std::string format_bytes(double bytes);  // e.g. "23.8 MB"; powers of 1000
std::string format_fixed(double value, int digits);

}  // namespace forerun::app
