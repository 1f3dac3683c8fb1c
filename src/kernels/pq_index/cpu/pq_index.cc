#include "kernels/pq_index/pq_index.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace forerun {
namespace {

constexpr int32_t kPieceFloats = kKeyPieceBytes / static_cast<int32_t>(sizeof(float));
constexpr int32_t kMostSamples = 2048;
constexpr int32_t kIterations = 4;
static_assert(kKeyPieceBytes >= kPqSubVectors);

// Pieces of a head's row that hold no padding, in bf16; in f32 there are as many again.
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

std::byte* piece_at(const PagedKv& kv, int32_t kv_head, const PqIndex& index, int32_t piece) {
  const int32_t row_pieces = pieces_of_row(kv.head_dim);
  const int32_t block = index.blocks[piece / pieces_of_block(kv.head_dim)];
  const int32_t in_block = piece % pieces_of_block(kv.head_dim);
  const int32_t slot = in_block / row_pieces % kAttentionTile;
  const int32_t in_row = in_block % row_pieces;
  return in_block < kAttentionTile * row_pieces
             ? kv.key(block, slot, kv_head) + in_row * kKeyGroup * kKeyPieceBytes
             : kv.value(block, slot, kv_head) + in_row * kKeyPieceBytes;
}

std::byte* code_of(const PagedKv& kv, int32_t kv_head, const PqIndex& index, int32_t token) {
  return piece_at(kv, kv_head, index, centroid_pieces(kv.head_dim) + token);
}

void read_key(const PagedKv& kv, int32_t kv_head, const int32_t* table, int32_t token, float* out) {
  const std::byte* const key =
      kv.key(table[token / kAttentionTile], token % kAttentionTile, kv_head);
  const bool is_f32 = kv.dtype == DType::kF32;
  const int32_t piece = is_f32 ? 4 : 8;
  for (int32_t dim = 0; dim < kv.head_dim; ++dim) {
    const int32_t element = dim / piece * piece * kKeyGroup + dim % piece;
    out[dim] = is_f32 ? reinterpret_cast<const float*>(key)[element]
                      : to_float(reinterpret_cast<const bf16*>(key)[element]);
  }
}

void load_centroids(const PagedKv& kv, int32_t kv_head, const PqIndex& index, float* centroids) {
  for (int32_t piece = 0; piece < centroid_pieces(kv.head_dim); ++piece) {
    std::memcpy(centroids + piece * kPieceFloats, piece_at(kv, kv_head, index, piece),
                kKeyPieceBytes);
  }
}

void store_centroids(const PagedKv& kv, int32_t kv_head, const PqIndex& index,
                     const float* centroids) {
  for (int32_t piece = 0; piece < centroid_pieces(kv.head_dim); ++piece) {
    std::memcpy(piece_at(kv, kv_head, index, piece), centroids + piece * kPieceFloats,
                kKeyPieceBytes);
  }
}

float* row_of(std::vector<float>& rows, int32_t row) {
  return rows.data() + int64_t{row} * kPqCentroids;
}

void set_half_norms(PqScratch& mem, int32_t sub, int32_t head_dim) {
  float* const norms = row_of(mem.half_norms, sub);
  std::fill_n(norms, kPqCentroids, 0.0f);
  const Dims dims = dims_of(sub, head_dim);
  for (int32_t dim = dims.begin; dim < dims.end; ++dim) {
    const float* const centroids = row_of(mem.centroids, dim);
    for (int32_t c = 0; c < kPqCentroids; ++c) norms[c] += 0.5f * centroids[c] * centroids[c];
  }
}

// The nearest centroid of a key's sub-vector, of equals the first. Distances run over centroids
// side by side, so that a compiler makes vectors of them.
int32_t nearest(PqScratch& mem, int32_t sub, const float* key, int32_t head_dim) {
  float* const distances = mem.distances.data();
  std::copy_n(row_of(mem.half_norms, sub), kPqCentroids, distances);
  const Dims dims = dims_of(sub, head_dim);
  for (int32_t dim = dims.begin; dim < dims.end; ++dim) {
    const float* const centroids = row_of(mem.centroids, dim);
    const float x = key[dim];
    for (int32_t c = 0; c < kPqCentroids; ++c) distances[c] -= x * centroids[c];
  }
  std::array<float, 16> least;
  std::copy_n(distances, least.size(), least.begin());
  for (size_t c = least.size(); c < kPqCentroids; c += least.size()) {
    for (size_t lane = 0; lane < least.size(); ++lane) {
      const float distance = distances[c + lane];
      least[lane] = distance < least[lane] ? distance : least[lane];
    }
  }
  const float lowest = *std::min_element(least.begin(), least.end());
  const auto* const found = std::find(distances, distances + kPqCentroids, lowest);
  // Not a number is nowhere.
  return found == distances + kPqCentroids ? 0 : static_cast<int32_t>(found - distances);
}

// Lloyd's iterations from keys at even distances; a centroid that nothing is near to stays.
void find_centroids(PqScratch& mem, int32_t sub, int32_t samples, int32_t head_dim) {
  const Dims dims = dims_of(sub, head_dim);
  const auto key = [&](int32_t sample) { return mem.keys.data() + int64_t{sample} * head_dim; };
  for (int32_t c = 0; c < kPqCentroids; ++c) {
    const auto sample = static_cast<int32_t>(int64_t{c} * samples / kPqCentroids);
    for (int32_t dim = dims.begin; dim < dims.end; ++dim) {
      row_of(mem.centroids, dim)[c] = key(sample)[dim];
    }
  }
  for (int32_t iteration = 0; iteration < kIterations; ++iteration) {
    set_half_norms(mem, sub, head_dim);
    std::fill(mem.sums.begin(), mem.sums.end(), 0.0f);
    std::fill(mem.counts.begin(), mem.counts.end(), 0);
    for (int32_t sample = 0; sample < samples; ++sample) {
      const int32_t c = nearest(mem, sub, key(sample), head_dim);
      ++mem.counts[static_cast<size_t>(c)];
      for (int32_t dim = dims.begin; dim < dims.end; ++dim) {
        row_of(mem.sums, dim)[c] += key(sample)[dim];
      }
    }
    for (int32_t c = 0; c < kPqCentroids; ++c) {
      const int32_t count = mem.counts[static_cast<size_t>(c)];
      if (count == 0) continue;
      for (int32_t dim = dims.begin; dim < dims.end; ++dim) {
        row_of(mem.centroids, dim)[c] = row_of(mem.sums, dim)[c] / static_cast<float>(count);
      }
    }
  }
}

void build(const PagedKv& kv, int32_t kv_head, const int32_t* table, int32_t tokens,
           PqScratch& mem) {
  const int32_t samples = std::min(tokens, kMostSamples);
  for (int32_t sample = 0; sample < samples; ++sample) {
    const auto token = static_cast<int32_t>(int64_t{sample} * tokens / samples);
    read_key(kv, kv_head, table, token, mem.keys.data() + int64_t{sample} * kv.head_dim);
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

void PqScratch::reserve(int32_t head_dim) {
  const auto dims = static_cast<size_t>(head_dim);
  centroids.resize(dims * kPqCentroids);
  sums.resize(dims * kPqCentroids);
  half_norms.resize(kPqSubVectors * kPqCentroids);
  table.resize(kPqSubVectors * kPqCentroids);
  distances.resize(kPqCentroids);
  counts.resize(kPqCentroids);
  keys.resize(kMostSamples * dims);
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
  float* const key = mem.keys.data();
  for (int32_t token = index.tokens; token < tokens; ++token) {
    read_key(kv, kv_head, block_table, token, key);
    std::array<uint8_t, kPqSubVectors> code = {};
    for (int32_t sub = 0; sub < subs; ++sub) {
      code[static_cast<size_t>(sub)] = static_cast<uint8_t>(nearest(mem, sub, key, kv.head_dim));
    }
    std::memcpy(code_of(kv, kv_head, index, token), code.data(), code.size());
  }
}

void pq_scores(const PagedKv& kv, int32_t kv_head, const PqIndex& index, int32_t tokens,
               const float* query, float scale, float* scores, int64_t stride, PqScratch& mem) {
  load_centroids(kv, kv_head, index, mem.centroids.data());
  const int32_t subs = sub_vectors(kv.head_dim);
  std::fill(mem.table.begin(), mem.table.end(), 0.0f);
  for (int32_t sub = 0; sub < subs; ++sub) {
    float* const of_sub = row_of(mem.table, sub);
    const Dims dims = dims_of(sub, kv.head_dim);
    for (int32_t dim = dims.begin; dim < dims.end; ++dim) {
      const float* const centroids = row_of(mem.centroids, dim);
      const float x = query[dim] * scale;
      for (int32_t c = 0; c < kPqCentroids; ++c) of_sub[c] += x * centroids[c];
    }
  }
  // Of sub-vectors that there are not the table holds zeros.
  for (int32_t token = 0; token < tokens; ++token) {
    std::array<uint8_t, kPqSubVectors> code;
    std::memcpy(code.data(), code_of(kv, kv_head, index, token), code.size());
    float sum = 0.0f;
    for (size_t sub = 0; sub < code.size(); ++sub) {
      sum += mem.table[sub * kPqCentroids + code[sub]];
    }
    scores[token / kAttentionTile * stride + token % kAttentionTile] = sum;
  }
}

void pq_decode(const PagedKv& kv, int32_t kv_head, const PqIndex& index, int32_t token,
               float* key) {
  std::array<uint8_t, kPqSubVectors> code;
  std::memcpy(code.data(), code_of(kv, kv_head, index, token), code.size());
  for (int32_t sub = 0; sub < sub_vectors(kv.head_dim); ++sub) {
    const Dims dims = dims_of(sub, kv.head_dim);
    for (int32_t dim = dims.begin; dim < dims.end; ++dim) {
      const int32_t element = dim * kPqCentroids + code[static_cast<size_t>(sub)];
      const std::byte* const piece = piece_at(kv, kv_head, index, element / kPieceFloats);
      std::memcpy(key + dim, piece + element % kPieceFloats * sizeof(float), sizeof(float));
    }
  }
}

void pq_centroids(const PagedKv& kv, int32_t kv_head, const PqIndex& index, float* centroids) {
  load_centroids(kv, kv_head, index, centroids);
}

}  // namespace forerun
