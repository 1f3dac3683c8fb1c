// What biases, penalties and constraints do to the logits of rows, read off the rows' contexts: for
// a device to apply where the logits lie, and for the sampler to apply on the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/sampling_params.h"
#include "kernels/row_digest/row_edits.h"
#include "sampling/token_counts.h"
#include "step/token_constraint.h"
#include "step/types.h"

namespace forerun {

struct RowContext;

// Reusable: keeps its memory. One thread.
class EditList : public StepEdits {
 public:
  void clear();
  // The edits of a row. What the context points to must stay until the next clear(). Rows of one
  // sequence follow each other, parents before children: a row's path through its constraint goes
  // on from its parent's.
  int32_t add(const RowContext& context);
  // Whether devices take the edits.
  bool fits_devices(int32_t edits) const;

  const RowEdits& row(int32_t edits) const override { return rows_[static_cast<size_t>(edits)]; }
  int32_t num_masks() const override { return static_cast<int32_t>(masks_.size()); }
  void write_mask(int32_t mask, std::span<uint32_t> words) const override;

 private:
  // Vectors that stay where they are and are used again.
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
  // Where a row's path has led in its constraint.
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
  const SamplingParams* biased_by_ = nullptr;  // whose biases are the pool's last
  bool with_ends_ = false;                     // and whether end tokens are held back by them
};

}  // namespace forerun
