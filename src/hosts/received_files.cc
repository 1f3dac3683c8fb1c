#include "hosts/received_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/status_macros.h"

namespace forerun {
namespace {

constexpr const char* kWayOut =
    "; accepted: a folder with room that this user may write to (--model-cache)";

// Returns a number that the system draws when it starts, or "unknown" if there is none. Then a
// comparison from before a start counts after it, too.
std::string boot_id() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  in >> id;
  const bool is_plain = !id.empty() && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-';
  });
  return is_plain ? id : "unknown";
}

bool write_all(int descriptor, std::span<const std::byte> from, int64_t offset) {
  while (!from.empty()) {
    const ssize_t count = pwrite(descriptor, from.data(), from.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    from = from.subspan(static_cast<size_t>(count));
    offset += count;
  }
  return true;
}

bool read_all(int descriptor, std::span<std::byte> to, int64_t offset) {
  while (!to.empty()) {
    const ssize_t count = pread(descriptor, to.data(), to.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    to = to.subspan(static_cast<size_t>(count));
    offset += count;
  }
  return true;
}

// Hosts that share a file system have lists of their own in the same folder.
std::string list_prefix() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host.fill('\0');
  std::string name = host.data();
  std::replace(name.begin(), name.end(), '/', '_');
  return std::string(kFilledFolderMark) + "-" + name + "-";
}

// A name of a file has at most 255 bytes, 65 of which the key takes.
constexpr size_t kMaxShownName = 120;

std::string megabytes(uint64_t bytes) { return std::to_string(bytes / 1'000'000) + " MB"; }

}  // namespace

ReceivedFiles::ReceivedFiles(std::filesystem::path folder, FileManifest manifest)
    : folder_(std::move(folder)),
      list_(folder_ / (list_prefix() + boot_id())),
      manifest_(std::move(manifest)) {
  for (const ManifestFile& file : manifest_.files) compared_.emplace_back(file.chunks(), false);
}

ReceivedFiles::ReceivedFiles(ReceivedFiles&& other) noexcept
    : folder_(std::move(other.folder_)),
      list_(std::move(other.list_)),
      manifest_(std::move(other.manifest_)),
      descriptors_(std::exchange(other.descriptors_, {})),
      list_descriptor_(std::exchange(other.list_descriptor_, -1)),
      compared_(std::move(other.compared_)) {}

ReceivedFiles::~ReceivedFiles() {
  for (const int descriptor : descriptors_) close(descriptor);
  if (list_descriptor_ >= 0) close(list_descriptor_);
}

Status ReceivedFiles::cannot_write(const std::filesystem::path& file, int error) const {
  return Status(StatusCode::kResourceExhausted,
                "copy of the model: " + file.string() + ": " + std::strerror(error) + kWayOut);
}

Result<ReceivedFiles> ReceivedFiles::open(const std::filesystem::path& cache,
                                          FileManifest manifest) {
  const std::string key = manifest_key(manifest);
  const std::string shown = manifest.name.substr(0, kMaxShownName);
  ReceivedFiles files(cache / (shown.empty() ? key : shown + "-" + key), std::move(manifest));
  FORERUN_RETURN_IF_ERROR(files.open_files());
  files.read_list();
  return files;
}

Status ReceivedFiles::open_files() {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return cannot_write(folder_, error.value());
  const auto open_one = [](const std::filesystem::path& path, int flags) {
    return ::open(path.c_str(), flags | O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  };
  // The mark comes first, so that nobody takes what is filled for a whole file.
  const std::filesystem::path mark = folder_ / kFilledFolderMark;
  const int marked = open_one(mark, 0);
  if (marked < 0) return cannot_write(mark, errno);
  close(marked);
  for (const ManifestFile& file : manifest_.files) {
    const std::filesystem::path path = folder_ / file.name;
    const int descriptor = open_one(path, 0);
    if (descriptor < 0) return cannot_write(path, errno);
    descriptors_.push_back(descriptor);
    struct stat about {};
    if (fstat(descriptor, &about) != 0) return cannot_write(path, errno);
    const auto bytes = static_cast<off_t>(file.bytes);
    if (about.st_size != bytes && ftruncate(descriptor, bytes) != 0) {
      return cannot_write(path, errno);
    }
  }
  list_descriptor_ = open_one(list_, O_APPEND);
  if (list_descriptor_ < 0) return cannot_write(list_, errno);
  return {};
}

namespace {

// An entry of the list. Processes add to it at the same time, each an entry by one write().
struct Entry {
  uint64_t file = 0;
  uint64_t chunk = 0;
};

}  // namespace

void ReceivedFiles::read_list() {
  std::ifstream in(list_, std::ios::binary);
  Entry entry;
  while (in.read(reinterpret_cast<char*>(&entry), sizeof entry)) {
    if (entry.file < compared_.size() && entry.chunk < compared_[entry.file].size()) {
      compared_[entry.file][entry.chunk] = true;
    }
  }
  // Lists of this machine's earlier starts say nothing any more.
  std::error_code error;
  for (const auto& other : std::filesystem::directory_iterator(folder_, error)) {
    const bool is_list = other.path().filename().string().starts_with(list_prefix());
    if (is_list && other.path() != list_) std::filesystem::remove(other.path(), error);
  }
}

// An entry that cannot be written costs another comparison.
void ReceivedFiles::note(const ChunkId& id) {
  compared_[id.file][id.chunk] = true;
  const Entry entry{id.file, id.chunk};
  static_cast<void>(!write(list_descriptor_, &entry, sizeof entry));
}

bool ReceivedFiles::matches(const ChunkId& id, std::vector<std::byte>& buffer) const {
  const ManifestFile& file = manifest_.files[id.file];
  const auto begin = static_cast<off_t>(id.chunk * kFileChunkBytes);
  const size_t size = chunk_bytes(file.bytes, id.chunk);
  // A hole is not worth a digest; a file system that knows none says that all is data.
  const off_t data = lseek(descriptors_[id.file], begin, SEEK_DATA);
  if (data < 0 ? errno == ENXIO : data >= begin + static_cast<off_t>(size)) return false;
  buffer.resize(size);
  if (!read_all(descriptors_[id.file], buffer, begin)) return false;
  const Sha256 digest = sha256(buffer);
  return std::equal(digest.begin(), digest.end(), file.digest(id.chunk).begin());
}

Status ReceivedFiles::check_room(std::span<const ChunkId> missing) const {
  uint64_t needed = 0;
  for (const ChunkId& id : missing) {
    needed += chunk_bytes(manifest_.files[id.file].bytes, id.chunk);
  }
  struct statvfs about {};
  if (statvfs(folder_.c_str(), &about) != 0) return {};
  const uint64_t free = uint64_t{about.f_bavail} * about.f_frsize;
  if (free >= needed) return {};
  return Status(StatusCode::kResourceExhausted, "copy of the model: " + folder_.string() +
                                                    ": found " + megabytes(free) + " of room for " +
                                                    megabytes(needed) + kWayOut);
}

Result<std::vector<ChunkId>> ReceivedFiles::find_missing(std::span<const ManifestRange> ranges) {
  FORERUN_RETURN_IF_ERROR(check_ranges(manifest_, ranges));
  std::vector<ChunkId> missing;
  std::vector<std::byte> buffer;
  for (const ChunkId& id : chunks_of(ranges)) {
    if (compared_[id.file][id.chunk]) continue;
    if (matches(id, buffer)) {
      note(id);
    } else {
      missing.push_back(id);
    }
  }
  FORERUN_RETURN_IF_ERROR(check_room(missing));
  return missing;
}

Status ReceivedFiles::add(const ChunkId& id, std::span<const std::byte> content) {
  FORERUN_RETURN_IF_ERROR(check_chunk(manifest_, id));
  const ManifestFile& file = manifest_.files[id.file];
  const Sha256 digest = sha256(content);
  if (content.size() != chunk_bytes(file.bytes, id.chunk) ||
      !std::equal(digest.begin(), digest.end(), file.digest(id.chunk).begin())) {
    return Status(StatusCode::kCorrupt, describe(manifest_, id) +
                                            ": found bytes with another digest than the "
                                            "coordinator's; accepted: what it has");
  }
  const auto offset = static_cast<int64_t>(id.chunk * kFileChunkBytes);
  if (!write_all(descriptors_[id.file], content, offset)) {
    return cannot_write(folder_ / file.name, errno);
  }
  note(id);
  return {};
}

void ReceivedFiles::doubt() {
  for (std::vector<bool>& file : compared_) file.assign(file.size(), false);
  static_cast<void>(!ftruncate(list_descriptor_, 0));
}

}  // namespace forerun
