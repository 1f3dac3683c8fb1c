// Texts of the progress bar while bytes of a model are read or sent.
#pragma once

#include <string>

namespace forerun {

// Returns "1.3".
std::string one_digit(double value);

// Returns "loading target: 1.3 of 4.9 GB, 1.1 GB/s, 4 s left" where there is as much as a gigabyte,
// else `what` alone. `fraction` of `bytes` took `seconds`.
std::string describe_progress(const std::string& what, double fraction, double bytes,
                              double seconds);

}  // namespace forerun
