#include "kernels/pq_index/pq_index.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "kernels/pq_index/cpu/nearest.h"

namespace forerun {
namespace {

constexpr int32_t kPieceFloats = kKeyPieceBytes / static_cast<int32_t>(sizeof(float));
constexpr int32_t kMaxKeys = 2048;  // keys in scratch memory at a time, and samples for k-means
constexpr int32_t kIterations = 4;
static_assert(kKeyPieceBytes >= kPqSubVectors);
static_assert(kMaxKeys % kNearestKeys == 0);
// Padded, because dimensions a power of two apart would compete for the same few cache sets.
constexpr int32_t kKeyStride = kMaxKeys + kNearestKeys;

// Returns the number of pieces of a head's row without padding, in bf16; f32 has twice as many.
int32_t pieces_of_row(int32_t head_dim) {
  assert(head_dim >= 8);
  return head_dim / 8;
}
int32_t pieces_of_block(int32_t head_dim) { return 2 * kAttentionTile * pieces_of_row(head_dim); }
int32_t centroid_pieces(int32_t head_dim) { return head_dim * kPqCentroids / kPieceFloats; }

int32_t dims_of_sub_vector(int32_t head_dim) {
  return (head_dim + kPqSubVectors - 1) / kPqSubVectors;
}
int32_t sub_vectors(int32_t head_dim) {
  const int32_t dims = dims_of_sub_vector(head_dim);
  return (head_dim + dims - 1) / dims;
}

struct Dims {
  int32_t begin, end;
};
Dims dims_of(int32_t sub, int32_t head_dim) {
  const int32_t dims = dims_of_sub_vector(head_dim);
  return {sub * dims, std::min((sub + 1) * dims, head_dim)};
}

// Calls f(i, piece) for pieces first + i of the index, 0 <= i < count, across rows and blocks.
template <class F>
void for_pieces(const PagedKv& kv, int32_t kv_head, const PqIndex& index, int32_t first,
                int32_t count, F f) {
  const int32_t row_pieces = pieces_of_row(kv.head_dim);
  for (int32_t done = 0; done < count;) {
    const int32_t row = (first + done) / row_pieces;
    const int32_t in_row = (first + done) % row_pieces;
    const int32_t block = index.blocks[row / (2 * kAttentionTile)];
    const int32_t slot = row % kAttentionTile;
    const bool is_key = row / kAttentionTile % 2 == 0;
    const int32_t step = is_key ? kKeyGroup * kKeyPieceBytes : kKeyPieceBytes;
    std::byte* piece =
        (is_key ? kv.key(block, slot, kv_head) : kv.value(block, slot, kv_head)) + in_row * step;
    const int32_t end = std::min(done + row_pieces - in_row, count);
    for (; done < end; ++done, piece += step) f(done, piece);
  }
}

template <class T>
void read_elements(const T* key, int32_t head_dim, float* out) {
  constexpr auto kPiece = static_cast<int32_t>(kKeyPieceBytes / sizeof(T));
  for (int32_t first = 0; first < head_dim; first += kPiece) {
    for (int32_t dim = first; dim < std::min(first + kPiece, head_dim); ++dim) {
      const T x = key[first * kKeyGroup + dim - first];
      if constexpr (sizeof(T) == sizeof(float)) {
        out[int64_t{dim} * kKeyStride] = x;
      } else {
        out[int64_t{dim} * kKeyStride] = to_float(x);
      }
    }
  }
}

// Reads a key into a column of PqScratch::keys.
void read_key(const PagedKv& kv, int32_t kv_head, const int32_t* table, int32_t token, float* out) {
  const std::byte* const key =
      kv.key(table[token / kAttentionTile], token % kAttentionTile, kv_head);
  if (kv.dtype == DType::kF32) {
    read_elements(reinterpret_cast<const float*>(key), kv.head_dim, out);
  } else {
    read_elements(reinterpret_cast<const bf16*>(key), kv.head_dim, out);
  }
}

void load_centroids(const PagedKv& kv, int32_t kv_head, const PqIndex& index, float* centroids) {
  for_pieces(kv, kv_head, index, 0, centroid_pieces(kv.head_dim),
             [centroids](int32_t i, const std::byte* piece) {
               std::memcpy(centroids + i * kPieceFloats, piece, kKeyPieceBytes);
             });
}

void store_centroids(const PagedKv& kv, int32_t kv_head, const PqIndex& index,
                     const float* centroids) {
  for_pieces(kv, kv_head, index, 0, centroid_pieces(kv.head_dim),
             [centroids](int32_t i, std::byte* piece) {
               std::memcpy(piece, centroids + i * kPieceFloats, kKeyPieceBytes);
             });
}

float* row_of(std::vector<float>& rows, int32_t row) {
  return rows.data() + int64_t{row} * kPqCentroids;
}

// Returns one dimension of the keys in scratch memory.
float* keys_of(PqScratch& mem, int32_t dim) { return mem.keys.data() + int64_t{dim} * kKeyStride; }

void set_half_norms(PqScratch& mem, int32_t sub, int32_t head_dim) {
  float* const norms = row_of(mem.half_norms, sub);
  std::fill_n(norms, kPqCentroids, 0.0f);
  const Dims dims = dims_of(sub, head_dim);
  for (int32_t dim = dims.begin; dim < dims.end; ++dim) {
    const float* const centroids = row_of(mem.centroids, dim);
    for (int32_t c = 0; c < kPqCentroids; ++c) norms[c] += 0.5f * centroids[c] * centroids[c];
  }
}

// Returns the codes of one sub-vector of the keys in mem.keys.
uint8_t* nearest_of(PqScratch& mem, int32_t sub) {
  return mem.nearest.data() + int64_t{sub} * kMaxKeys;
}

// Finds the nearest centroids of the first `count` keys of mem.keys, and of the keys after them up
// to a multiple of kNearestKeys.
void find_nearest(PqScratch& mem, int32_t sub, int32_t count, int32_t head_dim) {
  const Dims dims = dims_of(sub, head_dim);
  nearest_kernel()({.centroids = row_of(mem.centroids, dims.begin),
                    .half_norms = row_of(mem.half_norms, sub),
                    .keys = keys_of(mem, dims.begin),
                    .key_stride = kKeyStride,
                    .dims = dims.end - dims.begin,
                    .count = (count + kNearestKeys - 1) / kNearestKeys * kNearestKeys,
                    .codes = nearest_of(mem, sub)});
}

// Finds centroids by Lloyd's iterations of k-means, starting from evenly spaced keys. A centroid
// without near keys does not move.
void find_centroids(PqScratch& mem, int32_t sub, int32_t samples, int32_t head_dim) {
  const Dims dims = dims_of(sub, head_dim);
  for (int32_t dim = dims.begin; dim < dims.end; ++dim) {
    for (int32_t c = 0; c < kPqCentroids; ++c) {
      const int64_t sample = int64_t{c} * samples / kPqCentroids;
      row_of(mem.centroids, dim)[c] = keys_of(mem, dim)[sample];
    }
  }
  for (int32_t iteration = 0; iteration < kIterations; ++iteration) {
    set_half_norms(mem, sub, head_dim);
    find_nearest(mem, sub, samples, head_dim);
    const uint8_t* const nearest = nearest_of(mem, sub);
    std::array<int32_t, kPqCentroids> counts = {};
    for (int32_t sample = 0; sample < samples; ++sample) ++counts[nearest[sample]];
    for (int32_t dim = dims.begin; dim < dims.end; ++dim) {
      const float* const keys = keys_of(mem, dim);
      std::array<float, kPqCentroids> sums = {};
      for (int32_t sample = 0; sample < samples; ++sample) sums[nearest[sample]] += keys[sample];
      float* const centroids = row_of(mem.centroids, dim);
      for (size_t c = 0; c < kPqCentroids; ++c) {
        if (counts[c] > 0) centroids[c] = sums[c] / static_cast<float>(counts[c]);
      }
    }
  }
}

// Computes the query's score with every centroid; it is 0 for sub-vectors that do not exist.
void set_table(PqScratch& mem, const float* query, float scale, int32_t head_dim) {
  std::fill(mem.table.begin(), mem.table.end(), 0.0f);
  for (int32_t sub = 0; sub < sub_vectors(head_dim); ++sub) {
    float* const of_sub = row_of(mem.table, sub);
    const Dims dims = dims_of(sub, head_dim);
    for (int32_t dim = dims.begin; dim < dims.end; ++dim) {
      const float* const centroids = row_of(mem.centroids, dim);
      const float x = query[dim] * scale;
      for (int32_t c = 0; c < kPqCentroids; ++c) of_sub[c] += x * centroids[c];
    }
  }
}

void build(const PagedKv& kv, int32_t kv_head, const int32_t* table, int32_t tokens,
           PqScratch& mem) {
  const int32_t samples = std::min(tokens, kMaxKeys);
  for (int32_t sample = 0; sample < samples; ++sample) {
    const auto token = static_cast<int32_t>(int64_t{sample} * tokens / samples);
    read_key(kv, kv_head, table, token, mem.keys.data() + sample);
  }
  for (int32_t sub = 0; sub < sub_vectors(kv.head_dim); ++sub) {
    find_centroids(mem, sub, samples, kv.head_dim);
  }
}

}  // namespace

int32_t pq_index_blocks(int32_t tokens, int32_t head_dim) {
  const int32_t a_block = pieces_of_block(head_dim);
  return (centroid_pieces(head_dim) + tokens + a_block - 1) / a_block;
}

void PqScratch::reserve(int32_t head_dim, int32_t tokens) {
  const auto dims = static_cast<size_t>(head_dim);
  centroids.resize(dims * kPqCentroids);
  half_norms.resize(kPqSubVectors * kPqCentroids);
  keys.resize(dims * kKeyStride);
  nearest.resize(kPqSubVectors * kMaxKeys);
  codes.resize(static_cast<size_t>(tokens) * kPqSubVectors);
  table.resize(kPqSubVectors * kPqCentroids);
}

void pq_update(const PagedKv& kv, int32_t kv_head, const int32_t* block_table, const PqIndex& index,
               int32_t tokens, PqScratch& mem) {
  if (index.tokens >= tokens) return;
  if (index.tokens == 0) {
    build(kv, kv_head, block_table, tokens, mem);
    store_centroids(kv, kv_head, index, mem.centroids.data());
  } else {
    load_centroids(kv, kv_head, index, mem.centroids.data());
  }
  const int32_t subs = sub_vectors(kv.head_dim);
  for (int32_t sub = 0; sub < subs; ++sub) set_half_norms(mem, sub, kv.head_dim);
  for (int32_t first = index.tokens; first < tokens; first += kMaxKeys) {
    const int32_t count = std::min(tokens - first, kMaxKeys);
    for (int32_t i = 0; i < count; ++i) {
      read_key(kv, kv_head, block_table, first + i, mem.keys.data() + i);
    }
    for (int32_t sub = 0; sub < subs; ++sub) find_nearest(mem, sub, count, kv.head_dim);
    for_pieces(kv, kv_head, index, centroid_pieces(kv.head_dim) + first, count,
               [&](int32_t i, std::byte* piece) {
                 std::array<uint8_t, kPqSubVectors> code = {};
                 for (int32_t sub = 0; sub < subs; ++sub) {
                   code[static_cast<size_t>(sub)] = nearest_of(mem, sub)[i];
                 }
                 std::memcpy(piece, code.data(), code.size());
               });
  }
}

void pq_scores(const PagedKv& kv, int32_t kv_head, const PqIndex& index, int32_t tokens,
               std::span<const float* const> queries, float scale, float* scores, PqScratch& mem) {
  load_centroids(kv, kv_head, index, mem.centroids.data());
  const auto num_tokens = static_cast<size_t>(tokens);
  assert(mem.codes.size() >= num_tokens * kPqSubVectors);
  for_pieces(kv, kv_head, index, centroid_pieces(kv.head_dim), tokens,
             [&mem](int32_t token, const std::byte* piece) {
               std::memcpy(mem.codes.data() + int64_t{token} * kPqSubVectors, piece, kPqSubVectors);
             });
  for (size_t query = 0; query < queries.size(); ++query) {
    set_table(mem, queries[query], scale, kv.head_dim);
    for (size_t token = 0; token < num_tokens; ++token) {
      const uint8_t* const code = mem.codes.data() + token * kPqSubVectors;
      float sum = 0.0f;
      for (size_t sub = 0; sub < kPqSubVectors; ++sub) {
        sum += mem.table[sub * kPqCentroids + code[sub]];
      }
      const size_t tile = token / kAttentionTile * queries.size() + query;
      scores[tile * kAttentionTile + token % kAttentionTile] = sum;
    }
  }
}

void pq_decode(const PagedKv& kv, int32_t kv_head, const PqIndex& index, int32_t token,
               float* key) {
  std::array<uint8_t, kPqSubVectors> code;
  for_pieces(
      kv, kv_head, index, centroid_pieces(kv.head_dim) + token, 1,
      [&code](int32_t, const std::byte* piece) { std::memcpy(code.data(), piece, code.size()); });
  for (int32_t sub = 0; sub < sub_vectors(kv.head_dim); ++sub) {
    const Dims dims = dims_of(sub, kv.head_dim);
    for (int32_t dim = dims.begin; dim < dims.end; ++dim) {
      const int32_t element = dim * kPqCentroids + code[static_cast<size_t>(sub)];
      for_pieces(
          kv, kv_head, index, element / kPieceFloats, 1, [&](int32_t, const std::byte* piece) {
            std::memcpy(key + dim, piece + element % kPieceFloats * sizeof(float), sizeof(float));
          });
    }
  }
}

void pq_centroids(const PagedKv& kv, int32_t kv_head, const PqIndex& index, float* centroids) {
  load_centroids(kv, kv_head, index, centroids);
}

}  // namespace forerun
