// Code that digests of tensors and digests of file chunks share: files with digests that are kept
// between starts, and blocks of files that several threads read and digest. Internal to
// checkpoint/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/open_file.h"
#include "checkpoint/kept_digests.h"
#include "forerun/status.h"

namespace forerun {

// An open file, the digests that an earlier start has kept of it, and those that this one makes.
struct DigestedFile {
  // Opens the file; file.status() says whether that worked.
  DigestedFile(const std::filesystem::path& path, const KeptDigests& kept_digests);
  // Keeps `made`, if there are any, for later starts. Skips a file that changed while it was read,
  // or just before: its next change might carry the same time. False where they cannot be written.
  bool keep_made(const KeptDigests& kept_digests) const;

  OpenFile file;
  std::optional<FileState> state;
  DigestsByPlace kept;
  DigestsByPlace made;
};

// Logs that digests are made anew at every start.
void tell_digests_not_kept();

struct FileBlock {
  const OpenFile* file = nullptr;
  int64_t offset = 0;
  int64_t size = 0;  // at most 4 MiB
};

// Returns the digests of the blocks in order. At most `threads` threads, and no more than 16, read
// them. Calls `progress`, which may be null, on the calling thread with the fraction of blocks that
// threads have begun. Returns the first failure of any thread.
Result<std::vector<std::string>> digest_blocks(
    std::span<const FileBlock> blocks, int32_t threads, const std::function<void(double)>& progress,
    const std::function<std::string(std::span<const std::byte>)>& digest);

}  // namespace forerun
