#include "device/cuda/cuda_stream.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"
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
  constexpr const char* kDoing = "removing the overlap of a graph's kernels";
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

namespace {

// A capture in progress. Its destructor ends the capture if an exception leaves no graph.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {}
  ~Capture() {
    if (capturing_) (void)end();
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
    if (!good_) (void)cudaGetLastError();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  cudaError_t end() {
    capturing_ = false;
    return cudaStreamEndCapture(stream_, &graph_);
  }
  void is_good() { good_ = true; }
  cudaGraph_t graph() const { return graph_; }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool capturing_ = true;
  bool good_ = false;
};

}  // namespace

Result<Graph> Graph::capture(const Stream& stream, const std::function<Status()>& submit,
                             const std::function<Status(cudaGraph_t)>& edit) {
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
      "beginning to capture a graph");
  Capture capture(stream.get());
  const Status submitted = submit();
  const cudaError_t ended = capture.end();
  FORERUN_RETURN_IF_ERROR(submitted);
  FORERUN_RETURN_IF_ERROR(cuda_status(ended, "cudaStreamEndCapture", "capturing a graph"));
  if (edit) FORERUN_RETURN_IF_ERROR(edit(capture.graph()));
  Graph result;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGraphInstantiate(&result.exec_, capture.graph(), 0),
                               "instantiating a graph");
  capture.is_good();
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
