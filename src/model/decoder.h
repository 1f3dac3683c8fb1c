// A model, or a stage of it, on a device group: its weights, its KV storage and its forward pass.
// One implementation a backend; everything above sees only this.
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
  MatrixView<const float> values;  // f32 [rows that want][tokens], in host memory
  TokenId first_token = 0;         // token of column 0
  // If not null, `values` has rows with a summary only once they have been fetched from it.
  DeviceLogits* on_device = nullptr;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual const ModelConfig& config() const = 0;  // configuration of the whole model
  // The layers that it holds. A stage takes rows of Step::hidden in place of tokens, unless it
  // embeds, and leaves hidden() in place of logits, unless it has the head.
  virtual LayerRange layers() const { return LayerRange::all(config()); }
  // Blocks of kKvBlockTokens tokens that the KV storage holds.
  virtual int64_t kv_blocks() const = 0;
  virtual int64_t kv_block_bytes() const = 0;  // K and V of all its layers
  // Places of its TapStore, in which Steps may keep rows' hidden states (Step::taps).
  virtual int64_t tap_places() const { return 0; }
  // Runs `step`: writes every row's KV to its slot, and leaves the logits of rows that want them,
  // in row order. Rows may be any number. A row's result does not depend on the other rows, except
  // on those that choose the KV that it sees (Step::selections; kInvalidArgument if selects_kv() is
  // false).
  virtual Status forward(const Step& step) = 0;
  // The same as forward(), but told what will be asked of the logits (`queries` [rows that want])
  // and how to edit them first: logits on a device may stay there, with summaries as the answers.
  virtual Status forward_summarized(const Step& step, std::span<const RowQuery> /*queries*/,
                                    const StepEdits& /*edits*/, const Meanwhile& meanwhile) {
    if (meanwhile) meanwhile();
    return forward(step);
  }
  // Whether it uses the queries; if not, logits lie in host memory.
  virtual bool makes_summaries() const { return false; }
  // Whether Steps may have selections.
  virtual bool selects_kv() const { return false; }
  // The time of a choice of KV by 32 observers, which score every key of every layer, as the number
  // of draft rows that could read the same KV in that time. Only if selects_kv().
  virtual double kv_reads_per_selection() const { return 0.0; }
  // Whether selections may find tokens by quantized keys (KvSelection::index_blocks;
  // kInvalidArgument if not).
  virtual bool quantizes_keys() const { return false; }
  // Ok while the files of the weights are unchanged since they were loaded; otherwise the error
  // that ends every pass. May be called from any thread.
  virtual Status check_weights() const { return {}; }
  // The number of devices, each of which holds a part of the model.
  virtual int32_t degree() const { return 1; }
  // Logits of the last forward, which must have succeeded; valid until the next one. The parts of
  // ranks 0 to degree() - 1 follow each other; tokens past the last one are never sampled. Parts
  // may be empty.
  virtual LogitsPart logits(int32_t rank) const = 0;
  // Only in a stage without the head: every row of the last forward, which must have succeeded,
  // after the stage's last layer. Valid until the next one.
  virtual HiddenRows hidden() const { return {}; }
  // Appends to `rows` what these places of its TapStore hold, in the type of hidden rows:
  // [taps][taps of a place][hidden]. Their rows were in the last forward, which must have
  // succeeded.
  virtual Status read_taps(std::span<const StepTap> /*taps*/, std::vector<std::byte>& /*rows*/) {
    return {StatusCode::kUnsupported, "taps: found a backend that hands none on between stages"};
  }
  // Only in a last stage: writes what the stages before it have kept of these rows into places of
  // its TapStore. `rows` [taps][taps in front of its layers, ascending][hidden], in the type of
  // hidden rows; kInvalidArgument where it has another size, or a place is not there.
  virtual Status write_taps(std::span<const StepTap> /*taps*/,
                            std::span<const std::byte> /*rows*/) {
    return {StatusCode::kUnsupported, "taps: found a backend that takes none of earlier stages"};
  }
  // Copies KV rows within a sequence, all layers at once. `from_slot` >= `to_slot` in every move
  // and both lists ascend.
  virtual Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) = 0;
  // Whether the KV cache lies in host memory, where move_kv() ends with the copies.
  virtual bool has_host_kv() const { return true; }
};

}  // namespace forerun
