#include "checkpoint/read_ahead.h"

#include <algorithm>
#include <utility>

namespace forerun {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;

}  // namespace

ReadAhead::ReadAhead(std::vector<Bytes> tensors, int64_t window_bytes,
                     std::function<void(Bytes)> read)
    : tensors_(std::move(tensors)), read_(std::move(read)), window_bytes_(window_bytes) {
  for (const Bytes tensor : tensors_) {
    window_bytes_ = std::max(window_bytes_, 2 * static_cast<int64_t>(tensor.size()));
  }
  if (!tensors_.empty()) thread_ = std::thread([this] { run(); });
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ReadAhead::done(Bytes tensor) {
  size_t index = next_;
  while (index < tensors_.size() && tensors_[index].data() != tensor.data()) ++index;
  if (index == tensors_.size()) return;
  int64_t bytes = 0;
  for (; next_ <= index; ++next_) bytes += static_cast<int64_t>(tensors_[next_].size());
  {
    const std::lock_guard lock(mutex_);
    done_bytes_ += bytes;
  }
  changed_.notify_one();
}

void ReadAhead::run() {
  int64_t read_bytes = 0;
  for (const Bytes tensor : tensors_) {
    for (size_t begin = 0; begin < tensor.size(); begin += kPieceBytes) {
      const Bytes piece = tensor.subspan(begin, std::min(kPieceBytes, tensor.size() - begin));
      read_bytes += static_cast<int64_t>(piece.size());
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopped_ || read_bytes <= done_bytes_ + window_bytes_; });
        if (stopped_) return;
      }
      read_(piece);
    }
  }
}

}  // namespace forerun
