#include "exec/trace/timeline_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/trace/trace_view.h"

namespace forerun {
namespace {

constexpr double kLeft = 90.0;
constexpr double kWidth = 1200.0;
constexpr double kRight = 36.0;
constexpr double kTop = 50.0;
constexpr double kLaneHeight = 34.0;
constexpr double kLanePitch = 50.0;
constexpr const char* kTargetColour = "#4477aa";
constexpr const char* kDraftColour = "#ccbb44";
constexpr const char* kHostColour = "#aa3377";
constexpr const char* kGapColour = "#bbbbbb";
constexpr const char* kDeadColour = "#b8c4d4";
constexpr const char* kLinkColour = "#88aacc";
constexpr const char* kHitColour = "#228833";
constexpr const char* kMissColour = "#cc3311";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // XML does not allow control characters.
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

// The lanes from top to bottom: target and draft or, for a pipeline, the draft and then the stages
// in order.
struct Lanes {
  explicit Lanes(size_t num_stages) : stages(num_stages) {
    names = num_stages == 0 ? std::vector<std::string>{"target", "draft"}
                            : std::vector<std::string>{"draft"};
    for (size_t stage = 0; stage < num_stages; ++stage) {
      names.push_back("stage " + std::to_string(stage + 1));
    }
    names.push_back("policy");
  }
  size_t of(bool draft) const { return (stages == 0) == draft ? 1 : 0; }
  size_t of_stage(size_t stage) const { return stage + 1; }
  size_t policy() const { return names.size() - 1; }

  size_t stages;
  std::vector<std::string> names;
};

class Drawing {
 public:
  Drawing(int64_t start_ns, int64_t end_ns)
      : start_ns_(start_ns),
        scale_(kWidth / std::max(1.0, static_cast<double>(end_ns - start_ns))) {
    end_ns_ = end_ns;
  }

  bool shows(int64_t from_ns, int64_t to_ns) const {
    return to_ns > start_ns_ && from_ns < end_ns_;
  }
  double x(int64_t ns) const {
    return kLeft + scale_ * static_cast<double>(std::clamp(ns, start_ns_, end_ns_) - start_ns_);
  }
  static double y(size_t lane) { return kTop + static_cast<double>(lane) * kLanePitch; }

  void box(size_t lane, int64_t from_ns, int64_t to_ns, const char* colour, double height,
           const std::string& tip) {
    if (!shows(from_ns, to_ns)) return;
    const double left = x(from_ns);
    const double width = std::max(0.4, x(to_ns) - left);
    const double top = y(lane) + (kLaneHeight - height) / 2.0;
    add(R"(<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s" rx="1.5">)", left, top,
        width, height, colour);
    out_ += "<title>" + escaped(tip) + "</title></rect>\n";
  }
  // Draws text in the middle of a box, if the box has room for it.
  void label(size_t lane, int64_t from_ns, int64_t to_ns, const std::string& label,
             const char* colour = "#ffffff") {
    if (!shows(from_ns, to_ns)) return;
    const double width = x(to_ns) - x(from_ns);
    if (width < 7.0 * static_cast<double>(label.size()) + 6.0) return;
    text(x(from_ns) + width / 2.0, y(lane) + kLaneHeight / 2.0 + 4.0, "middle", colour, label);
  }
  // Draws the upper part of a box, of the given height.
  void head(size_t lane, int64_t from_ns, int64_t to_ns, const char* colour, double height) {
    if (!shows(from_ns, to_ns) || height < 0.1) return;
    add(R"(<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s"/>)", x(from_ns), y(lane),
        std::max(0.4, x(to_ns) - x(from_ns)), height, colour);
    out_ += "\n";
  }
  void text(double x, double y, const char* anchor, const char* colour, const std::string& label) {
    add(R"(<text x="%.2f" y="%.2f" text-anchor="%s" fill="%s">)", x, y, anchor, colour);
    out_ += escaped(label) + "</text>\n";
  }
  // Draws a line from the bottom of a lane to the top of the next one.
  void link(size_t lane, int64_t from_ns, int64_t to_ns, const char* colour) {
    if (!shows(from_ns, to_ns + 1)) return;
    line(x(from_ns), y(lane) + kLaneHeight, x(to_ns), y(lane + 1), colour, 1.0);
  }
  void vertical(double x, double top, double bottom, const char* colour, double width) {
    line(x, top, x, bottom, colour, width);
  }
  std::string take() { return std::move(out_); }

 private:
  void line(double x1, double y1, double x2, double y2, const char* colour, double width) {
    add(R"(<line x1="%.2f" y1="%.2f" x2="%.2f" y2="%.2f" stroke="%s" stroke-width=")", x1, y1, x2,
        y2, colour);
    add("%.1f\"/>\n", width);
  }
  template <class... Values>
  void add(const char* format, Values... values) {
    std::array<char, 256> buffer{};
    std::snprintf(buffer.data(), buffer.size(), format, values...);
    out_ += buffer.data();
  }

  int64_t start_ns_;
  int64_t end_ns_ = 0;
  double scale_;
  std::string out_;
};

std::string milliseconds(int64_t ns) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.3f ms", 1e-6 * static_cast<double>(ns));
  return buffer.data();
}

void draw_axis(Drawing& drawing, const Lanes& lanes, int64_t origin_ns, int64_t start_ns,
               int64_t end_ns) {
  // Aims at ten ticks of 1, 2 or 5 times a power of ten.
  const double length_ms = 1e-6 * static_cast<double>(end_ns - start_ns);
  const double raw = std::max(length_ms, 1e-3) / 10.0;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double tick_ms = power * (raw <= power ? 1.0 : raw <= 2.0 * power ? 2.0 : 5.0);
  const double bottom = Drawing::y(lanes.policy()) + kLaneHeight + 6.0;
  const auto first = std::ceil(1e-6 * static_cast<double>(start_ns - origin_ns) / tick_ms);
  for (double tick = first; tick * tick_ms <= 1e-6 * static_cast<double>(end_ns - origin_ns);
       tick += 1.0) {
    const double x = drawing.x(origin_ns + std::llround(1e6 * tick * tick_ms));
    drawing.vertical(x, kTop - 4.0, bottom, "#e5e5e5", 1.0);
    std::array<char, 32> label{};
    std::snprintf(label.data(), label.size(), "%g ms", tick * tick_ms);
    drawing.text(x, bottom + 14.0, "middle", "#555555", label.data());
  }
  for (size_t lane = 0; lane < lanes.names.size(); ++lane) {
    drawing.text(kLeft - 10.0, Drawing::y(lane) + kLaneHeight / 2.0 + 4.0, "end", "#222222",
                 lanes.names[lane]);
  }
}

void draw_rounds(Drawing& drawing, const Lanes& lanes, const Trace& trace) {
  for (const TraceRound& round : rounds_of(trace)) {
    if (!drawing.shows(round.end_ns, round.end_ns + 1)) continue;
    const bool miss = round.reroot == Reroot::kMiss;
    const char* colour = round.reroot == Reroot::kNone ? "#888888"
                         : miss                        ? kMissColour
                                                       : kHitColour;
    const double x = drawing.x(round.end_ns);
    drawing.vertical(x, kTop - 8.0, Drawing::y(lanes.policy()) + kLaneHeight, colour, 1.2);
    drawing.text(x, kTop - 11.0, "middle", colour, "+" + std::to_string(round.tokens));
  }
}

// Draws a box as wide as the stage's working time, with the share of cancelled rows in grey at its
// top, and a line to the next stage.
void draw_stages(Drawing& drawing, const Lanes& lanes, const TraceStep& step) {
  for (size_t idx = 0; idx < step.stages.size(); ++idx) {
    const TraceStage& stage = step.stages[idx];
    const size_t lane = lanes.of_stage(idx);
    const std::string of_rows =
        std::to_string(stage.rows) + " of " + std::to_string(step.rows) + " rows";
    const std::string tip = of_rows + ", " + milliseconds(stage.end_ns - stage.start_ns);
    drawing.box(lane, stage.start_ns, stage.end_ns, kTargetColour, kLaneHeight, tip);
    const double dead = step.rows > 0 ? 1.0 - static_cast<double>(stage.rows) / step.rows : 0.0;
    drawing.head(lane, stage.start_ns, stage.end_ns, kDeadColour, dead * kLaneHeight);
    drawing.label(lane, stage.start_ns, stage.end_ns, std::to_string(stage.rows),
                  dead > 0.5 ? "#222222" : "#ffffff");
    if (idx + 1 < lanes.stages && stage.rows > 0) {
      drawing.link(lane, stage.end_ns, stage.sent_ns, kLinkColour);
    }
  }
}

void draw_legend(Drawing& drawing, const Lanes& lanes, double y) {
  std::vector<std::pair<const char*, const char*>> entries;
  if (lanes.stages == 0) {
    entries = {{kTargetColour, "target Step (rows)"}};
  } else {
    entries = {{kTargetColour, "stage's Step (live rows)"},
               {kDeadColour, "part of it that is dead"},
               {kLinkColour, "rows on a link"}};
  }
  entries.insert(entries.end(), {{kDraftColour, "draft Step (rows)"},
                                 {kHostColour, "policy"},
                                 {kGapColour, "host gap"},
                                 {kHitColour, "round ends, +tokens: hit"},
                                 {kMissColour, "miss"}});
  double x = kLeft;
  for (const auto& [colour, label] : entries) {
    drawing.text(x, y, "start", colour, "■");
    drawing.text(x + 14.0, y, "start", "#222222", label);
    x += 32.0 + 7.6 * static_cast<double>(std::string_view(label).size());
  }
}

}  // namespace

std::string timeline_svg(const Trace& trace, const TimelineOptions& options) {
  const TraceSpan span = span_of(trace);
  const int64_t start_ns = span.start_ns + std::llround(1e6 * std::max(options.from_ms, 0.0));
  const int64_t end_ns = options.length_ms > 0.0 ? start_ns + std::llround(1e6 * options.length_ms)
                                                 : std::max(span.end_ns, start_ns + 1);
  const Lanes lanes(num_stages(trace));
  Drawing drawing(start_ns, end_ns);
  draw_axis(drawing, lanes, span.start_ns, start_ns, end_ns);
  for (const TraceGap& gap : gaps_of(trace)) {
    if (gap.host_ns() == 0) continue;
    drawing.box(lanes.of(gap.draft), gap.ready_ns, gap.end_ns, kGapColour, kLaneHeight / 2.0,
                "host gap " + milliseconds(gap.host_ns()));
  }
  for (const TraceStep& step : trace.steps) {
    if (!step.draft && lanes.stages > 0) {
      draw_stages(drawing, lanes, step);
      continue;
    }
    drawing.box(lanes.of(step.draft), step.start_ns, step.end_ns,
                step.draft ? kDraftColour : kTargetColour, kLaneHeight,
                std::to_string(step.rows) + " rows, context " +
                    std::to_string(step.context_tokens) + ", " +
                    milliseconds(step.end_ns - step.start_ns));
    drawing.label(lanes.of(step.draft), step.start_ns, step.end_ns, std::to_string(step.rows));
  }
  for (const TraceTurn& turn : trace.turns) {
    drawing.box(lanes.policy(), turn.start_ns, turn.end_ns, kHostColour, kLaneHeight,
                std::string("after ") + (turn.draft ? "draft: " : "target: ") +
                    milliseconds(turn.end_ns - turn.start_ns));
  }
  draw_rounds(drawing, lanes, trace);
  const double legend_y = Drawing::y(lanes.policy()) + kLaneHeight + 46.0;
  draw_legend(drawing, lanes, legend_y);
  std::array<char, 256> head{};
  std::snprintf(head.data(), head.size(),
                R"(<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" )"
                R"(font-family="sans-serif" font-size="12">)",
                kLeft + kWidth + kRight, legend_y + 16.0);
  return std::string(head.data()) + "\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" +
         "<text x=\"" + std::to_string(static_cast<int>(kLeft)) +
         "\" y=\"18\" font-size=\"14\" fill=\"#222222\">" + escaped(options.title) + "</text>\n" +
         drawing.take() + "</svg>\n";
}

}  // namespace forerun
