#include "model/gpu_need.h"

#include <algorithm>
#include <string>

namespace forerun {
namespace {

std::string megabytes(int64_t bytes) { return std::to_string((bytes + 999999) / 1000000) + " MB"; }

std::string describe(const GpuNeed& need) {
  std::string text = "cuda:" + std::to_string(need.gpu) + ": weights " +
                     megabytes(need.weight_bytes) + ", buffers " + megabytes(need.buffer_bytes);
  if (need.kv_tokens > 0) {
    text +=
        ", KV cache of " + std::to_string(need.kv_tokens) + " tokens " + megabytes(need.kv_bytes);
  }
  return text + ", free are " + megabytes(std::max<int64_t>(need.free_bytes, 0));
}

}  // namespace

Status check_gpu_needs(std::span<const GpuNeed> needs) {
  const bool fits = std::all_of(needs.begin(), needs.end(), [](const GpuNeed& need) {
    return need.bytes() <= need.free_bytes;
  });
  if (fits) return {};
  std::string message;
  for (const GpuNeed& need : needs) message += (message.empty() ? "" : "; ") + describe(need);
  return {StatusCode::kResourceExhausted, message};
}

}  // namespace forerun
