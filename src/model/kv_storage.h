// The memory of a paged KV cache on the host: address space for all blocks. The system allocates
// pages when they are first written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/model_config.h"
#include "forerun/status.h"
#include "kernels/attention/attention.h"

namespace forerun {

// Returns the bytes of one block, K and V of `num_layers` layers, for `num_kv_heads` heads with
// elements of `dtype` (kBf16 or kF32).
int64_t kv_block_bytes(const ModelConfig& config, int32_t num_layers, int64_t num_kv_heads,
                       DType dtype);

// The storage of KV blocks. Blocks lie one after another, each with all its layers, so a sequence
// touches memory in the order in which it got its blocks. Movable; not thread-safe beyond what
// PagedKv is.
class KvStorage {
 public:
  KvStorage() = default;
  ~KvStorage();
  KvStorage(KvStorage&& other) noexcept;
  KvStorage& operator=(KvStorage&& other) noexcept;

  // Creates storage for `num_layers` of the model's layers and `num_kv_heads` of its KV heads;
  // either may be 0. Only reserves address space; fails if the system refuses even that.
  static Result<KvStorage> create(const ModelConfig& config, int32_t num_layers,
                                  int64_t num_kv_heads, DType dtype, int64_t num_blocks);

  int64_t num_blocks() const { return num_blocks_; }
  int64_t block_bytes() const { return block_bytes_; }
  PagedKv layer(int32_t layer_idx) const;  // layer_idx counts its own layers, from 0
  // Copies the KV of one slot to another, in all layers.
  void copy_slot(int32_t from_block, int32_t from_offset, int32_t to_block, int32_t to_offset);

 private:
  std::byte* data_ = nullptr;
  size_t reserved_bytes_ = 0;
  int64_t num_blocks_ = 0;
  int64_t block_bytes_ = 0;
  int32_t num_layers_ = 0;
  PagedKv first_layer_;
};

}  // namespace forerun
