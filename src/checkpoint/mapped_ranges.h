// The files that are mapped at present, in a list that a signal handler can read without a lock,
// and whether each of them has changed since it was mapped.
#pragma once

#include <atomic>
#include <cstddef>
#include <ctime>
#include <mutex>
#include <span>
#include <string>

#include "forerun/status.h"

namespace forerun {

// One mapped file. Ranges are never freed, so that a handler may walk the list at any time; a range
// whose file is gone is used again for a later file.
class MappedRange {
 public:
  // Takes over the descriptor `fd`, which stays open until remove(). `bytes` may be empty.
  static MappedRange* add(std::span<const std::byte> bytes, const std::string& path, int fd,
                          const timespec& written);
  // Must be called before the map is unmapped.
  static void remove(MappedRange* range);
  // The range that holds `address`; null where none does. Valid until the range's file is closed.
  static const MappedRange* find(const std::byte* address);

  // See MappedFile::check().
  Status check() const;

  // Puts zeros in place of the whole file that is mapped at `address`, and marks the file as
  // unreadable. False where no file is mapped there, or where the system refuses, which is then
  // written to standard error. Safe in a signal handler.
  static bool replace_unreadable(const void* address);

 private:
  MappedRange() = default;
  std::string look_for_change() const;  // empty: no change

  std::atomic<const std::byte*> begin_{nullptr};  // null: find() skips the range
  std::atomic<size_t> bytes_{0};
  std::atomic<bool> is_unreadable_{false};  // reading it has raised SIGBUS
  MappedRange* next_ = nullptr;             // written before the range is in the list
  bool is_free_ = true;                     // guarded by the list's mutex

  // Written only while the range is free.
  std::string path_;
  int fd_ = -1;
  timespec written_{};  // the file's time of modification when it was mapped
  mutable std::atomic<bool> is_changed_{false};
  mutable std::mutex mutex_;    // guards change_ until is_changed_
  mutable std::string change_;  // what check() says once the file has changed
};

}  // namespace forerun
