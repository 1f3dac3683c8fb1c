// A model, or a pipeline stage of it, on a device group: its weights, its KV storage and its
// forward pass. Each backend has one implementation; callers only use this interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor_view.h"
#include "checkpoint/model_config.h"
#include "forerun/status.h"
#include "kernels/logits_summary/logits_summary.h"
#include "kernels/logits_summary/row_edits.h"
#include "model/layer_range.h"
#include "step/meanwhile.h"
#include "step/step.h"

namespace forerun {

// Logits of the tokens that one device of a group computes.
struct LogitsPart {
  MatrixView<const float> values;  // f32 [rows with logits][tokens], in host memory
  TokenId first_token = 0;         // token of column 0
  // If not null, `values` has the rows with a summary only after they have been fetched from it.
  DeviceLogits* on_device = nullptr;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual const ModelConfig& config() const = 0;  // configuration of the whole model
  // Returns the layers of the stage. A stage that does not embed takes rows of Step::hidden in
  // place of tokens, and one without the head gives hidden() in place of logits.
  virtual LayerRange layers() const { return LayerRange::all(config()); }
  // Blocks of kKvBlockTokens tokens in the KV storage.
  virtual int64_t kv_blocks() const = 0;
  virtual int64_t kv_block_bytes() const = 0;  // K and V of all its layers
  // Places of its TapStore, in which Steps may keep rows' hidden states (Step::taps).
  virtual int64_t tap_places() const { return 0; }
  // Runs `step`: writes every row's KV to its slot and computes the logits of the rows that want
  // them, in row order. A Step may have any number of rows. A row's result does not depend on other
  // rows, except on those that choose the KV that it attends to (Step::selections; kInvalidArgument
  // if selects_kv() is false).
  virtual Status forward(const Step& step) = 0;
  // Works as forward() does, with `queries` about the logits [rows with logits] and edits to apply
  // first. Logits on a device may stay there; summaries then answer the queries.
  virtual Status forward_summarized(const Step& step, std::span<const RowQuery> /*queries*/,
                                    const StepEdits& /*edits*/, const Meanwhile& meanwhile) {
    if (meanwhile) meanwhile();
    return forward(step);
  }
  // Returns whether it answers queries; if not, logits lie in host memory.
  virtual bool makes_summaries() const { return false; }
  // Returns whether Steps may have selections.
  virtual bool selects_kv() const { return false; }
  // Returns the cost of a choice of KV by 32 observers, which score every key of every layer, as
  // the number of draft rows that could read the same KV in that time. Only if selects_kv().
  virtual double kv_reads_per_selection() const { return 0.0; }
  // Returns whether selections may find tokens by quantized keys (KvSelection::index_blocks;
  // kInvalidArgument if not).
  virtual bool quantizes_keys() const { return false; }
  // Returns ok while the files of the weights have not changed since loading; otherwise the error
  // that ends every pass. May be called from any thread.
  virtual Status check_weights() const { return {}; }
  // Returns the number of devices, each of which holds a part of the model.
  virtual int32_t degree() const { return 1; }
  // Returns a part of the logits of the last forward(), which must have succeeded; valid until the
  // next one. The parts of ranks 0 to degree() - 1 follow each other in token order; tokens behind
  // the last part are never sampled. Parts may be empty.
  virtual LogitsPart logits(int32_t rank) const = 0;
  // Only in a stage without the head: returns every row of the last forward(), which must have
  // succeeded, after the stage's last layer. Valid until the next one.
  virtual HiddenRows hidden() const { return {}; }
  // Appends the contents of these places of its TapStore to `rows`, in the type of hidden rows:
  // [taps][taps of a place][hidden]. Their rows must be in the last forward(), which must have
  // succeeded.
  virtual Status read_taps(std::span<const StepTap> /*taps*/, std::vector<std::byte>& /*rows*/) {
    return {StatusCode::kUnsupported, "taps: found a backend that hands none on between stages"};
  }
  // Only in a last stage: writes the taps that earlier stages have kept for these rows to places of
  // its TapStore. `rows` is [taps][taps in front of its layers, ascending][hidden], in the type of
  // hidden rows. Returns kInvalidArgument if it has another size, or if a place does not exist.
  virtual Status write_taps(std::span<const StepTap> /*taps*/,
                            std::span<const std::byte> /*rows*/) {
    return {StatusCode::kUnsupported, "taps: found a backend that takes none of earlier stages"};
  }
  // Copies KV rows within a sequence, in all layers. `from_slot` >= `to_slot` in every move, and
  // both lists ascend.
  virtual Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) = 0;
  // Returns whether the KV cache lies in host memory; move_kv() then returns after the copies.
  virtual bool has_host_kv() const { return true; }
};

}  // namespace forerun
