// A rate or share whose denominator may be zero.
#pragma once

namespace forerun::bench {

// Returns a / b; 0 if b is not positive.
inline double ratio(double a, double b) { return b > 0 ? a / b : 0.0; }

}  // namespace forerun::bench
