// Digests of the chunks of a file (base/file_chunks.h), by which copies on other machines are
// filled and checked. They are kept between starts, as those of tensors are.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/sha256.h"
#include "checkpoint/tensor_digests.h"
#include "forerun/status.h"

namespace forerun {

struct ChunkDigests {
  uint64_t file_bytes = 0;
  std::vector<Sha256> chunks;
  int64_t read_bytes = 0;  // the digests of all other bytes were kept
};

// Digests all chunks of a file; reads only those without a kept digest. Fails with kNotFound or
// kCorrupt and the file's name if the file cannot be read, with kInvalidArgument if it is not a
// regular file.
Result<ChunkDigests> digest_chunks(const std::filesystem::path& path, const DigestOptions& options);

}  // namespace forerun
