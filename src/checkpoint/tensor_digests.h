// Digests of tensors by their bytes alone: a tensor has the same digest in whatever file it lies.
// Several threads make them, and they are kept between starts.
//
// Files are read, not mapped: the process' memory does not grow by what is read.
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
  // The folder in which digests are kept, one file for each file of the checkpoint; it is made
  // where it does not exist. A digest holds for as long as path, device, inode, size, mtime and
  // ctime of the file stay what they were. Empty: no digests are kept. A folder that cannot be used
  // is logged once and costs time only.
  std::filesystem::path folder;
  int32_t threads = 1;
  // Called on the thread that called digest_tensors(), with the fraction of the blocks that have
  // been taken up, in [0, 1]. May be null.
  std::function<void(double)> progress;
};

struct TensorDigests {
  struct One {
    std::string file;    // the name of the file that holds the tensor
    std::string digest;  // 32 hexadecimal digits
  };
  std::vector<One> tensors;  // in the order in which they were asked for
  int64_t read_bytes = 0;    // the digests of all other bytes were kept
};

// The digests of some tensors of a checkpoint. kNotFound or kCorrupt, with the name of the file,
// where a file cannot be read.
Result<TensorDigests> digest_tensors(const Checkpoint& checkpoint,
                                     std::span<const RawTensor* const> tensors,
                                     const DigestOptions& options);

}  // namespace forerun
