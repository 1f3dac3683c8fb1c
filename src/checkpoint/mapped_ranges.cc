#include "checkpoint/mapped_ranges.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "base/log.h"

namespace forerun {
namespace {

std::atomic<MappedRange*> first_range{nullptr};
std::mutex changes;  // guards the list and is_free_; the handler takes no lock

// Writes to standard error with calls that are safe in a signal handler.
void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

MappedRange* MappedRange::add(std::span<const std::byte> bytes, const std::string& path, int fd,
                              const std::optional<timespec>& written) {
  const std::lock_guard lock(changes);
  MappedRange* range = first_range.load();
  while (range != nullptr && !range->is_free_) range = range->next_;
  const bool is_new = range == nullptr;
  if (is_new) range = new MappedRange;
  range->is_free_ = false;
  range->path_ = path;
  range->fd_ = fd;
  range->written_ = written;
  range->is_changed_ = false;
  range->is_unreadable_ = false;
  range->bytes_ = bytes.size();
  range->begin_ = bytes.data();
  if (is_new) {
    range->next_ = first_range.load();
    first_range = range;
  }
  return range;
}

void MappedRange::remove(MappedRange* range) {
  const std::lock_guard lock(changes);
  range->begin_ = nullptr;
  close(range->fd_);
  range->is_free_ = true;
}

const MappedRange* MappedRange::find(const std::byte* address) {
  for (const MappedRange* range = first_range.load(); range != nullptr; range = range->next_) {
    const std::byte* const begin = range->begin_.load();
    if (begin != nullptr && address >= begin && address < begin + range->bytes_.load()) {
      return range;
    }
  }
  return nullptr;
}

bool MappedRange::replace_unreadable(const void* address) {
  auto* const range = const_cast<MappedRange*>(find(static_cast<const std::byte*>(address)));
  if (range == nullptr) return false;
  // Sets the mark before the zeros, so that a thread that has read a zero finds the mark.
  range->is_unreadable_ = true;
  // Replaces the whole file, since replacing single pages would cost a fault each and split the
  // mapping.
  void* const replaced = mmap(const_cast<std::byte*>(range->begin_.load()), range->bytes_.load(),
                              PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
                              /*fd=*/-1, 0);
  if (replaced != MAP_FAILED) return true;
  const std::array<std::string_view, 3> words = {"forerun: ", range->path_,
                                                 ": cannot be read any more\n"};
  for (const std::string_view word : words) say(word);
  return false;
}

std::string MappedRange::look_for_change() const {
  struct stat info {};
  const bool is_there = fstat(fd_, &info) == 0;
  const auto now = static_cast<size_t>(info.st_size);
  if (is_there && now != bytes_.load()) {
    return "found " + std::to_string(now) + " bytes, it had " + std::to_string(bytes_.load()) +
           " when it was opened";
  }
  if (is_there && written_ &&
      (info.st_mtim.tv_sec != written_->tv_sec || info.st_mtim.tv_nsec != written_->tv_nsec)) {
    return "was written to after it was opened";
  }
  if (!is_there || is_unreadable_.load()) return "cannot be read any more";
  return "";
}

Status MappedRange::check() const {
  if (!is_changed_.load()) {
    const std::string change = look_for_change();
    if (change.empty()) return {};
    const std::lock_guard lock(mutex_);
    if (!is_changed_.load()) {
      change_ = path_ + ": " + change +
                "; its weights are not to be trusted until the model is loaded again, from a whole "
                "file (to change a file in use, write another one and rename it)";
      log_line(LogLevel::kError, change_);
      is_changed_ = true;
    }
  }
  return Status(StatusCode::kInternal, change_);
}

}  // namespace forerun
