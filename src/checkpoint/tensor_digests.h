// Digests of tensors by their bytes alone: a tensor has the same one in whatever file it lies. Made
// by several threads, and kept between starts.
//
// Files are read, not mapped: the process' memory does not grow by what is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun {

struct DigestOptions {
  // Where digests are kept, a file for each of the checkpoint's; made where it is not there. One
  // holds for as long as path, device, inode, size and both times of change of the file are what
  // they were. Empty: none are kept. Whatever is wrong with it is logged, once, and costs time.
  std::filesystem::path folder;
  int32_t threads = 1;
  // Gets the fraction of the bytes that has been read, in [0, 1], from the calling thread. May be
  // null.
  std::function<void(double)> progress;
};

struct TensorDigests {
  struct One {
    std::string file;    // the name of that which the tensor lies in
    std::string digest;  // 32 hexadecimal digits
  };
  std::vector<One> tensors;  // those named, in their order
  int64_t read_bytes = 0;    // the rest was kept
};

// The digests of tensors of a checkpoint that opens, by names as Checkpoint::find() takes them.
// kNotFound or kCorrupt, naming the file or the tensor, where one cannot be read or is not there.
Result<TensorDigests> digest_tensors(const std::filesystem::path& dir,
                                     std::span<const std::string> names,
                                     const DigestOptions& options);

}  // namespace forerun
