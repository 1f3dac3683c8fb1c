// Identifies the build of this library: a hash of the sources that Steps run through, and of the
// compiler and its options. Made by cmake/BuildFingerprint.cmake.
#pragma once

namespace forerun {

const char* build_fingerprint();

}  // namespace forerun
