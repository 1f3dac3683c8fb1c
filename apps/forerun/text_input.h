// Text that comes from outside: files, standard input, flags.
#pragma once

#include <string>
#include <string_view>

#include "forerun/status.h"

namespace forerun::app {

// More than any context takes; what is longer is no prompt but a mistake (/dev/zero, a disk image).
constexpr size_t kMaxInputBytes = size_t{64} << 20;

// The whole of a file, or of standard input where `path` is "-". Messages begin with `flag`.
Result<std::string> read_text(const std::string& flag, const std::string& path);

// Fails, naming `what` and the first byte that is none, where `text` is not UTF-8.
Status check_utf8(const std::string& what, std::string_view text);

}  // namespace forerun::app
