#include "model/kv_storage.h"

#include <sys/mman.h>

#include <string>
#include <utility>

namespace forerun {
namespace {

PagedKv layer_shape(const ModelConfig& config, int64_t num_kv_heads, DType dtype) {
  PagedKv kv;
  kv.dtype = dtype;
  kv.num_kv_heads = static_cast<int32_t>(num_kv_heads);
  kv.head_dim = config.head_dim;
  return kv;
}

}  // namespace

int64_t kv_block_bytes(const ModelConfig& config, int32_t num_layers, int64_t num_kv_heads,
                       DType dtype) {
  return num_layers * layer_shape(config, num_kv_heads, dtype).layer_bytes();
}

KvStorage::~KvStorage() {
  if (data_ != nullptr) munmap(data_, reserved_bytes_);
}

KvStorage::KvStorage(KvStorage&& other) noexcept { *this = std::move(other); }

KvStorage& KvStorage::operator=(KvStorage&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(reserved_bytes_, other.reserved_bytes_);
  std::swap(num_blocks_, other.num_blocks_);
  std::swap(block_bytes_, other.block_bytes_);
  std::swap(num_layers_, other.num_layers_);
  std::swap(first_layer_, other.first_layer_);
  return *this;
}

Result<KvStorage> KvStorage::create(const ModelConfig& config, int32_t num_layers,
                                    int64_t num_kv_heads, DType dtype, int64_t num_blocks) {
  KvStorage storage;
  storage.num_blocks_ = num_blocks;
  storage.num_layers_ = num_layers;
  storage.block_bytes_ = kv_block_bytes(config, num_layers, num_kv_heads, dtype);
  storage.reserved_bytes_ = static_cast<size_t>(storage.block_bytes_ * num_blocks);
  storage.first_layer_ = layer_shape(config, num_kv_heads, dtype);
  if (storage.reserved_bytes_ == 0) return storage;
  void* memory = mmap(nullptr, storage.reserved_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return Status(StatusCode::kResourceExhausted,
                  "KV cache: cannot reserve " + std::to_string(storage.reserved_bytes_) +
                      " bytes of address space for " + std::to_string(num_blocks) + " blocks of " +
                      std::to_string(storage.block_bytes_) + " bytes");
  }
  storage.data_ = static_cast<std::byte*>(memory);
  // A head's tile takes 16 KiB, so with 4 KiB pages a long context would cost many page-table
  // walks.
  madvise(memory, storage.reserved_bytes_, MADV_HUGEPAGE);
  storage.first_layer_.data = storage.data_;
  storage.first_layer_.block_stride_bytes = storage.block_bytes_;
  return storage;
}

PagedKv KvStorage::layer(int32_t layer_idx) const {
  PagedKv kv = first_layer_;
  kv.data += layer_idx * kv.layer_bytes();
  return kv;
}

void KvStorage::copy_slot(int32_t from_block, int32_t from_offset, int32_t to_block,
                          int32_t to_offset) {
  for (int32_t layer_idx = 0; layer_idx < num_layers_; ++layer_idx) {
    copy_kv_slot(layer(layer_idx), from_block, from_offset, to_block, to_offset);
  }
}

}  // namespace forerun
