// The list of mapped files, which a signal handler can read without a lock, with the state of each:
// whether the file has changed since it was mapped.
#pragma once

#include <atomic>
#include <cstddef>
#include <ctime>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "forerun/status.h"

namespace forerun {

// One mapped file. Ranges are never freed, so that a handler may walk the list at any time; the
// range of a closed file is reused for a later one.
class MappedRange {
 public:
  // Adds a mapping and takes over the descriptor `fd`, which stays open until remove(). `bytes` may
  // be empty. `written`: the file's modification time; nothing if writes to the file do not change
  // bytes that have been read.
  static MappedRange* add(std::span<const std::byte> bytes, const std::string& path, int fd,
                          const std::optional<timespec>& written);
  // Removes a range; call it before the file is unmapped.
  static void remove(MappedRange* range);
  // Returns the range that contains `address`, or null. Valid until the range's file is closed.
  static const MappedRange* find(const std::byte* address);

  // Implements MappedFile::check().
  Status check() const;

  // Replaces the whole mapped file at `address` by zeros and marks it as unreadable. Returns false
  // if no file is mapped there, or if the system refuses, which it writes to standard error. Safe
  // in a signal handler.
  static bool replace_unreadable(const void* address);

 private:
  MappedRange() = default;
  std::string look_for_change() const;  // empty if there is no change

  std::atomic<const std::byte*> begin_{nullptr};  // null makes find() skip the range
  std::atomic<size_t> bytes_{0};
  std::atomic<bool> is_unreadable_{false};  // reading the file has raised SIGBUS
  MappedRange* next_ = nullptr;             // set before the range is in the list
  bool is_free_ = true;                     // guarded by the list's mutex

  // Written only while the range is free.
  std::string path_;
  int fd_ = -1;
  std::optional<timespec> written_;  // as in add()
  mutable std::atomic<bool> is_changed_{false};
  mutable std::mutex mutex_;    // guards change_ until is_changed_
  mutable std::string change_;  // message of check() once the file has changed
};

}  // namespace forerun
