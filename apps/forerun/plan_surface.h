// A picture of the predicted gain of speculation over batch and context: a heat map, the line from
// which on speculation pays, and the requested loads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/plan_machine.h"

namespace forerun::app {

struct SurfacePicture {
  std::string title;
  std::vector<std::string> subtitles;  // at most two lines
  std::vector<int32_t> batches;        // ascending, distinct, not empty: marked, and the axis
  std::vector<int64_t> contexts;       // the same, in tokens
  // Returns the plan of any load in these ranges.
  std::function<BatchPlan(const BatchLoad&)> plan;
  // Returns a short name of a candidate, for the marks.
  std::function<std::string(int32_t candidate)> label_of;
};

// Returns an SVG document.
std::string surface_svg(const SurfacePicture& picture);

}  // namespace forerun::app
