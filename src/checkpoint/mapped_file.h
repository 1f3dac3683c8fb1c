// A whole file, mapped read-only. Pages are read when first touched. If another process shortens
// the file while it is mapped, touching the lost pages raises SIGBUS, as with any mapping.
//
// Thread rules: const methods may be called from many threads.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "forerun/status.h"

namespace forerun {

class MappedFile {
 public:
  // Follows symbolic links. Fails for what is not a regular file; an empty file maps to no bytes.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  // Starts at a page boundary; valid until destruction, also across moves.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

// Both act on every page that `bytes`, a part of a mapping, touches; the content stays readable.
void drop_mapped_pages(std::span<const std::byte> bytes);
void read_ahead_mapped_pages(std::span<const std::byte> bytes);

}  // namespace forerun
