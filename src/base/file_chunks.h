// Files as lists of chunks of one size, whose digests say whether two copies of a file agree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace forerun {

// A folder with a file of this name has copies of which chunks may still be missing. Missing chunks
// are filled in, also while others read the file; what is there never changes.
inline constexpr const char* kFilledFolderMark = ".forerun-sent";

inline constexpr uint64_t kFileChunkBytes = uint64_t{1} << 20;

inline uint64_t count_chunks(uint64_t file_bytes) {
  return file_bytes / kFileChunkBytes + (file_bytes % kFileChunkBytes != 0 ? 1 : 0);
}
// Returns the size of a chunk that the file has; the last one may be shorter.
inline size_t chunk_bytes(uint64_t file_bytes, uint64_t chunk) {
  return static_cast<size_t>(std::min(kFileChunkBytes, file_bytes - chunk * kFileChunkBytes));
}

}  // namespace forerun
