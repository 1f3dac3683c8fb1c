// The data of one pass over a Step's rows for a GPU's kernels. It is one block of bytes, which the
// host writes to mapped memory and the pass's first kernel copies to the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/status.h"
#include "kernels/attention/cuda/attention.h"
#include "kernels/attention/cuda/plan.h"
#include "kernels/features/cuda/keep_taps.h"
#include "kernels/features/cuda/row_features.h"
#include "kernels/logits_summary/logits_summary.h"
#include "kernels/logits_summary/row_edits.h"
#include "kernels/rope/rope.h"
#include "step/step.h"

namespace forerun::cuda {

// A Step's rows pass through the layers in chunks of at most this size. A pass reads the weights
// once, which takes a sixth of the time of multiplying them by 1,024 rows (8B), and its activations
// stay in the L2.
inline constexpr int32_t kMaxPassRows = 1024;
// Passes of up to this many rows have graphs; with more rows, launches take less time than kernels.
inline constexpr int32_t kMaxGraphRows = 128;
// Returns the rows for which a pass of `rows` is captured: one of a few sizes if passes have
// graphs, so that a few captures suffice; otherwise `rows`. Returns 0 for 0.
int32_t pass_bucket(int32_t rows);

// The block's header, with all data at fixed places; `attention` has the offsets of the other data.
struct alignas(16) StepHeaderCuda {
  AttentionStepCuda attention;
  int32_t bytes = 0;  // bytes of the whole block, a multiple of 16
  int32_t num_wanted = 0;
  int32_t queries_offset = 0;  // [num_wanted] RowQuery
  int32_t edits_offset = 0;    // RowEditsCuda, as many as queries refer to
  int32_t num_taps = 0;
  int32_t taps_offset = 0;      // [num_taps] TapPlaceCuda
  int32_t features_offset = 0;  // RowFeatureCuda, pass_bucket() of them, in a trained head
  int32_t unused = 0;
  // The tokens of the rows, pass_bucket() of them; then, from wanted_offset() on, the rows with
  // logits, ascending, as many as their bucket. The block ends there.
  int32_t tokens[2 * kMaxPassRows] = {};

  // Returns bytes from the block's start, for a pass of `rows` rows.
  static int32_t wanted_offset(int32_t rows) {
    return static_cast<int32_t>(offsetof(StepHeaderCuda, tokens)) +
           (pass_bucket(rows) + 3) / 4 * 16;
  }
};

static_assert(offsetof(StepHeaderCuda, tokens) % 16 == 0);

// Shapes for the plan and for RoPE, and the ends of the model that the pass has.
struct StepShapeCuda {
  AttentionShapeCuda attention;
  int32_t head_dim = 0;
  bool embeds = true;  // if false, "tokens" are indices of the pass's hidden rows
  bool heads = true;   // if false, no row wants logits
};

// A KvSelection of a pass; fields without a comment are as in KvSelection.
struct PassSelectionCuda {
  int32_t first_row = 0;  // row of the pass
  int32_t observers = 0;
  int32_t first_weighed = 0;
  int32_t weighed_step = 0;
  int32_t max_weighed() const { return first_weighed + weighed_step * (observers - 1); }
  int32_t tokens = 0;
  int32_t chosen = 0;
  int32_t pooling = 1;
  // Offsets of int32 lists, in bytes from the block's start: the sequence's blocks that observers
  // weigh, and the blocks to gather into.
  int32_t table_offset = 0, blocks_offset = 0;
};

// A builder of step blocks, which reuses its memory.
class StepBlockCuda {
 public:
  // Returns the end of the pass of at most `max_rows` rows that begins with row `begin` of `step`.
  // Observers of one selection stay in one pass if they fit into one.
  static size_t pass_end(const Step& step, size_t begin, int32_t max_rows);
  // Builds the block of rows [begin, pass_end) of `step`. `queries` has one entry for each of these
  // rows with logits; further entries are ignored. Prepares `rope` for the rows' positions.
  void build(const Step& step, size_t begin, size_t end, std::span<const RowQuery> queries,
             const StepShapeCuda& shape, RopeTable& rope);

  // Replaces tokens, queries and the contents of block tables by those of `step`. Each row must
  // have the same position, slot, visible KV and wish for logits as the row for which the block was
  // built. No row may have ancestors, taps or a feature, each must have its own sequence, and no
  // row may choose KV.
  void refill(const Step& step, std::span<const RowQuery> queries);

  // Appends the edits that the pass's `queries` for summaries refer to; call it once after build()
  // or refill(). `masks` holds the words of all masks, for the device to read; mask m of the Step
  // begins at word m * mask_words.
  void append_edits(std::span<const RowQuery> queries, const StepEdits& edits,
                    const uint32_t* masks, int64_t mask_words);

  int32_t num_rows() const { return static_cast<int32_t>(rows_.size()); }
  int32_t num_wanted() const { return num_wanted_; }
  AttentionKernel kernel() const { return plan_.kernel; }
  SharedPrefix shared_prefix() const { return plan_.shared_prefix; }
  std::span<const PassSelectionCuda> selections() const { return selections_; }
  bool keeps_taps() const { return !taps_.empty(); }
  // Returns whether a row starts from taps of the target.
  bool projects_taps() const { return projects_taps_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  // Fill taps_ and features_ with those of rows [begin, end).
  void list_taps(const Step& step, size_t begin, size_t end);
  void list_features(const Step& step, size_t begin, size_t end);

  std::vector<AttentionRow> rows_;
  AttentionPlanCuda plan_;
  int32_t num_wanted_ = 0;
  bool embeds_ = true;
  std::vector<PassSelectionCuda> selections_;
  std::vector<TapPlaceCuda> taps_;
  std::vector<RowFeatureCuda> features_;
  bool projects_taps_ = false;
  std::vector<std::byte> bytes_;
};

}  // namespace forerun::cuda
