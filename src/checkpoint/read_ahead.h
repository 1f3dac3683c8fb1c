// A reader of mapped tensors that runs ahead of a thread which converts them one by one, so that
// the disk and the conversion work at the same time.
//
// Its own thread reads the tensors in order, a few megabytes at a time, and stays at most
// `window_bytes` (or twice the largest tensor, if that is more) ahead of the end of the last
// finished tensor. Pages that are in memory already cost little.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace forerun {

class ReadAhead {
 public:
  using Bytes = std::span<const std::byte>;

  // `tensors` are parts of mapped files, which must outlive this object. The thread calls `read`
  // with the consecutive pieces of each tensor.
  ReadAhead(std::vector<Bytes> tensors, int64_t window_bytes, std::function<void(Bytes)> read);
  // Waits for the piece in progress.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Records that the tensor and all before it are finished. A tensor that is not in the list
  // changes nothing. Only one thread may call it.
  void done(Bytes tensor);

 private:
  void run();

  const std::vector<Bytes> tensors_;
  const std::function<void(Bytes)> read_;
  int64_t window_bytes_;
  size_t next_ = 0;  // first unfinished tensor
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t done_bytes_ = 0;  // guarded by mutex_
  bool stopped_ = false;    // guarded by mutex_
  std::thread thread_;      // the last member, because it uses the others
};

}  // namespace forerun
