// Reads mapped tensors from their files ahead of a thread that converts one after the other, so
// that the disk works while it does.
//
// A thread of its own reads the tensors in their order, a few megabytes at a time, and stays at
// most `window_bytes` (or twice the largest tensor, where that is more) ahead of the end of the
// last tensor that is done. Pages that are in memory already cost little.
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

  // `tensors`: parts of mapped files, which must outlive this. `read` is called on the thread for
  // one piece of a tensor after the other.
  ReadAhead(std::vector<Bytes> tensors, int64_t window_bytes, std::function<void(Bytes)> read);
  // Waits for the piece that is being read.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The tensor and all before it are done. One that is not in the list changes nothing. Called by
  // one thread.
  void done(Bytes tensor);

 private:
  void run();

  const std::vector<Bytes> tensors_;
  const std::function<void(Bytes)> read_;
  int64_t window_bytes_;
  size_t next_ = 0;  // the first tensor that is not done
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t done_bytes_ = 0;  // guarded by mutex_
  bool stopped_ = false;    // guarded by mutex_
  std::thread thread_;      // last: it uses the members above
};

}  // namespace forerun
