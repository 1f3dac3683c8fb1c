// Product quantization of a sequence's keys (PQCache, Zhang et al., 2024, §4). A key of a KV head
// is cut into up to 16 sub-vectors, and one of 256 centroids replaces each sub-vector; k-means
// finds the centroids among the keys that exist when the index is built. The score of a query and a
// key then takes 16 look-ups and 16 bytes instead of a dot product over the head and the whole key.
//
// A view reserves KV blocks for its index. The index of a KV head lies in that head's part of these
// blocks, so a layer's index lies on the same device as its KV cache. The 16-byte pieces of the
// blocks are numbered, without the padding of heads, which must stay zero. The first pieces hold
// the centroids, f32 [dimension][centroid]; then each token has a piece with a byte per sub-vector.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"

namespace forerun {

inline constexpr int32_t kPqSubVectors = 16;  // maximum; the last one may have fewer dimensions
inline constexpr int32_t kPqCentroids = 256;

// Returns the number of blocks of an index over `tokens` tokens. `head_dim` is at least 8.
int32_t pq_index_blocks(int32_t tokens, int32_t head_dim);

struct PqIndex {
  const int32_t* blocks = nullptr;  // [pq_index_blocks()]; null without an index
  int32_t tokens = 0;               // tokens in the index; 0 if it must be built
};

// Scratch memory of one member of a team.
struct PqScratch {
  std::vector<float> centroids;   // [dimension][centroid]
  std::vector<float> half_norms;  // [sub-vector][centroid]
  std::vector<float> keys;        // [dimension][tokens of a batch]
  std::vector<uint8_t> nearest;   // [sub-vector][tokens of a batch]
  std::vector<uint8_t> codes;     // [token][sub-vector]
  std::vector<float> table;       // [sub-vector][centroid]

  // Makes room for the functions below, which may then take up to `tokens` tokens. Capacity never
  // shrinks.
  void reserve(int32_t head_dim, int32_t tokens);
};

// Extends the index of a KV head to the first `tokens` tokens of a sequence. If index.tokens is 0,
// the centroids are computed from the keys of these tokens; otherwise the new tokens are coded by
// the existing centroids. The result depends only on the keys.
void pq_update(const PagedKv& kv, int32_t kv_head, const int32_t* block_table, const PqIndex& index,
               int32_t tokens, PqScratch& scratch);

// Computes the scores query · key * `scale` of the first `tokens` tokens, a multiple of 64, with
// each key approximated by its centroids. All these tokens must be in the index. `scores` is [tile
// of 64 tokens][query][64].
void pq_scores(const PagedKv& kv, int32_t kv_head, const PqIndex& index, int32_t tokens,
               std::span<const float* const> queries, float scale, float* scores,
               PqScratch& scratch);

// For tests. pq_decode() returns the approximated key of a token, [head_dim]; pq_centroids()
// returns the centroids of all dimensions, [dimension][centroid].
void pq_decode(const PagedKv& kv, int32_t kv_head, const PqIndex& index, int32_t token, float* key);
void pq_centroids(const PagedKv& kv, int32_t kv_head, const PqIndex& index, float* centroids);

}  // namespace forerun
