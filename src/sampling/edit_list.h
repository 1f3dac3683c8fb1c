// The edits of logits by biases, penalties and constraints, derived from the rows' contexts. A
// device applies them to logits in its memory; otherwise the sampler applies them on the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/sampling_params.h"
#include "kernels/logits_summary/row_edits.h"
#include "sampling/token_counts.h"
#include "step/token_constraint.h"
#include "step/types.h"

namespace forerun {

struct RowContext;

// Reusable: keeps its memory. Thread rules: one thread.
class EditList : public StepEdits {
 public:
  void clear();
  // Adds the edits of a row and returns their index. The data that the context points to must live
  // until the next clear(). The rows of one sequence must be added consecutively, parents before
  // children: the constraint's state of a row is computed from that of its parent.
  int32_t add(const RowContext& context);
  // Returns whether devices can apply the edits.
  bool fits_devices(int32_t edits) const;

  const RowEdits& row(int32_t edits) const override { return rows_[static_cast<size_t>(edits)]; }
  int32_t num_masks() const override { return static_cast<int32_t>(masks_.size()); }
  void write_mask(int32_t mask, std::span<uint32_t> words) const override;

 private:
  // Vectors that keep their addresses and are reused.
  template <class T>
  struct Pool {
    std::vector<std::vector<T>> all;
    size_t used = 0;
    std::vector<T>& next() {
      if (used == all.size()) all.emplace_back();
      all[used].clear();
      return all[used++];
    }
  };
  struct Mask {
    const TokenConstraint* constraint;
    TokenConstraint::State state;
  };
  // The constraint's state after a row's path.
  struct Walk {
    const TokenConstraint::State* from;
    std::span<const TokenId> path;
    TokenConstraint::State state;
    int32_t mask;
  };

  std::span<const TokenBias> biases_of(const RowContext& context);
  std::span<const TokenCount> count_path(const RowContext& context);
  int32_t mask_of(const RowContext& context);

  std::vector<RowEdits> rows_;
  std::vector<Mask> masks_;
  std::vector<Walk> walks_;
  Pool<TokenBias> biases_;
  Pool<TokenCount> paths_;
  const SamplingParams* biased_by_ = nullptr;  // parameters of the pool's last biases
  bool with_ends_ = false;                     // whether these biases exclude end tokens
};

}  // namespace forerun
