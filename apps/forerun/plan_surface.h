// The predicted gain of speculation over batch and context as a picture: a heat map, the line where
// speculation begins to pay, and the loads that were asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/plan_machine.h"

namespace forerun::app {

struct SurfacePicture {
  std::string title;
  std::vector<std::string> subtitles;  // lines, two at most
  std::vector<int32_t> batches;        // ascending, distinct, not empty: marked, and the axis
  std::vector<int64_t> contexts;       // the same, tokens
  // The plan of any load between them.
  std::function<BatchPlan(const BatchLoad&)> plan;
  // A short name of a candidate, for the marks.
  std::function<std::string(int32_t candidate)> label_of;
};

// An SVG document.
std::string surface_svg(const SurfacePicture& picture);

}  // namespace forerun::app
