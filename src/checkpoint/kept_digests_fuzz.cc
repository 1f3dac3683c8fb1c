// Feeds bytes as a file of kept digests: they must be refused, or parsed to digests that write the
// same file again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "checkpoint/kept_digests.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace forerun;
  const FileState state{.path = "/m", .device = 1, .inode = 2, .size = 3};
  // Most inputs lack the title, so each input is also read behind a valid one.
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)parse_kept_digests(text, state);
  const auto digests = parse_kept_digests(write_kept_digests(state, {}) + text, state);
  if (!digests) return 0;
  if (parse_kept_digests(write_kept_digests(state, *digests), state) != digests) std::abort();
  return 0;
}
