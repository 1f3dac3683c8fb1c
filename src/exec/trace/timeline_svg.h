// A trace as a drawing: lanes for target, draft and the host's turns over time, rounds marked by
// whether the draft's tree lived on (hit) or not (miss), host gaps in grey. Where the target is
// cut, each stage has a lane, which shows how many of a Step's rows were not dropped there.
#pragma once

#include <string>

#include "forerun/trace.h"

namespace forerun {

struct TimelineOptions {
  std::string title;
  // The window that is drawn: `length_ms` milliseconds from `from_ms` after the trace's earliest
  // moment. A length of 0 or less draws to the end.
  double from_ms = 0.0;
  double length_ms = 0.0;
};

// An SVG document. A trace, or a window, without Steps gives empty lanes.
std::string timeline_svg(const Trace& trace, const TimelineOptions& options);

}  // namespace forerun
