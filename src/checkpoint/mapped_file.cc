#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>

#include "base/file_chunks.h"

namespace forerun {
namespace {

Status failure(const std::filesystem::path& path, int error) {
  const StatusCode code = error == ENOMEM ? StatusCode::kResourceExhausted : StatusCode::kNotFound;
  return Status(code, path.string() + ": " + std::strerror(error));
}

bool advise_pages(std::span<const std::byte> bytes, int advice) {
  if (bytes.empty()) return true;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(bytes.data()) & ~(page - 1);
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size());
  // This is only advice: if the kernel declines, callers see no difference.
  return madvise(reinterpret_cast<void*>(begin), end - begin, advice) == 0;
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Opening a FIFO would block until somebody writes into it.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failure(path, errno);
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    const int error = errno;
    close(fd);
    return failure(path, error);
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return Status(StatusCode::kInvalidArgument, path.string() + ": not a regular file");
  }
  const auto length = static_cast<size_t>(info.st_size);
  std::span<const std::byte> bytes;
  if (length > 0) {
    void* const address = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      close(fd);
      return failure(path, error);
    }
    bytes = {static_cast<const std::byte*>(address), length};
  }
  // Chunks that are filled in are not read before.
  std::error_code error;
  std::optional<timespec> written = info.st_mtim;
  if (std::filesystem::exists(path.parent_path() / kFilledFolderMark, error)) written.reset();
  return MappedFile(path, bytes, MappedRange::add(bytes, path.string(), fd, written));
}

MappedFile::~MappedFile() {
  if (range_ != nullptr) MappedRange::remove(range_);
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void drop_mapped_pages(std::span<const std::byte> bytes) { advise_pages(bytes, MADV_DONTNEED); }

void read_ahead_mapped_pages(std::span<const std::byte> bytes) {
  advise_pages(bytes, MADV_WILLNEED);
}

// With MADV_SEQUENTIAL Linux reads large folios, which takes a tenth of the CPU time of the single
// pages that MADV_WILLNEED reads.
void read_mapped_pages(std::span<const std::byte> bytes) {
#if defined(MADV_POPULATE_READ)
  advise_pages(bytes, MADV_SEQUENTIAL);
  if (advise_pages(bytes, MADV_POPULATE_READ)) return;
#endif
  read_ahead_mapped_pages(bytes);  // the kernel is older than Linux 5.14
}

}  // namespace forerun
