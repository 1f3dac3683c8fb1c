// A file that is open for reading, in which any place may be read.
//
// Thread rules: read() may be called from many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "forerun/status.h"

namespace forerun {

class OpenFile {
 public:
  // Opens the file; status() says whether that worked.
  explicit OpenFile(std::filesystem::path path);
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();

  const Status& status() const { return status_; }
  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  // Fills `to` with the bytes from `offset` on. Fails with the file's name, kCorrupt, where they
  // cannot be read or the file ends before.
  Status read(int64_t offset, std::span<std::byte> to) const;

 private:
  const std::filesystem::path path_;
  const int descriptor_;
  Status status_;
};

}  // namespace forerun
