#include "checkpoint/kept_digests.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

#include "checkpoint/content_digest.h"

namespace forerun {
namespace {

constexpr std::string_view kTitle = "forerun tensor digests 1";
constexpr size_t kTensorDigits = 32;
constexpr size_t kChunkDigits = 64;
// A tensor takes some 50 bytes, a chunk of a file some 80.
constexpr std::uintmax_t kMaxFileBytes = 64 << 20;
// File systems record times more coarsely than the system's clock: by up to 10 ms on Linux, by 2 s
// on FAT.
constexpr int64_t kSettledNs = 2'000'000'000;

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::string state_text(const FileState& state) {
  return std::string(kTitle) + "\n" + state.path + "\n" + std::to_string(state.device) + " " +
         std::to_string(state.inode) + " " + std::to_string(state.size) + " " +
         std::to_string(state.modified_ns) + " " + std::to_string(state.changed_ns) + "\n";
}

bool is_digest(std::string_view text) {
  return (text.size() == kTensorDigits || text.size() == kChunkDigits) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string read_text(const std::filesystem::path& file) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error || size > kMaxFileBytes) return "";
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(descriptor, text.data(), text.size());
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// A lock on the folder: while a process holds it, no other one replaces files there. A process that
// cannot get it continues without it; then the digests of one of two processes may be lost, and a
// later start computes them again.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    constexpr int kTries = 100;
    for (int left = kTries; descriptor_ >= 0 && flock(descriptor_, LOCK_EX | LOCK_NB) != 0;
         --left) {
      if (left == 0) return;
      usleep(10000);
    }
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }

 private:
  const int descriptor_;
};

}  // namespace

std::optional<FileState> state_of_file(const std::filesystem::path& path, int descriptor) {
  struct stat about {};
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error || fstat(descriptor, &about) != 0) return std::nullopt;
  return FileState{.path = absolute.string(),
                   .device = uint64_t{about.st_dev},
                   .inode = uint64_t{about.st_ino},
                   .size = int64_t{about.st_size},
                   .modified_ns = nanoseconds(about.st_mtim),
                   .changed_ns = nanoseconds(about.st_ctim)};
}

bool is_settled(const FileState& state, int64_t now_ns) {
  return std::max(state.modified_ns, state.changed_ns) < now_ns - kSettledNs;
}

std::string write_kept_digests(const FileState& state, const DigestsByPlace& digests) {
  std::string text = state_text(state);
  for (const auto& [offset, digest] : digests) {
    text += std::to_string(offset) + " " + digest + "\n";
  }
  return text;
}

std::optional<DigestsByPlace> parse_kept_digests(std::string_view text, const FileState& state) {
  const std::string expected = state_text(state);
  if (!text.starts_with(expected)) return std::nullopt;
  text.remove_prefix(expected.size());
  DigestsByPlace digests;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    int64_t offset = -1;
    const auto read = std::from_chars(line.data(), line.data() + line.size(), offset);
    const auto digits = static_cast<size_t>(read.ptr - line.data());
    if (read.ec != std::errc() || offset < 0 || digits >= line.size() || line[digits] != ' ' ||
        !is_digest(line.substr(digits + 1))) {
      return std::nullopt;
    }
    digests[offset] = line.substr(digits + 1);
  }
  return digests;
}

std::filesystem::path KeptDigests::file_of(const FileState& state) const {
  return folder_ / content_digest(std::as_bytes(std::span(state.path.data(), state.path.size())));
}

DigestsByPlace KeptDigests::find(const FileState& state) const {
  if (!enabled()) return {};
  return parse_kept_digests(read_text(file_of(state)), state).value_or(DigestsByPlace());
}

bool KeptDigests::keep(const FileState& state, const DigestsByPlace& digests) const {
  if (!enabled() || state.path.find('\n') != std::string::npos) return true;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return false;
  const FolderLock lock(folder_);
  DigestsByPlace all = find(state);
  all.insert(digests.begin(), digests.end());
  const std::filesystem::path file = file_of(state);
  std::string temporary = file.string() + ".XXXXXX";
  const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return false;
  bool good = write_all(descriptor, write_kept_digests(state, all));
  good = close(descriptor) == 0 && good;
  if (good) std::filesystem::rename(temporary, file, error);
  if (good && !error) return true;
  unlink(temporary.c_str());
  return false;
}

}  // namespace forerun
