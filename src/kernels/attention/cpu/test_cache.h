// A small paged cache with random content for the attention tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/isa.h"

namespace forerun {

// Writes K and V of `position` (of one sequence) as f32, a pure function of the arguments.
inline void fill_kv(uint32_t sequence, int32_t position, int64_t width, std::vector<float>& k,
                    std::vector<float>& v) {
  std::mt19937 random(sequence * 1000003u + static_cast<uint32_t>(position));
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  k.resize(static_cast<size_t>(width));
  v.resize(static_cast<size_t>(width));
  for (float& x : k) x = 2.0f * uniform(random);
  for (float& x : v) x = uniform(random);
}

class TestCache {
 public:
  // Fills every element but the padding with NaN, so that reading an unwritten row shows.
  TestCache(DType dtype, int32_t num_blocks, int32_t num_kv_heads, int32_t head_dim) {
    kv_.dtype = dtype;
    kv_.num_kv_heads = num_kv_heads;
    kv_.head_dim = head_dim;
    kv_.block_stride_bytes = kv_.layer_bytes() + 4096;  // as if other layers lay between
    const auto bytes = static_cast<size_t>(kv_.block_stride_bytes * num_blocks);
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
    std::fill(memory_.get(), memory_.get() + bytes, std::byte{0});
    kv_.data = memory_.get();
    const std::vector<float> nans(static_cast<size_t>(num_kv_heads * head_dim),
                                  std::numeric_limits<float>::quiet_NaN());
    std::vector<int32_t> table(static_cast<size_t>(num_blocks));
    std::iota(table.begin(), table.end(), 0);
    for (int32_t slot = 0; slot < num_blocks * kAttentionTile; ++slot) {
      write(table, slot, nans, nans);
    }
  }
  const PagedKv& kv() const { return kv_; }
  // Writes K and V of fill_kv(sequence, position) to a slot of the table.
  void put(const std::vector<int32_t>& table, int32_t slot, uint32_t sequence, int32_t position) {
    std::vector<float> k, v;
    fill_kv(sequence, position, static_cast<int64_t>(kv_.num_kv_heads) * kv_.head_dim, k, v);
    write(table, slot, k, v);
  }
  // Fills the slot with NaN, as a row of NaN leaves it.
  void poison(const std::vector<int32_t>& table, int32_t slot) {
    const std::vector<float> nans(static_cast<size_t>(kv_.num_kv_heads * kv_.head_dim),
                                  std::numeric_limits<float>::quiet_NaN());
    write(table, slot, nans, nans);
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  void write(const std::vector<int32_t>& table, int32_t slot, const std::vector<float>& k,
             const std::vector<float>& v) {
    AttentionRow row;
    row.slot = slot;
    row.block_table = table.data();
    for (int32_t head = 0; head < kv_.num_kv_heads; ++head) {
      append_kv_head(k.data(), v.data(), row, head, kv_);
    }
  }
  PagedKv kv_;
  std::unique_ptr<std::byte, Free> memory_;
};

// Returns the query of the row at `position` of a sequence, a pure function of the arguments. It is
// the key of another sequence, so that it equals no visible key of the row.
inline std::vector<float> query_of(uint32_t sequence, int32_t position, int64_t width) {
  std::vector<float> q, unused;
  fill_kv(sequence + 77u, position, width, q, unused);
  return q;
}

// Returns whether kernels multiply bf16 by bf16 (attention.h).
inline bool uses_bf16_dot(const PagedKv& kv) {
  return kv.dtype == DType::kBf16 &&
         (current_isa() == Isa::kAvx512Bf16 || current_isa() == Isa::kAmx);
}

// Returns the queries as the kernels round them.
inline std::vector<float> used_queries(std::vector<float> q, const PagedKv& kv) {
  if (!uses_bf16_dot(kv)) return q;
  for (float& x : q) x = to_float(to_bf16(x));
  return q;
}

// Runs attention() on a team of `team_size` with the rows' queries `q` [rows][width].
inline std::vector<float> run_attention(const std::vector<float>& q,
                                        const std::vector<AttentionRow>& rows, const PagedKv& kv,
                                        int32_t num_heads, int32_t window, int32_t team_size,
                                        bool* split = nullptr) {
  const auto device = std::move(CpuDevice::create({}, team_size)).value();
  const int64_t width = static_cast<int64_t>(num_heads) * kv.head_dim;
  const auto num_rows = static_cast<int64_t>(rows.size());
  AttentionPlan plan;
  AttentionScratch scratch;
  plan.build(rows, num_heads, kv.num_kv_heads, team_size);
  scratch.reserve(team_size, num_heads, kv.num_kv_heads, kv.head_dim);
  scratch.reserve_partials(plan, num_rows, num_heads, kv.head_dim);
  if (split != nullptr) *split = plan.split_spans;
  std::vector<float> out(q.size(), std::numeric_limits<float>::quiet_NaN());
  device->run([&](const Team& team) {
    attention(team, MatrixView<const float>(q.data(), {num_rows, width}), rows, kv, window, plan,
              &scratch, MatrixView<float>(out.data(), {num_rows, width}));
  });
  return out;
}

}  // namespace forerun
