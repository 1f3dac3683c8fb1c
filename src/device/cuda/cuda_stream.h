// Owned streams, events and graphs.
//
// An object belongs to the device that was current at its creation, and may be used only while that
// device is current. It is movable, not copyable. Only one thread at a time may use it.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <utility>

#include "forerun/status.h"

namespace forerun::cuda {

// A non-blocking stream (no implicit ordering with the default stream).
class Stream {
 public:
  static Result<Stream> create();
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream();

  cudaStream_t get() const { return stream_; }
  // Waits for all work submitted to the stream and reports the first failure.
  Status synchronize() const;

 private:
  Stream() = default;
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  static Result<Event> create();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event();

  cudaEvent_t get() const { return event_; }
  Status record(const Stream& stream) const;
  Status synchronize() const;
  // Returns the device time from `start` to this event, both recorded and completed.
  Result<float> elapsed_ms(const Event& start) const;

 private:
  Event() = default;
  cudaEvent_t event_ = nullptr;
};

// Removes the overlap of programmatic dependent launch, as an `edit` for Graph::capture(): every
// kernel then starts after the previous kernel has ended.
Status one_kernel_at_a_time(cudaGraph_t graph);

// An instantiated graph. One host call launches it.
class Graph {
 public:
  // Captures the work that `submit` puts on `stream`, without running it. If `submit` fails,
  // returns its error; the stream is usable again. Programmatic dependent launches become
  // programmatic edges of the graph. `edit`, if given, may change the graph before its
  // instantiation.
  static Result<Graph> capture(const Stream& stream, const std::function<Status()>& submit,
                               const std::function<Status(cudaGraph_t)>& edit = nullptr);
  Graph(Graph&& other) noexcept : exec_(std::exchange(other.exec_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(exec_, other.exec_);
    return *this;
  }
  ~Graph();

  Status launch(const Stream& stream) const;

 private:
  Graph() = default;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace forerun::cuda
