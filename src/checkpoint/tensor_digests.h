// Digests of tensors by their bytes alone: a tensor has the same digest in any file. Several
// threads compute them, and they are kept between starts.
//
// The threads read files without mapping them, so the process does not grow by the bytes read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"

namespace forerun {

struct DigestOptions {
  // The folder for kept digests, with one file per file of the checkpoint; it is created if needed.
  // A digest is valid while path, device, inode, size, mtime and ctime of the file do not change.
  // If the folder is empty, no digests are kept. An unusable folder is logged once and only costs
  // time.
  std::filesystem::path folder;
  int32_t threads = 1;
  // Receives the fraction of blocks that threads have taken, in [0, 1], on the thread that called
  // digest_tensors(). May be null.
  std::function<void(double)> progress;
};

struct TensorDigests {
  struct One {
    std::string file;    // name of the tensor's file
    std::string digest;  // 32 hexadecimal digits
  };
  std::vector<One> tensors;  // in the order of the request
  int64_t read_bytes = 0;    // bytes without kept digests, which were read
};

// Returns the digests of some tensors of a checkpoint. Returns kNotFound or kCorrupt, with the name
// of the file, if a file cannot be read.
Result<TensorDigests> digest_tensors(const Checkpoint& checkpoint,
                                     std::span<const RawTensor* const> tensors,
                                     const DigestOptions& options);

}  // namespace forerun
