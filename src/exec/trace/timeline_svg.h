// A trace as a drawing: lanes for target, draft and the host's turns over time, rounds marked by
// whether the draft's tree lived on (hit) or not (miss), host gaps in grey. Of a target that is cut
// each stage has a lane, with how many of a Step's rows were alive there.
#pragma once

#include <string>

#include "forerun/trace.h"

namespace forerun {

struct TimelineOptions {
  std::string title;
  // What is drawn: from so many milliseconds after the trace's earliest moment, so many. 0 or less
  // draws to the end.
  double from_ms = 0.0;
  double length_ms = 0.0;
};

// An SVG document. A trace, or a window, without Steps gives empty lanes.
std::string timeline_svg(const Trace& trace, const TimelineOptions& options);

}  // namespace forerun
