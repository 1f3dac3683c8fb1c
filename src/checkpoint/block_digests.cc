#include "checkpoint/block_digests.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "base/log.h"

namespace forerun {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

using Digest = std::function<std::string(std::span<const std::byte>)>;

class BlockReader {
 public:
  BlockReader(std::span<const FileBlock> blocks, const Digest& digest)
      : blocks_(blocks), digest_(digest), digests_(blocks.size()) {}

  Result<std::vector<std::string>> run(int32_t threads,
                                       const std::function<void(double)>& progress) {
    std::vector<std::thread> others;
    const auto max_threads = static_cast<int32_t>(std::min<size_t>(blocks_.size(), 16));
    for (int32_t idx = 1; idx < std::min(threads, max_threads); ++idx) {
      others.emplace_back([this] { work(nullptr); });
    }
    work(&progress);
    for (std::thread& other : others) other.join();
    if (failure_ != nullptr) return *failure_;
    return std::move(digests_);
  }

 private:
  void work(const std::function<void(double)>* progress) {
    std::vector<std::byte> buffer;
    while (!failed_) {
      const size_t idx = next_.fetch_add(1);
      if (idx >= blocks_.size()) return;
      const FileBlock& block = blocks_[idx];
      buffer.resize(std::max(buffer.size(), static_cast<size_t>(block.size)));
      const std::span<std::byte> bytes(buffer.data(), static_cast<size_t>(block.size));
      if (const Status read = block.file->read(block.offset, bytes); !read.ok()) {
        if (!failed_.exchange(true)) failure_ = std::make_unique<Status>(read);
        return;
      }
      digests_[idx] = digest_(bytes);
      if (progress != nullptr && *progress) {
        (*progress)(static_cast<double>(idx + 1) / static_cast<double>(blocks_.size()));
      }
    }
  }

  const std::span<const FileBlock> blocks_;
  const Digest& digest_;
  std::vector<std::string> digests_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::unique_ptr<Status> failure_;  // failure of the thread that failed first
};

}  // namespace

DigestedFile::DigestedFile(const std::filesystem::path& path, const KeptDigests& kept_digests)
    : file(path) {
  if (!file.status().ok()) return;
  state = state_of_file(path, file.descriptor());
  if (state) kept = kept_digests.find(*state);
}

bool DigestedFile::keep_made(const KeptDigests& kept_digests) const {
  if (made.empty() || !state || !is_settled(*state, now_ns())) return true;
  if (state_of_file(file.path(), file.descriptor()) != state) return true;
  return kept_digests.keep(*state, made);
}

void tell_digests_not_kept() {
  log_line(LogLevel::kInfo, "digests of weights are not kept: their folder cannot be written to");
}

Result<std::vector<std::string>> digest_blocks(std::span<const FileBlock> blocks, int32_t threads,
                                               const std::function<void(double)>& progress,
                                               const Digest& digest) {
  return BlockReader(blocks, digest).run(threads, progress);
}

}  // namespace forerun
