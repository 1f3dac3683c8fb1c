#include "checkpoint/chunk_digests.h"

#include <sys/stat.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/file_chunks.h"
#include "base/status_macros.h"
#include "checkpoint/block_digests.h"

namespace forerun {
namespace {

std::string text_of(std::span<const std::byte> bytes) { return hex(sha256(bytes)); }

Sha256 digest_of(const std::string& text) {
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  Sha256 digest;
  for (size_t idx = 0; idx < digest.size(); ++idx) {
    digest[idx] = static_cast<std::byte>(value(text[2 * idx]) << 4 | value(text[2 * idx + 1]));
  }
  return digest;
}

}  // namespace

Result<ChunkDigests> digest_chunks(const std::filesystem::path& path,
                                   const DigestOptions& options) {
  const KeptDigests kept(options.folder);
  DigestedFile file(path, kept);
  FORERUN_RETURN_IF_ERROR(file.file.status());
  struct stat about {};
  if (fstat(file.file.descriptor(), &about) != 0 || !S_ISREG(about.st_mode)) {
    return Status(StatusCode::kInvalidArgument, path.string() + ": not a regular file");
  }
  ChunkDigests result;
  result.file_bytes = static_cast<uint64_t>(about.st_size);
  result.chunks.resize(count_chunks(result.file_bytes));
  std::vector<FileBlock> blocks;
  std::vector<size_t> to_make;
  for (size_t chunk = 0; chunk < result.chunks.size(); ++chunk) {
    const auto offset = static_cast<int64_t>(chunk * kFileChunkBytes);
    const auto found = file.kept.find(offset);
    if (found != file.kept.end() && found->second.size() == 2 * kSha256Bytes) {
      result.chunks[chunk] = digest_of(found->second);
      continue;
    }
    const auto size = static_cast<int64_t>(chunk_bytes(result.file_bytes, chunk));
    blocks.push_back({.file = &file.file, .offset = offset, .size = size});
    to_make.push_back(chunk);
    result.read_bytes += size;
  }
  FORERUN_ASSIGN_OR_RETURN(const std::vector<std::string> digests,
                           digest_blocks(blocks, options.threads, options.progress, text_of));
  for (size_t idx = 0; idx < digests.size(); ++idx) {
    result.chunks[to_make[idx]] = digest_of(digests[idx]);
    file.made[blocks[idx].offset] = digests[idx];
  }
  if (!file.keep_made(kept)) tell_digests_not_kept();
  return result;
}

}  // namespace forerun
