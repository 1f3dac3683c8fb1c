// The arrival times of a load's requests: all at once, evenly spaced, or a Poisson process. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun::bench {

struct Arrivals {
  enum class Kind : uint8_t { kAll, kEvery, kPoisson };
  Kind kind = Kind::kAll;
  double mean_gap_s = 0.0;  // mean time between two arrivals; 0 for kAll
};

// Parses "all", "every:SECONDS" or "poisson:REQUESTS_PER_SECOND". The number must be finite and
// above 0; any other text is refused with a list of what is accepted.
Result<Arrivals> parse_arrivals(const std::string& text);

// Returns seconds from the start, ascending; the first is 0. Every gap of a Poisson process is a
// function of (seed, index) alone: the same seed gives the same arrivals, and more requests do not
// move earlier ones.
std::vector<double> arrival_seconds(const Arrivals& arrivals, int requests, uint64_t seed);

}  // namespace forerun::bench
