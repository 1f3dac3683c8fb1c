// The host's side of a Step's logits. The pass copies rows that are asked for whole to page-locked
// memory. For each other row it writes a summary, and the row itself is copied only if somebody
// needs it later.
//
// A Step's passes overwrite one another's logits on the GPUs, so rows of all passes but the last
// one with logits are copied whole. This also holds for rows over several GPUs with queries for
// sums, if the GPUs do not exchange the rows' largest logits, and for rows with longer lists of
// edits than a pass has room for.
//
// Masks of rows lie in page-locked memory too, where the GPUs read them: one bit per token.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/tensor_view.h"
#include "device/cuda/cuda_memory.h"
#include "kernels/logits_summary/logits_summary.h"
#include "model/cuda/shard.h"

namespace forerun::cuda {

class StepLogitsCuda : public DeviceLogits {
 public:
  // `num_tokens` is the size of the vocabulary. `sums_known` says that the sums of the summaries
  // can be added up.
  StepLogitsCuda(int32_t num_tokens, bool sums_known)
      : num_tokens_(num_tokens), sums_known_(sums_known) {}

  // Returns whether there is page-locked memory for this many rows and masks; make_room() allocates
  // it and frees the old.
  bool has_room(int64_t rows, int64_t masks) const {
    return rows <= capacity_ && masks <= mask_capacity_;
  }
  Status make_room(int64_t rows, int64_t masks);
  // Starts a Step with this many rows with logits, for which there must be room. `queries` has one
  // entry per row; if it is empty, all rows are copied whole.
  void start(int64_t rows, std::span<const RowQuery> queries);
  // Returns the destination of the logits of the pass that computes rows [first, first + count).
  // Valid until the next start().
  HostLogits of_pass(int64_t first, int64_t count, const StepEdits& edits);
  // Edits of the pass with these `queries` of HostLogits: append_edits() appends those that they
  // refer to to the pass's block, count_masks() counts the masks among them, and write_masks()
  // writes these before the launch of the head's kernels.
  void append_edits(std::span<const RowQuery> queries, const StepEdits& edits,
                    StepBlockCuda& block) const;
  static int32_t count_masks(std::span<const RowQuery> queries, const StepEdits& edits);
  void write_masks(std::span<const RowQuery> queries, const StepEdits& edits);
  // Ends the Step after its last pass. `shards` are in the order of their tokens; they must not
  // change until the next start().
  void finish(std::vector<ShardCuda*> shards);

  // Returns f32 [rows][tokens].
  MatrixView<const float> rows() const {
    return {rows_.as<float>(), {static_cast<int64_t>(queries_.size()), num_tokens_}, stride()};
  }
  const LogitsSummary* summary(int32_t logits_row) const override;
  const RowQuery& query(int32_t logits_row) const override {
    return queries_[static_cast<size_t>(logits_row)];
  }
  Status fetch(int32_t logits_row) override;

 private:
  int64_t stride() const;
  // Asks for whole rows if the lists of edits would become too long.
  void limit_lists(std::span<RowQuery> queries, const StepEdits& edits) const;

  int32_t num_tokens_;
  bool sums_known_;
  PinnedBuffer rows_;
  int64_t capacity_ = 0;
  PinnedBuffer masks_;  // uint32 [mask_capacity_][mask_words_cuda(num_tokens_)]
  int64_t mask_capacity_ = 0;
  std::vector<RowQuery> queries_;
  int64_t first_of_pass_ = 0;  // first logits row of the last pass with logits
  std::vector<ShardCuda*> shards_;
  std::vector<LogitsSummary> merged_;  // summaries of the last pass, if several shards have tokens
  std::mutex fetching_;
  std::vector<bool> fetched_;
};

}  // namespace forerun::cuda
