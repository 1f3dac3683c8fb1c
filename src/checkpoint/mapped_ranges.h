// The files that are mapped at present: as a signal handler may read them, without a lock, and to
// be asked whether they still are what they were.
#pragma once

#include <atomic>
#include <cstddef>
#include <ctime>
#include <mutex>
#include <span>
#include <string>

#include "forerun/status.h"

namespace forerun {

// One mapped file. Ranges are never freed, so that a handler may walk their list at any time; a
// later file takes one that is free.
class MappedRange {
 public:
  // Takes the descriptor, which stays open until remove(). `bytes` may be empty.
  static MappedRange* add(std::span<const std::byte> bytes, const std::string& path, int fd,
                          const timespec& written);
  // Before the map is gone.
  static void remove(MappedRange* range);
  // That has `address`; null: none has. Valid until its file is closed.
  static const MappedRange* find(const std::byte* address);

  // See MappedFile::check().
  Status check() const;

  // Puts zeros in place of all of the file that has `address`, and marks it. False where no file
  // has it, or the system declines, which is then said on stderr. Safe in a signal handler.
  static bool replace_unreadable(const void* address);

 private:
  MappedRange() = default;
  std::string look_for_change() const;  // empty: there is none

  std::atomic<const std::byte*> begin_{nullptr};  // null: there is nothing to find
  std::atomic<size_t> bytes_{0};
  std::atomic<bool> is_unreadable_{false};  // reading it has raised SIGBUS
  MappedRange* next_ = nullptr;             // written before the range is in the list
  bool is_free_ = true;                     // guarded by the list's mutex

  // Written while it is free.
  std::string path_;
  int fd_ = -1;
  timespec written_{};  // last, when it was mapped
  mutable std::atomic<bool> is_changed_{false};
  mutable std::mutex mutex_;    // guards change_ until is_changed_
  mutable std::string change_;  // what has become of it
};

}  // namespace forerun
