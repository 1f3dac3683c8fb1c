// What this library was built from: a hash of the sources that Steps run through, of the compiler
// and its options. Made by cmake/BuildFingerprint.cmake.
#pragma once

namespace forerun {

const char* build_fingerprint();

}  // namespace forerun
