// Product quantization of a sequence's keys (PQCache, Zhang et al., 2024, §4): a key of a KV head
// is cut into up to 16 sub-vectors, each of which is one of 256 centroids, found by k-means over
// the keys there are when the index is built. What a query thinks of a key is then 16 look-ups in
// place of a product over the head, and 16 bytes in place of the key.
//
// The index of a KV head lies in KV blocks that its view has for it, in the head's part of them, so
// a layer's index lies beside its cache, on whatever device that is. A block's 16-byte pieces, but
// for the padding of heads, which must stay zero, are numbered: first the centroids, [dimension]
// [centroid] in f32, then a piece a token, a byte a sub-vector.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"

namespace forerun {

inline constexpr int32_t kPqSubVectors = 16;  // at most: of as many dimensions each
inline constexpr int32_t kPqCentroids = 256;

// Blocks that the index of so many tokens takes; of heads of at least 8 dimensions.
int32_t pq_index_blocks(int32_t tokens, int32_t head_dim);

struct PqIndex {
  const int32_t* blocks = nullptr;  // [pq_index_blocks()]; null: none
  int32_t tokens = 0;               // that are in it already; 0: it is to be built
};

// Of one member of a team.
struct PqScratch {
  std::vector<float> centroids;   // [dimension][centroid]
  std::vector<float> half_norms;  // [sub-vector][centroid]
  std::vector<float> keys;        // [dimension][some tokens]
  std::vector<uint8_t> nearest;   // [sub-vector][these tokens]
  std::vector<uint8_t> codes;     // [token][sub-vector]
  std::vector<float> table;       // [sub-vector][centroid]

  // Before the functions below, of at most so many tokens. Keeps its memory.
  void reserve(int32_t head_dim, int32_t tokens);
};

// Brings the index of a KV head up to the first `tokens` tokens of a sequence: those that are not
// in it yet are coded by the centroids there are, which are made of the keys of these tokens where
// there is no index. A function of the keys alone.
void pq_update(const PagedKv& kv, int32_t kv_head, const int32_t* block_table, const PqIndex& index,
               int32_t tokens, PqScratch& scratch);

// Scores of the first `tokens` tokens, a multiple of 64, which are in the index: query · key *
// `scale`, by the keys' centroids. `scores`: [tile of 64 tokens][query][64].
void pq_scores(const PagedKv& kv, int32_t kv_head, const PqIndex& index, int32_t tokens,
               std::span<const float* const> queries, float scale, float* scores,
               PqScratch& scratch);

// For tests: the key that the index has for a token, [head_dim], and the centroids of all
// dimensions, [dimension][centroid].
void pq_decode(const PagedKv& kv, int32_t kv_head, const PqIndex& index, int32_t token, float* key);
void pq_centroids(const PagedKv& kv, int32_t kv_head, const PqIndex& index, float* centroids);

}  // namespace forerun
