// When the requests of a load arrive: all at once, evenly, or as a Poisson process. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun::bench {

struct Arrivals {
  enum class Kind : uint8_t { kAll, kEvery, kPoisson };
  Kind kind = Kind::kAll;
  double mean_gap_s = 0.0;  // between two arrivals; 0 for kAll
};

// "all", "every:SECONDS" or "poisson:REQUESTS_PER_SECOND". The number is finite and above 0; any
// other text is refused with what is accepted.
Result<Arrivals> parse_arrivals(const std::string& text);

// Seconds from the start, ascending, the first of all 0. Of a Poisson process every gap is a
// function of (seed, index) alone: the same seed gives the same arrivals, and more requests never
// move those before them.
std::vector<double> arrival_seconds(const Arrivals& arrivals, int requests, uint64_t seed);

}  // namespace forerun::bench
