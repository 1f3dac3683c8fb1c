#include "plan_surface.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "terminal.h"

namespace forerun::app {
namespace {

constexpr double kLeft = 112.0;
constexpr double kTop = 90.0;
constexpr double kWidth = 640.0;
constexpr double kHeight = 430.0;
constexpr double kLegend = 216.0;  // width to the right of the map
constexpr double kBottom = 84.0;
constexpr size_t kColumns = 60;  // columns of the map
constexpr size_t kRows = 44;
constexpr double kMarkHeight = 28.0;

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();  // no setting can speculate
constexpr double kNoRoom = -1.0;  // does not fit into the memory

struct Rgb {
  int red, green, blue;
};
// Colours go from red for a gain below 1 over white to green above it. Red is full at kWorst, green
// at the largest gain.
constexpr double kWorst = 0.5;
constexpr Rgb kWhite = {255, 255, 255};
constexpr Rgb kRed = {204, 51, 17};
constexpr Rgb kGreen = {34, 136, 51};
constexpr const char* kNoRoomColour = "#d9d9d9";
constexpr const char* kNothingColour = "#f4f4f4";

template <class... Values>
void add(std::string& out, const char* format, Values... values) {
  std::array<char, 320> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, values...);
  out += buffer.data();
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

void text(std::string& out, double x, double y, const char* anchor, int size, const char* colour,
          const std::string& words) {
  add(out, R"(<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" fill="%s">)", x, y, anchor,
      size, colour);
  out += escaped(words) + "</text>\n";
}

// A logarithmic axis from the first to the last of some values; a single value is in its middle.
class Axis {
 public:
  Axis(double first, double last) : low_(std::log(first)), span_(std::log(last) - low_) {}
  double fraction(double value) const {
    return span_ > 0.0 ? (std::log(value) - low_) / span_ : 0.5;
  }
  double value(double fraction) const { return std::exp(low_ + fraction * span_); }

 private:
  double low_;
  double span_;
};

struct Surface {
  Axis across;  // sequences
  Axis down;    // tokens, upwards
  // Indexed by row from below, and column: the best speed-up of a setting that speculates, kNothing
  // or kNoRoom.
  std::vector<std::vector<double>> gain;
  double max_gain = 1.0;

  double x(double sequences) const { return kLeft + kWidth * across.fraction(sequences); }
  double y(double tokens) const { return kTop + kHeight * (1.0 - down.fraction(tokens)); }
};

double gain_of(const BatchPlan& plan) {
  if (!plan.fits) return kNoRoom;
  const SpeculationForecast* const best = plan.best_guessing();
  return best == nullptr ? kNothing : best->speedup;
}

// Interpolates between whole numbers of sequences, so that lines have no steps at small numbers.
double gain_at(const SurfacePicture& picture, double sequences, int64_t context) {
  const auto gain = [&](double whole) {
    return gain_of(
        picture.plan({.sequences = static_cast<int32_t>(whole), .context_tokens = context}));
  };
  const double below = std::floor(sequences);
  const double low = gain(below);
  if (std::isnan(low) || low == kNoRoom || below == sequences) return low;
  const double high = gain(below + 1.0);
  if (std::isnan(high) || high == kNoRoom) return sequences - below < 0.5 ? low : high;
  return low + (sequences - below) * (high - low);
}

Surface sample(const SurfacePicture& picture) {
  Surface surface{.across = Axis(picture.batches.front(), picture.batches.back()),
                  .down = Axis(static_cast<double>(picture.contexts.front()),
                               static_cast<double>(picture.contexts.back())),
                  .gain = {}};
  for (size_t row = 0; row < kRows; ++row) {
    std::vector<double>& gains = surface.gain.emplace_back();
    const double up = (static_cast<double>(row) + 0.5) / kRows;
    for (size_t column = 0; column < kColumns; ++column) {
      const double right = (static_cast<double>(column) + 0.5) / kColumns;
      gains.push_back(
          gain_at(picture, surface.across.value(right), std::llround(surface.down.value(up))));
      if (gains.back() > surface.max_gain) surface.max_gain = gains.back();
    }
  }
  return surface;
}

std::string colour_of(double gain, double max_gain) {
  if (std::isnan(gain)) return kNothingColour;
  if (gain == kNoRoom) return kNoRoomColour;
  const bool pays = gain >= 1.0;
  double share = pays ? std::log(gain) / std::log(std::max(max_gain, 1.05))
                      : std::log(gain) / std::log(kWorst);
  // Uses few shades, so that neighbouring cells join.
  share = std::round(16.0 * std::clamp(share, 0.0, 1.0)) / 16.0;
  const Rgb end = pays ? kGreen : kRed;
  const auto mixed = [&](int from, int to) {
    return static_cast<int>(std::lround(from + share * (to - from)));
  };
  std::array<char, 16> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "#%02x%02x%02x", mixed(kWhite.red, end.red),
                mixed(kWhite.green, end.green), mixed(kWhite.blue, end.blue));
  return buffer.data();
}

void draw_map(std::string& out, const Surface& surface) {
  constexpr double kCellWidth = kWidth / kColumns;
  constexpr double kCellHeight = kHeight / kRows;
  std::map<std::string, std::string> paths;  // keyed by colour: a box for each run of its cells
  for (size_t row = 0; row < kRows; ++row) {
    const double top = kTop + kHeight - static_cast<double>(row + 1) * kCellHeight;
    for (size_t column = 0; column < kColumns;) {
      const std::string colour = colour_of(surface.gain[row][column], surface.max_gain);
      size_t end = column + 1;
      while (end < kColumns && colour_of(surface.gain[row][end], surface.max_gain) == colour) ++end;
      const double width = static_cast<double>(end - column) * kCellWidth + 0.3;
      add(paths[colour], "M%.1f %.1fh%.1fv%.1fh-%.1fz",
          kLeft + static_cast<double>(column) * kCellWidth, top, width, kCellHeight + 0.3, width);
      column = end;
    }
  }
  for (const auto& [colour, path] : paths) {
    out += "<path fill=\"" + colour + "\" d=\"" + path + "\"/>\n";
  }
}

// Styles of the line where the gain is `level`, drawn by marching squares between the cells'
// centres. Cells without a gain end it.
constexpr const char* kThick = "stroke=\"#000000\" stroke-width=\"2.5\"";
constexpr const char* kDashed = "stroke=\"#333333\" stroke-width=\"0.7\" stroke-dasharray=\"4 3\"";

// Draws the line; returns whether the map has one.
bool draw_contour(std::string& out, const Surface& surface, double level, const char* style) {
  const auto point = [&](double column, double row) {
    return std::pair(kLeft + kWidth * (column + 0.5) / kColumns,
                     kTop + kHeight * (1.0 - (row + 0.5) / kRows));
  };
  std::string path;
  for (size_t row = 0; row + 1 < kRows; ++row) {
    for (size_t column = 0; column + 1 < kColumns; ++column) {
      // Corners counterclockwise from the lower left.
      constexpr std::array<std::pair<int, int>, 4> kCorners = {{{0, 0}, {1, 0}, {1, 1}, {0, 1}}};
      std::array<double, 4> above{};
      bool known = true;
      for (size_t corner = 0; corner < 4; ++corner) {
        const double gain = surface.gain[row + static_cast<size_t>(kCorners[corner].second)]
                                        [column + static_cast<size_t>(kCorners[corner].first)];
        known = known && !std::isnan(gain) && gain != kNoRoom;
        above[corner] = gain - level;
      }
      if (!known) continue;
      std::vector<std::pair<double, double>> crossings;
      for (size_t edge = 0; edge < 4; ++edge) {
        const size_t next = (edge + 1) % 4;
        if ((above[edge] > 0.0) == (above[next] > 0.0)) continue;
        const double share = above[edge] / (above[edge] - above[next]);
        const auto [from_x, from_y] = kCorners[edge];
        const auto [to_x, to_y] = kCorners[next];
        crossings.push_back(point(static_cast<double>(column) + from_x + share * (to_x - from_x),
                                  static_cast<double>(row) + from_y + share * (to_y - from_y)));
      }
      for (size_t i = 0; i + 1 < crossings.size(); i += 2) {
        add(path, "M%.1f %.1fL%.1f %.1f", crossings[i].first, crossings[i].second,
            crossings[i + 1].first, crossings[i + 1].second);
      }
    }
  }
  if (path.empty()) return false;
  out += std::string("<path class=\"contour\" d=\"") + path + "\" fill=\"none\" " + style + "/>\n";
  return true;
}

std::string thousands(int64_t tokens) {
  return tokens % 1000 == 0 && tokens >= 1000 ? std::to_string(tokens / 1000) + "k"
                                              : std::to_string(tokens);
}

void draw_axes(std::string& out, const SurfacePicture& picture, const Surface& surface) {
  add(out,
      R"(<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="none" stroke="#555555"/>)"
      "\n",
      kLeft, kTop, kWidth, kHeight);
  for (const int32_t batch : picture.batches) {
    text(out, surface.x(batch), kTop + kHeight + 18.0, "middle", 12, "#222222",
         std::to_string(batch));
  }
  for (const int64_t context : picture.contexts) {
    text(out, kLeft - 8.0, surface.y(static_cast<double>(context)) + 4.0, "end", 12, "#222222",
         thousands(context));
  }
  text(out, kLeft + kWidth / 2.0, kTop + kHeight + 40.0, "middle", 12, "#222222",
       "sequences in the batch");
  text(out, kLeft - 8.0, kTop - 12.0, "end", 12, "#222222", "tokens each");
}

// The text beside a load's dot.
struct Mark {
  std::string gain;  // empty: only the dot
  std::string with;
  std::string tip;
};

Mark mark_of(const SurfacePicture& picture, const BatchLoad& load) {
  const BatchPlan plan = picture.plan(load);
  Mark mark;
  mark.tip = std::to_string(load.sequences) + " sequences of " +
             std::to_string(load.context_tokens) + " tokens: ";
  if (!plan.fits) {
    mark.tip += "do not fit the memory";
    return mark;
  }
  const SpeculationForecast& best = plan.ranked.front();
  mark.gain = best.is_plain() ? "1" : format_fixed(best.speedup, 2);
  mark.with = best.is_plain()
                  ? "plain"
                  : picture.label_of(best.candidate) + ", " + std::to_string(best.gamma);
  mark.tip +=
      mark.gain + "x, " + mark.with + ", " + format_fixed(best.tokens_per_s, 0) + " tokens/s";
  return mark;
}

// Draws the marks of all loads. A mark that would cover another is reduced to its dot.
void draw_marks(std::string& out, const SurfacePicture& picture, const Surface& surface) {
  struct Box {
    double left, top, right, bottom;
  };
  std::vector<Box> taken;
  for (const int64_t context : picture.contexts) {
    for (const int32_t batch : picture.batches) {
      const Mark mark = mark_of(picture, {.sequences = batch, .context_tokens = context});
      const double x = surface.x(batch);
      const double y = surface.y(static_cast<double>(context));
      add(out, R"(<g class="load"><circle cx="%.1f" cy="%.1f" r="2.5" fill="#222222"/>)", x, y);
      // Inside the map, for a load at any edge.
      const double width = 5.2 * static_cast<double>(std::max(mark.with.size(), size_t{6}));
      const bool to_left = x + width > kLeft + kWidth;
      const double top = y + kMarkHeight > kTop + kHeight ? y - kMarkHeight : y;
      const Box box{to_left ? x - width : x, top, to_left ? x : x + width, top + kMarkHeight};
      const bool covers = std::any_of(taken.begin(), taken.end(), [&](const Box& other) {
        return box.left < other.right && other.left < box.right && box.top < other.bottom &&
               other.top < box.bottom;
      });
      if (!mark.gain.empty() && !covers) {
        taken.push_back(box);
        const double at_x = x + (to_left ? -5.0 : 5.0);
        const char* const anchor = to_left ? "end" : "start";
        text(out, at_x, box.top + 13.0, anchor, 12, "#111111", mark.gain);
        text(out, at_x, box.top + 24.0, anchor, 9, "#333333", mark.with);
      }
      out += "<title>" + escaped(mark.tip) + "</title></g>\n";
    }
  }
}

// `thick`: whether there is a line of gain 1; `dashed`: the gains of the dashed lines.
void draw_legend(std::string& out, const Surface& surface, bool thick,
                 const std::vector<double>& dashed) {
  const double left = kLeft + kWidth + 28.0;
  constexpr double kBar = 200.0;
  text(out, left, kTop - 12.0, "start", 12, "#222222", "speed-up, best setting");
  // The bar is linear in logarithms, like the colours.
  const double low = std::log(kWorst);
  const double high = std::log(std::max(surface.max_gain, 1.05));
  constexpr int kSteps = 50;
  for (int step = 0; step < kSteps; ++step) {
    const double gain = std::exp(low + (high - low) * (step + 0.5) / kSteps);
    add(out,
        R"(<rect x="%.1f" y="%.2f" width="18" height="%.2f" fill="%s"/>)"
        "\n",
        left, kTop + kBar * (1.0 - (step + 1.0) / kSteps), kBar / kSteps + 0.3,
        colour_of(gain, surface.max_gain).c_str());
  }
  const auto tick = [&](double gain) {
    text(out, left + 24.0, kTop + kBar * (1.0 - (std::log(gain) - low) / (high - low)) + 4.0,
         "start", 12, "#222222", format_fixed(gain, gain == 1.0 ? 0 : 2));
  };
  tick(kWorst);
  tick(1.0);
  if (surface.max_gain > 1.15) tick(surface.max_gain);
  double y = kTop + kBar + 30.0;
  const auto entry = [&](const std::string& sample, const std::string& words) {
    out += sample;
    text(out, left + 24.0, y + 4.0, "start", 12, "#222222", words);
    y += 22.0;
  };
  const auto box = [&](const char* colour) {
    std::string sample;
    add(sample, R"(<rect x="%.1f" y="%.1f" width="18" height="12" fill="%s"/>)", left, y - 6.0,
        colour);
    return sample;
  };
  const auto line = [&](const char* style) {
    std::string sample;
    add(sample, R"(<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>)", left, y, left + 18.0, y,
        style);
    return sample;
  };
  if (thick) entry(line(kThick), "as plain decoding");
  if (!dashed.empty()) {
    std::string gains;
    for (const double gain : dashed) {
      gains += (gains.empty() ? "" : ", ") + format_fixed(gain, gain == 1.5 ? 1 : 0);
    }
    entry(line(kDashed), gains + " times as fast");
  }
  bool no_room = false;
  bool nothing = false;
  for (const std::vector<double>& row : surface.gain) {
    for (const double gain : row) {
      no_room = no_room || gain == kNoRoom;
      nothing = nothing || std::isnan(gain);
    }
  }
  if (no_room) entry(box(kNoRoomColour), "not enough memory");
  if (nothing) entry(box(kNothingColour), "nothing to guess with");
  entry("", "numbers: best there,");
  y -= 6.0;
  entry("", "with so many guesses");
}

}  // namespace

std::string surface_svg(const SurfacePicture& picture) {
  const Surface surface = sample(picture);
  std::string body;
  draw_map(body, surface);
  const bool flat = picture.batches.size() < 2 || picture.contexts.size() < 2;
  std::vector<double> dashed;
  for (const double level : {1.5, 2.0, 3.0, 4.0}) {
    if (!flat && draw_contour(body, surface, level, kDashed)) dashed.push_back(level);
  }
  const bool thick = draw_contour(body, surface, 1.0, kThick);
  draw_axes(body, picture, surface);
  draw_marks(body, picture, surface);
  draw_legend(body, surface, thick, dashed);
  std::string out;
  add(out,
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" )"
      R"(font-family="sans-serif" font-size="12">)"
      "\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
      kLeft + kWidth + kLegend + 28.0, kTop + kHeight + kBottom - 24.0);
  text(out, kLeft, 24.0, "start", 15, "#222222", picture.title);
  double y = 43.0;
  for (const std::string& line : picture.subtitles) {
    text(out, kLeft, y, "start", 12, "#555555", line);
    y += 16.0;
  }
  return out + body + "</svg>\n";
}

}  // namespace forerun::app
