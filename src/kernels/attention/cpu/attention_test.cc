// Compares attention() with its reference implementation: shapes, contexts around tile and span
// edges, windows, prefix rows and trees, f32 and bf16 caches.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/sanitized.h"
#include "kernels/attention/cpu/test_cache.h"
#include "kernels/attention/cpu/tile.h"
#include "kernels/forced_isa_rig.h"
#include "kernels/isa.h"

namespace forerun {

#if defined(__x86_64__)
const AttentionTypeKernels& attention_kernels_bf16_dot_emulated();
#endif

namespace {

// Outputs are averages of values in [-1, 1]; a score of magnitude up to 2 * sqrt(head_dim) carries
// an f32 error of a few 1e-6, and so does its exponential.
constexpr double kTolerance = 2e-5;

// The tolerance of bf16 products. Queries are rounded to bf16 (the reference gets rounded ones),
// and the relative error of a probability is at most 2^-9, so that of an average of values in [-1,
// 1] is at most twice that.
constexpr double kDotTolerance = kTolerance + 1.0 / 256.0;

double max_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0.0;
  for (size_t index = 0; index < a.size(); ++index) {
    const double difference = std::fabs(static_cast<double>(a[index]) - b[index]);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, difference);
  }
  return worst;
}

struct Case {
  int32_t num_heads, num_kv_heads, head_dim, window;
  DType dtype;
};

std::vector<float> reference(const std::vector<float>& q, const std::vector<AttentionRow>& rows,
                             const PagedKv& kv, int32_t num_heads, int32_t window) {
  std::vector<float> out(q.size());
  const std::array<int64_t, 2> shape{static_cast<int64_t>(rows.size()),
                                     static_cast<int64_t>(num_heads) * kv.head_dim};
  const std::vector<float> used = used_queries(q, kv);
  attention_ref(MatrixView<const float>(used.data(), shape), rows, kv, window,
                MatrixView<float>(out.data(), shape));
  return out;
}

// Checks `num_rows` prefix rows that end at position `last`, then the same rows as tree rows behind
// a boundary.
void check(const Case& shape, int32_t last, int32_t num_rows, int32_t boundary) {
  const std::vector<int32_t> table = {9, 3, 11, 0, 7, 5, 1, 10, 4, 2, 6, 8};
  TestCache cache(shape.dtype, 12, shape.num_kv_heads, shape.head_dim);
  const int64_t width = static_cast<int64_t>(shape.num_heads) * shape.head_dim;
  // Tree rows lie behind the boundary in reverse order.
  std::vector<int32_t> ancestors;
  for (int32_t position = boundary; position <= last; ++position) {
    ancestors.push_back(boundary + (last - position));
  }
  for (int32_t position = 0; position <= last; ++position) {
    const int32_t slot =
        position < boundary ? position : ancestors[static_cast<size_t>(position - boundary)];
    cache.put(table, slot, 1, position);
  }
  std::vector<AttentionRow> rows;
  std::vector<float> q;
  for (int32_t position = last - num_rows + 1; position <= last; ++position) {
    AttentionRow row;
    row.last_visible = position;
    row.boundary = std::min(boundary, position + 1);
    row.block_table = table.data();
    row.ancestors = ancestors.data();
    rows.push_back(row);
    const std::vector<float> query = query_of(1, position, width);
    q.insert(q.end(), query.begin(), query.end());
  }
  const std::vector<float> expected = reference(q, rows, cache.kv(), shape.num_heads, shape.window);
  const std::vector<float> found =
      run_attention(q, rows, cache.kv(), shape.num_heads, shape.window, 1);
  EXPECT_LE(max_difference(found, expected), uses_bf16_dot(cache.kv()) ? kDotTolerance : kTolerance)
      << "heads " << shape.num_heads << "/" << shape.num_kv_heads << " dim " << shape.head_dim
      << " window " << shape.window << " last " << last << " rows " << num_rows << " boundary "
      << boundary << " isa " << isa_name(current_isa());
}

TEST(Attention, MatchesTheReferenceOverShapes) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const int32_t head_dim : {8, 16, 24, 64, 80, 96, 128}) {
      for (const int32_t group : {1, 2, 3, 4, 7, 40}) {
        if (kSanitized && (head_dim / 8 + group) % 3 != 0) continue;
        const Case shape{group * 2, 2, head_dim, 0, dtype};
        check(shape, 70, 3, 71);
        check(shape, 70, 3, 60);
      }
    }
  }
}

TEST(Attention, MatchesTheReferenceOverContexts) {
  for (const int32_t last : {0, 1, 15, 16, 62, 63, 64, 65, 127, 128, 255, 256, 257, 511, 600}) {
    for (const int32_t num_rows : {1, 2, 5, 17, 70}) {
      if (num_rows > last + 1) continue;
      if (kSanitized && (last + num_rows) % 3 != 0) continue;
      const Case shape{4, 2, 32, 0, DType::kBf16};
      check(shape, last, num_rows, last + 1);
      check(shape, last, std::min(num_rows, 5), std::max(0, last - 7));
      check(shape, last, std::min(num_rows, 5), 0);
    }
  }
}

TEST(Attention, MatchesTheReferenceOverWindows) {
  for (const int32_t window : {1, 2, 32, 63, 64, 65, 100, 256, 300}) {
    for (const int32_t last : {0, 31, 32, 63, 64, 100, 300, 520}) {
      const Case shape{4, 2, 16, window, DType::kF32};
      check(shape, last, std::min(last + 1, 20), last + 1);
      check(shape, last, 1, std::max(0, last - 3));
    }
  }
}

// The scores are far apart: all but the largest underflow, and no result may become NaN.
TEST(Attention, SurvivesExtremeScores) {
  const std::vector<int32_t> table = {0, 1};
  TestCache cache(DType::kF32, 2, 1, 16);
  for (int32_t position = 0; position < 100; ++position) cache.put(table, position, 1, position);
  AttentionRow row;
  row.last_visible = 99;
  row.boundary = 100;
  row.block_table = table.data();
  std::vector<float> q = query_of(1, 99, 16);
  for (float& x : q) x *= 1e4f;
  const std::vector<float> found = run_attention(q, {row}, cache.kv(), 1, 0, 1);
  EXPECT_LE(max_difference(found, reference(q, {row}, cache.kv(), 1, 0)), kTolerance);
}

TEST(Attention, ComparisonSeesWhatItMust) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_GT(max_difference({0.0f, -1.0f}, {0.0f, 1.0f}), 1.9);
  EXPECT_FALSE(max_difference({nan, 0.0f}, {0.0f, 0.0f}) <= kTolerance);
  EXPECT_FALSE(max_difference({0.0f, -INFINITY}, {0.0f, 0.0f}) <= kTolerance);
}

class AttentionTiles : public ::testing::Test {
 protected:
  static constexpr int64_t kDim = 96;
  static constexpr int32_t kQueries = 7;

  // Runs the same tile twice for a few queries, merges the second query's state into the first's,
  // and returns all outputs.
  static std::vector<float> run(DType dtype, const AttentionTypeKernels& kernels) {
    TestCache cache(dtype, 1, 1, kDim);
    const std::vector<int32_t> table = {0};
    for (int32_t position = 0; position < kAttentionTile; ++position) {
      cache.put(table, position, 3, position);
    }
    std::vector<const std::byte*> keys, values;
    for (int32_t position = 0; position < kAttentionTile; ++position) {
      if (position % kKeyGroup == 0) keys.push_back(cache.kv().key(0, position, 0));
      values.push_back(cache.kv().value(0, position, 0));
    }
    const int64_t state_floats = softmax_state_floats(kDim);
    std::vector<std::vector<std::byte>> queries(kQueries);
    std::vector<float> states(static_cast<size_t>(kQueries * state_floats), 0.0f);
    std::vector<float> scores(kQueries * kAttentionTile);
    std::vector<const std::byte*> query_pointers;
    std::vector<float*> state_pointers;
    std::vector<int32_t> first, last;
    for (int32_t query = 0; query < kQueries; ++query) {
      std::vector<std::byte>& loaded = queries[static_cast<size_t>(query)];
      loaded.resize(kDim * sizeof(float));
      kernels.load_query(query_of(3, query, kDim).data(), kDim, kDim, loaded.data());
      query_pointers.push_back(loaded.data());
      state_pointers.push_back(states.data() + query * state_floats);
      state_pointers.back()[kDim] = -INFINITY;
      first.push_back(query);
      last.push_back(20 + 6 * query);
    }
    AttentionTile tile;
    tile.padded_dim = kDim;
    tile.scale = 1.0f / std::sqrt(static_cast<float>(kDim));
    tile.num_queries = kQueries;
    tile.queries = query_pointers.data();
    tile.first = first.data();
    tile.last = last.data();
    tile.states = state_pointers.data();
    tile.keys = keys.data();
    tile.values = values.data();
    tile.scores = scores.data();
    kernels.tile(tile);
    kernels.tile(tile);  // again, onto states that are not empty
    kernels.merge(state_pointers[0], state_pointers[1], kDim);
    std::vector<float> out(kQueries * kDim);
    for (int32_t query = 0; query < kQueries; ++query) {
      kernels.finish(state_pointers[static_cast<size_t>(query)], kDim, kDim,
                     out.data() + query * kDim);
    }
    return out;
  }
};

// Tests every instruction set of this CPU, whatever FORERUN_ISA says.
TEST_F(AttentionTiles, InstructionSetsAgree) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const auto of = [dtype](const AttentionKernels& kernels) {
      return run(dtype, dtype == DType::kF32 ? kernels.f32 : kernels.bf16);
    };
    const std::vector<float> portable = of(attention_kernels_scalar());
    EXPECT_GT(*std::max_element(portable.begin(), portable.end()), 0.3f);
#if defined(__x86_64__)
    if (isa_is_supported(Isa::kAvx2)) {
      EXPECT_LE(max_difference(of(attention_kernels_avx2()), portable), kTolerance);
    }
    if (isa_is_supported(Isa::kAvx512)) {
      EXPECT_LE(max_difference(of(attention_kernels_avx512()), portable), kTolerance);
    }
#endif
  }
}

#if defined(__x86_64__)
// Compares the instruction with its emulation bit by bit, and both with f32 within the error of
// bf16: a score of queries and keys in [-2, 2] is off by 2^-9 of its products, so probabilities by
// a few percent at most.
TEST_F(AttentionTiles, ProductsOfBf16) {
  if (!isa_is_supported(Isa::kAvx512)) GTEST_SKIP() << "no AVX-512";
  const std::vector<float> emulated = run(DType::kBf16, attention_kernels_bf16_dot_emulated());
  const std::vector<float> portable = run(DType::kBf16, attention_kernels_scalar().bf16);
  EXPECT_LE(max_difference(emulated, portable), 1e-2);
  EXPECT_GT(max_difference(emulated, portable), kTolerance);  // the kernel must round
  if (isa_is_supported(Isa::kAvx512Bf16)) {
    EXPECT_EQ(run(DType::kBf16, attention_kernels_bf16_dot()), emulated);
  }
}
#endif

}  // namespace
}  // namespace forerun
