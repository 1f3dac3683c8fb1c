// A whole file, mapped read-only. Pages are read when first touched. If another process shortens
// the file while it is mapped, touching the lost pages raises SIGBUS, as with any mapping, or reads
// zeros where install_sigbus_handler() was called. check() reports that, and other changes of the
// file.
//
// Thread rules: const methods may be called from many threads.
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
  // Follows symbolic links. Fails for what is not a regular file; an empty file maps to no bytes.
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
  // Starts at a page boundary; valid until destruction, also across moves.
  std::span<const std::byte> bytes() const { return bytes_; }
  // Whether everything that was read from the map so far is what the file held when it was opened.
  // Fails with kInternal and the file's name where the file has another size, was written to, or
  // could not be read, and from then on always; the first failure is logged, too. Costs one system
  // call. Renaming or removing a file does not change it.
  Status check() const { return range_->check(); }

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes, MappedRange* range)
      : path_(std::move(path)), bytes_(bytes), range_(range) {}
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  MappedRange* range_;  // null: moved away
};

// All act on every page that `bytes`, a part of a mapping, touches; the content stays readable.
void drop_mapped_pages(std::span<const std::byte> bytes);
// Asks the kernel to begin reading.
void read_ahead_mapped_pages(std::span<const std::byte> bytes);
// For bytes that are read once, from the first to the last, in portions: returns when the pages are
// in memory and mapped. Where the file cannot be read, whoever touches the page will learn it.
void read_mapped_pages(std::span<const std::byte> bytes);

}  // namespace forerun
