#include "engine/load/progress_text.h"

#include <cmath>
#include <cstdint>
#include <cstdio>

namespace forerun {
namespace {

constexpr double kGigabyte = 1e9;

}  // namespace

std::string one_digit(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string describe_progress(const std::string& what, double fraction, double bytes,
                              double seconds) {
  if (bytes < kGigabyte) return what;
  std::string text = what + ": " + one_digit(fraction * bytes / kGigabyte) + " of " +
                     one_digit(bytes / kGigabyte) + " GB";
  if (seconds < 0.5 || fraction <= 0.0) return text;
  const double left = seconds / fraction * (1.0 - fraction);
  return text + ", " + one_digit(fraction * bytes / kGigabyte / seconds) + " GB/s, " +
         std::to_string(static_cast<int64_t>(std::ceil(left))) + " s left";
}

}  // namespace forerun
