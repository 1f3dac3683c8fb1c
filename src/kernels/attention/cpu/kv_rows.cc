// Writes and moves rows of the paged cache.
#include <algorithm>
#include <cstring>

#include "kernels/attention/attention.h"
#include "kernels/attention/cpu/tile.h"

namespace forerun {
namespace {

void round_to(float x, float& to) { to = x; }
void round_to(float x, bf16& to) { to = to_bf16(x); }

template <class T>
void store_head(const float* k, const float* v, int32_t head_dim, std::byte* key,
                std::byte* value) {
  for (int32_t dim = 0; dim < head_dim; ++dim) round_to(v[dim], reinterpret_cast<T*>(value)[dim]);
  constexpr int32_t kPieceDims = kKeyPieceBytes / static_cast<int32_t>(sizeof(T));
  for (int32_t begin = 0; begin < head_dim; begin += kPieceDims) {
    const int32_t count = std::min(kPieceDims, head_dim - begin);
    for (int32_t dim = 0; dim < count; ++dim) {
      round_to(k[begin + dim], reinterpret_cast<T*>(key)[dim]);
    }
    key += kKeyGroup * kKeyPieceBytes;
  }
}

}  // namespace

void copy_key(const std::byte* from, std::byte* to, int64_t head_bytes) {
  for (int64_t done = 0; done < head_bytes; done += kKeyPieceBytes) {
    std::memcpy(to, from, kKeyPieceBytes);
    from += kKeyGroup * kKeyPieceBytes;
    to += kKeyGroup * kKeyPieceBytes;
  }
}

void append_kv_head(const float* k, const float* v, const AttentionRow& row, int32_t kv_head,
                    const PagedKv& kv) {
  const int32_t block = row.block_table[row.slot / kAttentionTile];
  std::byte* key = kv.key(block, row.slot % kAttentionTile, kv_head);
  std::byte* value = kv.value(block, row.slot % kAttentionTile, kv_head);
  const int64_t begin = static_cast<int64_t>(kv_head) * kv.head_dim;
  if (kv.dtype == DType::kF32) {
    store_head<float>(k + begin, v + begin, kv.head_dim, key, value);
  } else {
    store_head<bf16>(k + begin, v + begin, kv.head_dim, key, value);
  }
}

void copy_kv_head(const PagedKv& kv, int32_t kv_head, int32_t from_block, int32_t from_offset,
                  int32_t to_block, int32_t to_offset) {
  copy_key(kv.key(from_block, from_offset, kv_head), kv.key(to_block, to_offset, kv_head),
           kv.head_bytes());
  std::memcpy(kv.value(to_block, to_offset, kv_head), kv.value(from_block, from_offset, kv_head),
              static_cast<size_t>(kv.head_bytes()));
}

void copy_kv_slot(const PagedKv& kv, int32_t from_block, int32_t from_offset, int32_t to_block,
                  int32_t to_offset) {
  for (int32_t kv_head = 0; kv_head < kv.num_kv_heads; ++kv_head) {
    copy_kv_head(kv, kv_head, from_block, from_offset, to_block, to_offset);
  }
}

}  // namespace forerun
