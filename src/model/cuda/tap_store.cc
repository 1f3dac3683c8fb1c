#include "model/cuda/tap_store.h"

#include "base/status_macros.h"

namespace forerun::cuda {

Result<TapStoreCuda> TapStoreCuda::allocate(const TapOptions& options, int64_t hidden_size) {
  TapStoreCuda store;
  if (options.after_layers.empty()) return store;
  store.options_ = options;
  store.hidden_size_ = hidden_size;
  FORERUN_ASSIGN_OR_RETURN(
      store.rows_, DeviceBuffer::allocate(static_cast<size_t>(bytes_of(options, hidden_size)),
                                          "the store of taps"));
  return store;
}

Status TapStoreCuda::download(int32_t place, std::span<bf16> row) const {
  return rows_.download(std::as_writable_bytes(row),
                        static_cast<size_t>(place * width()) * sizeof(bf16));
}

}  // namespace forerun::cuda
