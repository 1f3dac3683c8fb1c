// Steps over a random paged cache on a GPU, with the expected results of attention, for the tests
// of the CUDA kernels.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"
#include "kernels/attention/cuda/attention.h"
#include "kernels/attention/cuda/steps_rig.h"

namespace forerun::cuda {

// Returns a number in [-1, 1), exact in bf16, that depends on three integers.
inline float random_value(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t h = a * 0x9e3779b9u ^ (b + 0x7f4a7c15u) * 0x85ebca6bu ^ (c + 0x165667b1u) * 0xc2b2ae35u;
  h = (h ^ h >> 15) * 0x2c1b3c6du;
  h = (h ^ h >> 12) * 0x297a2d39u;
  h ^= h >> 15;
  return static_cast<float>(static_cast<int32_t>(h & 255) - 128) / 128.0f;
}

struct HeadShape {
  int32_t num_heads, num_kv_heads, head_dim;
  int64_t width() const { return int64_t{num_heads + 2 * num_kv_heads} * head_dim; }
};

// Memory of one layer on the current GPU, and calls over it.
class AttentionRig {
 public:
  AttentionRig(const HeadShape& shape, int32_t num_blocks)
      : shape_(shape), padded_dim_(padded_head_dim_cuda(shape.head_dim)), num_blocks_(num_blocks) {
    kv_.num_kv_heads = shape.num_kv_heads;
    kv_.head_dim = shape.head_dim;
    kv_.block_stride_bytes = kv_.layer_bytes() + 4096;  // as if other layers lay between
    cache_.resize(static_cast<size_t>(kv_.block_stride_bytes) * static_cast<size_t>(num_blocks));
    EXPECT_TRUE(prepare_attention_cuda().ok());
    EXPECT_TRUE(prepare_rope_append_cuda().ok());
    device_cache_ = allocate(cache_.size());
    kv_.data = device_cache_.data();
    partials_ = allocate(kPartialBytes);
    arrivals_ = allocate(kArrivals * sizeof(uint32_t));
    failed_ = allocate(sizeof(uint32_t));
    EXPECT_EQ(cudaMemset(failed_.data(), 0, sizeof(uint32_t)), cudaSuccess);
  }

  // Fills the cache with NaNs, except for its contents before the step: keys and values of prefixes
  // and of nodes that are not rows.
  void fill_cache(const TestStep& step) {
    std::fill(cache_.begin(), cache_.end(), std::byte{0xff});
    std::vector<std::vector<bool>> written(step.tables.size());
    for (size_t i = 0; i < step.tables.size(); ++i) {
      written[i].resize(step.tables[i].size() * kTilePositions);
    }
    for (size_t i = 0; i < step.rows.size(); ++i) {
      const AttentionRow& row = step.rows[i];
      std::vector<bool>& here = written[static_cast<size_t>(step.sequence_of[i])];
      for (int32_t p = 0; p < row.boundary; ++p) here[static_cast<size_t>(p)] = true;
      for (int32_t p = row.boundary; p <= row.last_visible; ++p) {
        here[static_cast<size_t>(row.ancestors[p - row.boundary])] = true;
      }
    }
    for (size_t i = 0; i < step.rows.size(); ++i) {
      written[static_cast<size_t>(step.sequence_of[i])][static_cast<size_t>(step.rows[i].slot)] =
          false;
    }
    for (size_t sequence = 0; sequence < step.tables.size(); ++sequence) {
      for (size_t slot = 0; slot < written[sequence].size(); ++slot) {
        if (!written[sequence][slot]) continue;
        const int32_t at = step.tables[sequence][slot / kTilePositions] * kTilePositions +
                           static_cast<int32_t>(slot % kTilePositions);
        for (int32_t head = 0; head < shape_.num_kv_heads; ++head) {
          for (int32_t dim = 0; dim < padded_dim_; ++dim) {
            const bool real = dim < shape_.head_dim;
            *element(at, head, dim, false) = to_bf16(real ? key(at, head, dim) : 0.0f);
            *element(at, head, dim, true) = to_bf16(real ? value(at, head, dim) : 0.0f);
          }
        }
      }
    }
    upload(device_cache_, cache_);
  }

  // Fills the linear layer's output: row r of the step gets the random numbers of `ids[r]`.
  void fill_qkv(const std::vector<int32_t>& ids, const std::vector<AttentionRow>& rows) {
    const auto width = static_cast<size_t>(shape_.width());
    qkv_.assign(ids.size() * width, bf16{});
    angles_.clear();
    for (size_t r = 0; r < ids.size(); ++r) {
      for (size_t i = 0; i < width; ++i) {
        qkv_[r * width + i] = to_bf16(2.0f * random_value(static_cast<uint32_t>(ids[r]) + 77777u,
                                                          static_cast<uint32_t>(i), 3));
      }
      const int32_t half = shape_.head_dim / 2;
      for (int32_t sine = 0; sine < 2; ++sine) {
        for (int32_t i = 0; i < half; ++i) {
          const double angle =
              rows[r].last_visible * std::pow(10000.0, -static_cast<double>(i) / half);
          angles_.push_back(static_cast<float>(sine == 1 ? std::sin(angle) : std::cos(angle)));
        }
      }
    }
    kv_slots_.clear();
    for (const AttentionRow& row : rows) {
      kv_slots_.push_back(row.block_table[row.slot / kTilePositions] * kTilePositions +
                          row.slot % kTilePositions);
    }
    device_qkv_ = allocate(qkv_.size() * sizeof(bf16));
    upload(device_qkv_, std::as_bytes(std::span(qkv_)));
    nan_qkv_ = allocate(device_qkv_.bytes());
    EXPECT_EQ(cudaMemset(nan_qkv_.data(), 0xff, nan_qkv_.bytes()), cudaSuccess);
    device_q_ = allocate(ids.size() * static_cast<size_t>(shape_.num_heads * padded_dim_) * 2);
    device_out_ = allocate(ids.size() * static_cast<size_t>(out_width()) * 2);
    EXPECT_EQ(cudaMemset(device_out_.data(), 0xff, device_out_.bytes()), cudaSuccess);
  }

  // Runs attention over `rows`, filled by fill_qkv(), by the plan for `terms`, which it stores in
  // `used`. Returns [rows][num_heads * head_dim].
  std::vector<bf16> run(const std::vector<AttentionRow>& rows, int32_t window,
                        const AttentionShapeCuda& terms, AttentionPlanCuda* used = nullptr) {
    AttentionPlanCuda plan;
    plan.build(rows, terms);
    if (used != nullptr) *used = plan;
    EXPECT_LE(static_cast<size_t>(plan.num_partials) * partial_bytes(), kPartialBytes);
    run_plan(plan, window);
    uint32_t failed = 1;
    EXPECT_TRUE(failed_.download(std::as_writable_bytes(std::span(&failed, 1))).ok());
    EXPECT_EQ(failed, 0u);
    std::vector<bf16> out(rows.size() * static_cast<size_t>(out_width()));
    EXPECT_TRUE(device_out_.download(std::as_writable_bytes(std::span(out))).ok());
    EXPECT_EQ(cudaMemset(device_out_.data(), 0xff, device_out_.bytes()), cudaSuccess);
    run_plan(plan, window, /*again_early=*/true);
    std::vector<bf16> again(out.size());
    EXPECT_TRUE(device_out_.download(std::as_writable_bytes(std::span(again))).ok());
    EXPECT_EQ(std::memcmp(again.data(), out.data(), out.size() * sizeof(bf16)), 0) << "early";
    return out;
  }
  // Runs a plan. With `again_early` it runs the plan a second time, as in the next layer, so that
  // attention may begin before the previous kernel has ended. That kernel has appended the step's
  // keys and values or, before attention with fuses_rope_append(), NaNs in their place, which
  // attention itself replaces: a read of the cache that is too early shows. A read of qkv that is
  // too early does not show, since no kernel here writes qkv.
  void run_plan(const AttentionPlanCuda& plan, int32_t window, bool again_early = false) {
    const std::vector<std::byte> bytes = step_bytes(plan, kv_slots_, angles_);
    const DeviceBuffer step = allocate(bytes.size());
    upload(step, bytes);
    EXPECT_EQ(cudaMemset(arrivals_.data(), 0, arrivals_.bytes()), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const auto k_offset = shape_.num_heads * shape_.head_dim;
    const auto v_offset = (shape_.num_heads + shape_.num_kv_heads) * shape_.head_dim;
    const bool appends = !fuses_rope_append(plan.kernel);
    const auto append = [&](const DeviceBuffer& qkv) {
      expect_ok(rope_append_cuda({.step = step.as<AttentionStepCuda>(),
                                  .qkv = qkv.as<__nv_bfloat16>(),
                                  .qkv_stride = shape_.width(),
                                  .k_offset = k_offset,
                                  .v_offset = v_offset,
                                  .q = device_q_.as<__nv_bfloat16>(),
                                  .num_heads = shape_.num_heads,
                                  .rows = static_cast<int32_t>(plan.rows.size()),
                                  .kv = kv_},
                                 stream_.get()));
    };
    if (appends) append(device_qkv_);
    AttentionCallCuda call = {.step = step.as<AttentionStepCuda>(),
                              .q = device_q_.as<__nv_bfloat16>(),
                              .qkv = device_qkv_.as<__nv_bfloat16>(),
                              .qkv_stride = shape_.width(),
                              .k_offset = k_offset,
                              .v_offset = v_offset,
                              .attended = device_out_.as<uint16_t>(),
                              .attended_stride = out_width(),
                              .num_heads = shape_.num_heads,
                              .kv = kv_,
                              .window = window,
                              .partials = partials_.as<float>(),
                              .arrivals = arrivals_.as<uint32_t>(),
                              .to_clear = arrivals_.as<uint32_t>() + kArrivals / 2,
                              .failed = failed_.as<uint32_t>(),
                              .kernel = plan.kernel,
                              .shared_prefix = plan.shared_prefix,
                              .rows = static_cast<int32_t>(plan.rows.size())};
    expect_ok(attention_cuda(call, stream_.get()));
    if (again_early) {
      std::swap(call.arrivals, call.to_clear);
      call.early = true;
      append(nan_qkv_);
      if (appends) append(device_qkv_);
      expect_ok(attention_cuda(call, stream_.get()));
    }
    expect_ok(stream_.synchronize());
  }

  AttentionShapeCuda terms() const {
    return {.kv_parts = shape_.num_kv_heads * query_parts(shape_.num_heads, shape_.num_kv_heads),
            .row_columns = query_columns(shape_.num_heads, shape_.num_kv_heads),
            .max_partials = static_cast<int32_t>(kPartialBytes / partial_bytes()),
            .may_fuse = can_fuse_rope(shape_.head_dim, false),
            .may_tile = shape_.head_dim <= 128,
            .max_prefill_cluster_blocks = largest_prefill_cluster(shape_.head_dim)};
  }
  // Returns the step's own keys and values as the GPU has written them, for key() and value().
  std::vector<std::byte> download_cache() {
    std::vector<std::byte> bytes(cache_.size());
    EXPECT_TRUE(device_cache_.download(bytes).ok());
    return bytes;
  }
  uint32_t take_failed() {
    uint32_t failed = 0;
    EXPECT_TRUE(failed_.download(std::as_writable_bytes(std::span(&failed, 1))).ok());
    EXPECT_EQ(cudaMemset(failed_.data(), 0, sizeof(uint32_t)), cudaSuccess);
    return failed;
  }

  // Computes attention of one row in double, from the cache's bytes after a run. Returns [num_heads
  // * head_dim].
  std::vector<double> reference(const std::vector<std::byte>& cache, const AttentionRow& row,
                                size_t row_idx, int32_t window) {
    cache_ = cache;
    std::vector<double> out;
    const int32_t dim = shape_.head_dim;
    const int32_t group = shape_.num_heads / shape_.num_kv_heads;
    const int32_t first = window > 0 ? std::max(0, row.last_visible - window + 1) : 0;
    for (int32_t head = 0; head < shape_.num_heads; ++head) {
      std::vector<double> query;
      for (int32_t i = 0; i < dim; ++i) query.push_back(rotated(row_idx, head, i));
      std::vector<double> probs;
      double most = -1e30;
      for (int32_t position = first; position <= row.last_visible; ++position) {
        double score = 0;
        const int32_t slot = physical(row, position);
        for (int32_t i = 0; i < dim; ++i) {
          score += query[static_cast<size_t>(i)] *
                   static_cast<double>(to_float(*element(slot, head / group, i, false)));
        }
        probs.push_back(score / std::sqrt(static_cast<double>(dim)));
        most = std::max(most, probs.back());
      }
      double sum = 0;
      for (double& prob : probs) sum += prob = std::exp(prob - most);
      std::vector<double> result(static_cast<size_t>(dim));
      for (int32_t position = first; position <= row.last_visible; ++position) {
        const int32_t slot = physical(row, position);
        for (int32_t i = 0; i < dim; ++i) {
          result[static_cast<size_t>(i)] +=
              probs[static_cast<size_t>(position - first)] / sum *
              static_cast<double>(to_float(*element(slot, head / group, i, true)));
        }
      }
      out.insert(out.end(), result.begin(), result.end());
    }
    return out;
  }

 private:
  static constexpr size_t kPartialBytes = size_t{64} << 20;
  static constexpr size_t kArrivals = 1 << 16;

  static void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }
  static DeviceBuffer allocate(size_t bytes) {
    auto buffer = DeviceBuffer::allocate(bytes, "a test");
    EXPECT_TRUE(buffer.ok()) << buffer.status().message();
    return std::move(buffer).value();
  }
  static void upload(const DeviceBuffer& buffer, std::span<const std::byte> bytes) {
    expect_ok(buffer.upload(bytes));
  }
  int64_t out_width() const { return int64_t{shape_.num_heads} * shape_.head_dim; }
  size_t partial_bytes() const {
    return static_cast<size_t>(
               partial_floats(shape_.num_heads, shape_.num_kv_heads, shape_.head_dim)) *
           sizeof(float);
  }
  static int32_t physical(const AttentionRow& row, int32_t position) {
    const int32_t slot =
        position < row.boundary ? position : row.ancestors[position - row.boundary];
    return row.block_table[slot / kTilePositions] * kTilePositions + slot % kTilePositions;
  }
  static float key(int32_t slot, int32_t head, int32_t dim) {
    return 2.0f *
           random_value(static_cast<uint32_t>(slot), static_cast<uint32_t>(head * 512 + dim), 1);
  }
  static float value(int32_t slot, int32_t head, int32_t dim) {
    return random_value(static_cast<uint32_t>(slot), static_cast<uint32_t>(head * 512 + dim), 2);
  }
  // Returns an element of the cache, whose layout attention/cuda/attention.h describes.
  bf16* element(int32_t slot, int32_t head, int32_t dim, bool of_value) {
    const int32_t piece = (dim / 8 ^ slot) & 7;
    const int64_t tile = (of_value ? shape_.num_kv_heads : 0) + head;
    return reinterpret_cast<bf16*>(cache_.data() + slot / kTilePositions * kv_.block_stride_bytes +
                                   tile * kv_.tile_bytes()) +
           (dim / 64 * kTilePositions + slot % kTilePositions) * 64 + piece * 8 + dim % 8;
  }
  double rotated(size_t row, int32_t head, int32_t dim) const {
    const int32_t half = shape_.head_dim / 2;
    const bf16* const from =
        qkv_.data() + row * static_cast<size_t>(shape_.width()) + head * shape_.head_dim;
    const float* const angles = angles_.data() + row * static_cast<size_t>(shape_.head_dim);
    const int32_t i = dim % half;
    const float low = to_float(from[i]);
    const float high = to_float(from[half + i]);
    const float c = angles[i];
    const float s = angles[half + i];
    return static_cast<double>(round_to_bf16(dim < half ? low * c - high * s : high * c + low * s));
  }

  HeadShape shape_;
  int32_t padded_dim_;
  int32_t num_blocks_;
  PagedKvCuda kv_;
  std::vector<std::byte> cache_;
  std::vector<bf16> qkv_;
  std::vector<float> angles_;
  std::vector<int32_t> kv_slots_;
  DeviceBuffer device_cache_, device_qkv_, nan_qkv_, device_q_, device_out_, partials_, arrivals_,
      failed_;
  Stream stream_ = std::move(Stream::create()).value();
};

}  // namespace forerun::cuda
