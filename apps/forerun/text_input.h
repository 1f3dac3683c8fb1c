// Text input: files, standard input, flags.
#pragma once

#include <string>
#include <string_view>

#include "forerun/status.h"

namespace forerun::app {

// More than any context takes. A longer input is a mistake (/dev/zero, a disk image), not a prompt.
constexpr size_t kMaxInputBytes = size_t{64} << 20;

// The whole of a file, or of standard input where `path` is "-". Messages begin with `flag`.
Result<std::string> read_text(const std::string& flag, const std::string& path);

// Fails if `text` is not UTF-8, naming `what` and the first wrong byte.
Status check_utf8(const std::string& what, std::string_view text);

}  // namespace forerun::app
