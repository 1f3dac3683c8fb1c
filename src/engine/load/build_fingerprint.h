// Identifies the build of this library by a hash of the sources that compute Steps, of the compiler
// and of its options. cmake/BuildFingerprint.cmake computes it.
#pragma once

namespace forerun {

const char* build_fingerprint();

}  // namespace forerun
