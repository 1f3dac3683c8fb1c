// The host's side of a Step's logits. Rows that are asked for whole are copied to its page-locked
// memory with the pass; of other rows it gets a summary, and the row itself only if somebody needs
// it later.
//
// A Step's passes overwrite one another's logits on the GPUs, so rows of all but the last pass that
// wants any come whole. So do rows over several GPUs of which sums are asked, if the GPUs do not
// tell one another the rows' largest logits, and rows whose edits have longer lists than a pass has
// room for.
//
// Masks of rows lie in its page-locked memory too, where the GPUs read them: a bit per token.
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
  // `num_tokens`: tokens of the vocabulary. `sums_known`: sums of the summaries can be added up.
  StepLogitsCuda(int32_t num_tokens, bool sums_known)
      : num_tokens_(num_tokens), sums_known_(sums_known) {}

  // Whether there is page-locked memory for so many rows and so many masks; make_room() allocates
  // it and frees the old.
  bool has_room(int64_t rows, int64_t masks) const {
    return rows <= capacity_ && masks <= mask_capacity_;
  }
  Status make_room(int64_t rows, int64_t masks);
  // Starts a Step of so many rows that want logits, for which there must be room. `queries`: one
  // for each row; empty: all rows come whole.
  void start(int64_t rows, std::span<const RowQuery> queries);
  // The place for the logits of the pass that computes rows [first, first + count). Valid until the
  // next start().
  HostLogits of_pass(int64_t first, int64_t count, const StepEdits& edits);
  // For the pass with these `queries` of HostLogits: append_edits() appends the edits that they
  // refer to to the pass's block, count_masks() counts the masks among them, and write_masks()
  // writes these before the head's kernels are launched.
  void append_edits(std::span<const RowQuery> queries, const StepEdits& edits,
                    StepBlockCuda& block) const;
  static int32_t count_masks(std::span<const RowQuery> queries, const StepEdits& edits);
  void write_masks(std::span<const RowQuery> queries, const StepEdits& edits);
  // Ends the Step after its last pass. `shards`: in the order of their tokens; they must stay as
  // they are until the next start().
  void finish(std::vector<ShardCuda*> shards);

  // f32 [rows][tokens]
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
  // Asks for whole rows where the lists of edits would become too long.
  void limit_lists(std::span<RowQuery> queries, const StepEdits& edits) const;

  int32_t num_tokens_;
  bool sums_known_;
  PinnedBuffer rows_;
  int64_t capacity_ = 0;
  PinnedBuffer masks_;  // uint32 [mask_capacity_][mask_words_cuda(num_tokens_)]
  int64_t mask_capacity_ = 0;
  std::vector<RowQuery> queries_;
  int64_t first_of_pass_ = 0;  // first logits row of the last pass that wants any
  std::vector<ShardCuda*> shards_;
  std::vector<LogitsSummary> merged_;  // summaries of the last pass, if several shards have tokens
  std::mutex fetching_;
  std::vector<bool> fetched_;
};

}  // namespace forerun::cuda
