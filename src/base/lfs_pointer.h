// Git LFS pointers: three lines of text in place of a file that has not been fetched.
#pragma once

#include <string>
#include <string_view>

#include "forerun/status.h"

namespace forerun {

// Fails if `content` (a file's content or its beginning) is such a pointer. The message names
// `file`.
inline Status refuse_lfs_pointer(std::string_view content, const std::string& file) {
  if (!content.starts_with("version https://git-lfs")) return {};
  return Status(StatusCode::kCorrupt, file +
                                          ": found a Git LFS pointer; accepted: the file itself "
                                          "(run: git lfs pull)");
}

}  // namespace forerun
