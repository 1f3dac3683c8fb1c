#include "device/cuda/cuda_stream.h"

#include <algorithm>
#include <vector>

#include "device/cuda/cuda_error.h"

namespace forerun::cuda {

Result<Stream> Stream::create() {
  Stream stream;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&stream.stream_, cudaStreamNonBlocking),
                               "creating a stream");
  return stream;
}

Stream::~Stream() {
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}

Status Stream::synchronize() const {
  FORERUN_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream_), "waiting for a stream's work");
  return {};
}

Result<Event> Event::create() {
  Event event;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaEventCreate(&event.event_), "creating an event");
  return event;
}

Event::~Event() {
  if (event_ != nullptr) (void)cudaEventDestroy(event_);
}

Status Event::record(const Stream& stream) const {
  FORERUN_CUDA_RETURN_IF_ERROR(cudaEventRecord(event_, stream.get()), "recording an event");
  return {};
}

Status Event::synchronize() const {
  FORERUN_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(event_), "waiting for an event");
  return {};
}

Result<float> Event::elapsed_ms(const Event& start) const {
  float ms = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaEventElapsedTime(&ms, start.event_, event_),
                               "reading the time between two events");
  return ms;
}

Status one_kernel_at_a_time(cudaGraph_t graph) {
  constexpr const char* kDoing = "taking the overlap out of a graph";
  size_t count = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count), kDoing);
  std::vector<cudaGraphNode_t> from(count);
  std::vector<cudaGraphNode_t> to(count);
  std::vector<cudaGraphEdgeData> kinds(count);
  if (count == 0) return {};
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaGraphGetEdges(graph, from.data(), to.data(), kinds.data(), &count), kDoing);
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaGraphRemoveDependencies(graph, from.data(), to.data(), kinds.data(), count), kDoing);
  std::fill(kinds.begin(), kinds.end(), cudaGraphEdgeData{});
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaGraphAddDependencies(graph, from.data(), to.data(), kinds.data(), count), kDoing);
  return {};
}

Result<Graph> Graph::capture(const Stream& stream, const std::function<Status()>& submit,
                             const std::function<Status(cudaGraph_t)>& edit) {
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
      "beginning to capture a graph");
  const Status submitted = submit();
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream.get(), &graph);
  if (!submitted.ok() || ended != cudaSuccess) {
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    return submitted.ok() ? cuda_status(ended, "cudaStreamEndCapture", "capturing a graph")
                          : submitted;
  }
  Graph result;
  const Status edited = edit ? edit(graph) : Status();
  const cudaError_t built =
      edited.ok() ? cudaGraphInstantiate(&result.exec_, graph, 0) : cudaSuccess;
  (void)cudaGraphDestroy(graph);
  FORERUN_RETURN_IF_ERROR(edited);
  FORERUN_RETURN_IF_ERROR(cuda_status(built, "cudaGraphInstantiate", "instantiating a graph"));
  return result;
}

Graph::~Graph() {
  if (exec_ != nullptr) (void)cudaGraphExecDestroy(exec_);
}

Status Graph::launch(const Stream& stream) const {
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGraphLaunch(exec_, stream.get()), "launching a graph");
  return {};
}

}  // namespace forerun::cuda
