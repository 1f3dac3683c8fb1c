// A rig that runs a step of attention by every kernel, for the tests of the CUDA kernels: all of
// them must give the same bits, and agree with plain loops in double.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/attention/cuda/attention_rig.h"

namespace forerun::cuda {

// The tolerance for averages of values in [-1, 1] with probabilities and results rounded to bf16.
inline constexpr double kTolerance = 8e-3;

inline bool same_bits(const std::vector<bf16>& a, const std::vector<bf16>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(bf16)) == 0;
}

// Returns the largest difference; infinite if one is not a number.
inline double difference(const bf16* found, const std::vector<double>& expected) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = std::fabs(static_cast<double>(to_float(found[i])) - expected[i]);
    if (!(d <= 1e30)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, d);
  }
  return worst;
}

class AttentionKernels {
 public:
  // The plan of clusters assumes at least this many key/value parts, on a GPU of 132 SMs: with many
  // parts, items have more rows.
  int32_t min_kv_parts = 0;
  int32_t multiprocessors = 132;

  // Runs `step` by every kernel. All must give the same bits, also for a few rows alone, and the
  // reference's result. Returns the kernel that the plan chooses.
  AttentionKernel check(const HeadShape& shape, const TestStep& step, int32_t window,
                        const std::string& what) {
    SCOPED_TRACE(what + ": heads " + std::to_string(shape.num_heads) + "/" +
                 std::to_string(shape.num_kv_heads) + ", dimensions " +
                 std::to_string(shape.head_dim) + ", window " + std::to_string(window));
    AttentionRig rig(shape, step.num_blocks);
    rig.fill_cache(step);
    std::vector<int32_t> ids(step.rows.size());
    std::iota(ids.begin(), ids.end(), 0);
    rig.fill_qkv(ids, step.rows);
    AttentionShapeCuda terms = rig.terms();
    terms.multiprocessors = multiprocessors;
    AttentionShapeCuda clusters = terms;
    clusters.kv_parts = std::max(clusters.kv_parts, min_kv_parts);
    if (min_kv_parts > 0) clusters.multiprocessors = 132;
    AttentionPlanCuda used;
    const std::vector<bf16> found = rig.run(step.rows, window, clusters, &used);
    const std::vector<std::byte> cache = rig.download_cache();
    kernels_.push_back(used.kernel);
    shared_prefixes_ += used.shared_prefix != SharedPrefix::kNone ? 1 : 0;
    const auto width = static_cast<size_t>(shape.num_heads * shape.head_dim);
    const size_t few = std::max<size_t>(1, step.rows.size() / 5);
    for (size_t row = 0; row < step.rows.size(); row += few) {
      EXPECT_LE(
          difference(found.data() + row * width, rig.reference(cache, step.rows[row], row, window)),
          kTolerance)
          << "row " << row;
    }
    // Partitions the same work in other ways, from the same cache.
    const auto again = [&](const AttentionShapeCuda& other, const char* name) {
      rig.fill_cache(step);
      rig.fill_qkv(ids, step.rows);
      AttentionPlanCuda plan;
      EXPECT_TRUE(same_bits(rig.run(step.rows, window, other, &plan), found)) << name;
      EXPECT_TRUE(rig.download_cache() == cache) << name << ": the cache";
      kernels_.push_back(plan.kernel);
      shared_prefixes_ += plan.shared_prefix != SharedPrefix::kNone ? 1 : 0;
    };
    AttentionShapeCuda split = terms;
    split.may_fuse = false;
    again(split, "split");
    if (is_fused_prefill_cluster(used.kernel)) {
      AttentionShapeCuda apart = clusters;
      apart.may_fuse = false;
      again(apart, "prefill clusters that do not append");
    }
    AttentionShapeCuda fused = terms;
    fused.may_cluster = false;
    again(fused, "fused, no clusters");
    AttentionShapeCuda runs = fused;
    runs.min_persistent_units = 0;
    again(runs, "runs");
    runs.multiprocessors = 7;  // fewer workers: they get other shares, and some blocks get none
    again(runs, "runs of few workers");
    runs.multiprocessors = terms.multiprocessors;
    runs.min_persistent_units = std::numeric_limits<int32_t>::max();
    again(runs, "no runs");
    AttentionShapeCuda whole = split;
    whole.max_partials = 0;
    again(whole, "whole, by wgmma where there is no tree");
    whole.may_tile = false;
    again(whole, "whole");
    // Runs rows alone: the others' keys lie in the cache.
    for (size_t row = 0; row < step.rows.size(); row += few) {
      const std::vector<AttentionRow> single_row = {step.rows[row]};
      rig.fill_qkv({ids[row]}, single_row);
      const std::vector<bf16> alone = rig.run(single_row, window, terms);
      EXPECT_EQ(std::memcmp(alone.data(), found.data() + row * width, width * sizeof(bf16)), 0)
          << "row " << row << " alone";
    }
    return used.kernel;
  }
  bool has_run(AttentionKernel kernel) const {
    return std::find(kernels_.begin(), kernels_.end(), kernel) != kernels_.end();
  }

  int shared_prefixes() const { return shared_prefixes_; }

 private:
  std::vector<AttentionKernel> kernels_;
  int shared_prefixes_ = 0;  // runs that used the kernel of shared prefixes
};

}  // namespace forerun::cuda
