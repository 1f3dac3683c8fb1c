// The drawing of a trace: lanes for target, draft and the host's turns over time; rounds show
// whether the draft's tree survived (hit) or not (miss), and host gaps are grey. If the target has
// stages, each has a lane, which shows the share of a Step's rows that were not dropped there.
#pragma once

#include <string>

#include "forerun/trace.h"

namespace forerun {

struct TimelineOptions {
  std::string title;
  // The window of the drawing: `length_ms` milliseconds from `from_ms` after the trace's earliest
  // moment. A length of 0 or less extends to the end.
  double from_ms = 0.0;
  double length_ms = 0.0;
};

// Returns an SVG document. A trace, or a window, without Steps gives empty lanes.
std::string timeline_svg(const Trace& trace, const TimelineOptions& options);

}  // namespace forerun
