// A whole file, mapped read-only. The system reads pages when they are first touched. If another
// process shortens the file while it is mapped, touching the lost pages raises SIGBUS, as with any
// mapping, or reads zeros after install_sigbus_handler(). check() reports that, and other changes
// of the file. It allows writes to a file beside kFilledFolderMark (base/file_chunks.h), because
// they only fill holes.
//
// Const methods may be called from many threads.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "checkpoint/mapped_ranges.h"
#include "forerun/status.h"

namespace forerun {

class MappedFile {
 public:
  // Maps a file, following symbolic links. Fails unless it is a regular file; an empty file maps to
  // no bytes.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)),
        bytes_(std::exchange(other.bytes_, {})),
        range_(std::exchange(other.range_, nullptr)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    std::swap(range_, other.range_);
    return *this;
  }
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  // Returns the bytes, which start at a page boundary; valid until destruction, also across moves.
  std::span<const std::byte> bytes() const { return bytes_; }
  // Returns ok if all bytes read from the mapping so far are those that the file held when it was
  // opened. Returns kInternal with the file's name if the file has another size, was written to, or
  // could not be read, and from then on always; also logs the first failure. Costs one system call.
  // Renaming or removing a file is no change.
  Status check() const { return range_->check(); }

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes, MappedRange* range)
      : path_(std::move(path)), bytes_(bytes), range_(range) {}
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  MappedRange* range_;  // null after a move
};

// Each function acts on every page that `bytes`, a part of a mapping, touches; the contents stay
// readable.
void drop_mapped_pages(std::span<const std::byte> bytes);
// Asks the kernel to begin reading.
void read_ahead_mapped_pages(std::span<const std::byte> bytes);
// Reads bytes that are needed once, from beginning to end, in portions: returns when the pages are
// in memory and mapped. If the file cannot be read, the next access to the page fails.
void read_mapped_pages(std::span<const std::byte> bytes);

}  // namespace forerun
