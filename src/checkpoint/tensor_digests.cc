#include "checkpoint/tensor_digests.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/content_digest.h"
#include "checkpoint/kept_digests.h"

namespace forerun {
namespace {

// Part of the digest's definition: the digest of a tensor is the digest of its blocks' digests.
constexpr int64_t kBlockBytes = int64_t{4} << 20;

class OpenFile {
 public:
  explicit OpenFile(std::filesystem::path path)
      : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) {
      status_ = Status(StatusCode::kNotFound, path_.string() + ": " + std::strerror(errno));
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  const Status& status() const { return status_; }
  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }

  Status read(int64_t offset, std::span<std::byte> to) const {
    while (!to.empty()) {
      const ssize_t count = pread(descriptor_, to.data(), to.size(), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        return Status(
            StatusCode::kCorrupt,
            path_.string() + ": " +
                (count < 0 ? std::strerror(errno) : "it has become shorter since it was opened"));
      }
      to = to.subspan(static_cast<size_t>(count));
      offset += count;
    }
    return {};
  }

 private:
  const std::filesystem::path path_;
  const int descriptor_;
  Status status_;
};

struct OpenedFile {
  explicit OpenedFile(const std::filesystem::path& path) : file(path) {}
  OpenFile file;
  std::optional<FileState> state;
  DigestsByPlace kept;
  DigestsByPlace made;
};

struct Block {
  size_t tensor = 0;  // index among the tensors to read
  const OpenFile* file = nullptr;
  int64_t offset = 0;
  int64_t size = 0;
};

// A reader that digests blocks on several threads. run() returns the first failure of any thread.
class BlockReader {
 public:
  explicit BlockReader(const std::vector<Block>& blocks)
      : blocks_(blocks), digests_(blocks.size()) {}

  Status run(int32_t threads, const std::function<void(double)>& progress) {
    std::vector<std::thread> others;
    const auto max_threads = static_cast<int32_t>(std::min<size_t>(blocks_.size(), 16));
    for (int32_t idx = 1; idx < std::min(threads, max_threads); ++idx) {
      others.emplace_back([this] { work(nullptr); });
    }
    work(&progress);
    for (std::thread& other : others) other.join();
    return failure_ == nullptr ? Status() : *failure_;
  }
  const std::string& digest(size_t block) const { return digests_[block]; }

 private:
  void work(const std::function<void(double)>* progress) {
    std::vector<std::byte> buffer(static_cast<size_t>(kBlockBytes));
    while (!failed_) {
      const size_t idx = next_.fetch_add(1);
      if (idx >= blocks_.size()) return;
      const Block& block = blocks_[idx];
      const std::span<std::byte> bytes(buffer.data(), static_cast<size_t>(block.size));
      if (const Status read = block.file->read(block.offset, bytes); !read.ok()) {
        if (!failed_.exchange(true)) failure_ = std::make_unique<Status>(read);
        return;
      }
      digests_[idx] = content_digest(bytes);
      if (progress != nullptr && *progress) {
        (*progress)(static_cast<double>(idx + 1) / static_cast<double>(blocks_.size()));
      }
    }
  }

  const std::vector<Block>& blocks_;
  std::vector<std::string> digests_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::unique_ptr<Status> failure_;  // of the thread that failed first
};

std::string joined_digest(const std::vector<std::string>& of_blocks) {
  std::string all;
  for (const std::string& digest : of_blocks) all += digest;
  return content_digest(std::as_bytes(std::span(all.data(), all.size())));
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

using Files = std::map<std::filesystem::path, std::unique_ptr<OpenedFile>>;

Result<OpenedFile*> open_once(const std::filesystem::path& path, const KeptDigests& kept,
                              Files& files) {
  std::unique_ptr<OpenedFile>& file = files[path];
  if (file != nullptr) return file.get();
  file = std::make_unique<OpenedFile>(path);
  FORERUN_RETURN_IF_ERROR(file->file.status());
  file->state = state_of_file(path, file->file.descriptor());
  if (file->state) file->kept = kept.find(*file->state);
  return file.get();
}

// Keeps new digests for later starts. Skips a file that changed during reading, or just before: its
// next change might have the same time.
void keep_all(const KeptDigests& kept, const Files& files) {
  bool good = true;
  for (const auto& [path, file] : files) {
    if (file->made.empty() || !file->state) continue;
    if (!is_settled(*file->state, now_ns())) continue;
    if (state_of_file(path, file->file.descriptor()) != file->state) continue;
    good = kept.keep(*file->state, file->made) && good;
  }
  if (!good)
    log_line(LogLevel::kInfo, "digests of weights are not kept: their folder cannot be written to");
}

}  // namespace

Result<TensorDigests> digest_tensors(const Checkpoint& checkpoint,
                                     std::span<const RawTensor* const> tensors,
                                     const DigestOptions& options) {
  const KeptDigests kept(options.folder);
  Files files;
  TensorDigests result;
  result.tensors.resize(tensors.size());
  std::vector<Block> blocks;
  std::vector<std::pair<OpenedFile*, int64_t>> to_keep(tensors.size());
  for (size_t idx = 0; idx < tensors.size(); ++idx) {
    const RawTensor& tensor = *tensors[idx];
    const std::filesystem::path& path = checkpoint.file_of(tensor);
    const int64_t offset = checkpoint.offset_of(tensor);
    const auto size = static_cast<int64_t>(tensor.bytes.size());
    FORERUN_ASSIGN_OR_RETURN(OpenedFile* const file, open_once(path, kept, files));
    result.tensors[idx].file = path.filename().string();
    const auto found = file->kept.find(offset);
    if (found != file->kept.end() && size > 0) {
      result.tensors[idx].digest = found->second;
      continue;
    }
    if (size > 0) to_keep[idx] = {file, offset};
    result.read_bytes += size;
    for (int64_t at = 0; at < size; at += kBlockBytes) {
      blocks.push_back({.tensor = idx,
                        .file = &file->file,
                        .offset = offset + at,
                        .size = std::min(kBlockBytes, size - at)});
    }
  }
  BlockReader reader(blocks);
  FORERUN_RETURN_IF_ERROR(reader.run(options.threads, options.progress));
  std::vector<std::string> of_blocks;
  for (size_t idx = 0, block = 0; idx < tensors.size(); ++idx) {
    std::string& digest = result.tensors[idx].digest;
    if (!digest.empty()) continue;
    of_blocks.clear();
    for (; block < blocks.size() && blocks[block].tensor == idx; ++block) {
      of_blocks.push_back(reader.digest(block));
    }
    digest = joined_digest(of_blocks);
    const auto& [file, offset] = to_keep[idx];
    if (file != nullptr) file->made[offset] = digest;
  }
  keep_all(kept, files);
  return result;
}

}  // namespace forerun
