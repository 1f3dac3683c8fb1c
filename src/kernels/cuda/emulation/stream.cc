// Streams of emulated kernels (device/cuda/cuda_stream.h), which have nothing left to do.
#include "device/cuda/cuda_stream.h"

namespace forerun::cuda {

Result<Stream> Stream::create() { return Stream(); }
Stream::~Stream() = default;
Status Stream::synchronize() const { return {}; }

}  // namespace forerun::cuda
