// Text input: files, standard input, flags.
#pragma once

#include <string>
#include <string_view>

#include "forerun/status.h"

namespace forerun::app {

// More than any context holds. A longer input is a mistake (/dev/zero, a disk image), not a prompt.
constexpr size_t kMaxInputBytes = size_t{64} << 20;

// Reads the whole of a file, or of standard input if `path` is "-". Messages begin with `flag`.
Result<std::string> read_text(const std::string& flag, const std::string& path);

// Fails if `text` is not UTF-8; the message has `what` and the first wrong byte.
Status check_utf8(const std::string& what, std::string_view text);

}  // namespace forerun::app
