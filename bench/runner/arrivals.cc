#include "runner/arrivals.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "base/noise.h"

namespace forerun::bench {
namespace {

// Keeps these random numbers independent of every other use of the seed.
constexpr uint32_t kArrivalsTag = 0x41525256u;

// Parses a whole number or fraction, finite and above 0; returns 0 for any other text.
double positive_number(std::string_view text) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  const bool good = parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(value);
  return good && value > 0.0 ? value : 0.0;
}

}  // namespace

Result<Arrivals> parse_arrivals(const std::string& text) {
  constexpr std::string_view kEvery = "every:", kPoisson = "poisson:";
  if (text == "all") return Arrivals();
  if (text.starts_with(kEvery)) {
    const double seconds = positive_number(std::string_view(text).substr(kEvery.size()));
    if (seconds > 0.0) return Arrivals{Arrivals::Kind::kEvery, seconds};
  }
  if (text.starts_with(kPoisson)) {
    const double rate = positive_number(std::string_view(text).substr(kPoisson.size()));
    if (rate > 0.0 && std::isfinite(1.0 / rate)) {
      return Arrivals{Arrivals::Kind::kPoisson, 1.0 / rate};
    }
  }
  return Status(StatusCode::kInvalidArgument,
                "arrivals: found '" + text +
                    "'; accepted: all, every:SECONDS or poisson:REQUESTS_PER_SECOND, with a "
                    "number above 0");
}

std::vector<double> arrival_seconds(const Arrivals& arrivals, int requests, uint64_t seed) {
  std::vector<double> seconds;
  double now = 0.0;
  for (int index = 0; index < requests; ++index) {
    seconds.push_back(now);
    if (arrivals.kind == Arrivals::Kind::kEvery) now = arrivals.mean_gap_s * (index + 1);
    if (arrivals.kind != Arrivals::Kind::kPoisson) continue;
    const auto block = philox({static_cast<uint32_t>(index), 0, 0, kArrivalsTag},
                              {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    now -= arrivals.mean_gap_s * std::log(static_cast<double>(noise_uniform(block[0])));
  }
  return seconds;
}

}  // namespace forerun::bench
