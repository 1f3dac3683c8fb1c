// A model, or a stage of it, on a device group: its weights, its KV storage and its forward pass.
// One implementation a backend; everything above sees only this.
#pragma once

#include <cstdint>
#include <span>

#include "base/tensor_view.h"
#include "checkpoint/model_config.h"
#include "forerun/status.h"
#include "kernels/row_digest/row_digest.h"
#include "kernels/row_digest/row_edits.h"
#include "model/layer_range.h"
#include "step/meanwhile.h"
#include "step/step.h"

namespace forerun {

// Logits of the tokens that one device of a group answers for.
struct LogitsPart {
  MatrixView<const float> values;  // f32 [rows that want][tokens], in host memory
  TokenId first_token = 0;         // token of column 0
  // Not null: rows of which it has a summary are in `values` once they have been fetched.
  DeviceLogits* on_device = nullptr;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual const ModelConfig& config() const = 0;  // the whole model's
  // What of the model it holds. A stage runs rows of Step::hidden in place of tokens, unless it
  // embeds; and leaves hidden() in place of logits, unless it has the head.
  virtual LayerRange layers() const { return LayerRange::all(config()); }
  // Blocks of kKvBlockTokens tokens that the KV storage holds.
  virtual int64_t kv_blocks() const = 0;
  virtual int64_t kv_block_bytes() const = 0;  // K and V of all its layers
  // Runs `step`: writes every row's KV to its slot, and leaves the logits of rows that want them,
  // in row order. Rows may be any number; the result of a row does not depend on the others, but
  // for those that choose the KV that it sees (Step::selections; kInvalidArgument where
  // selects_kv() is false).
  virtual Status forward(const Step& step) = 0;
  // As forward(), told what will be asked of the logits, [rows that want], and how they are to be
  // edited first: where they lie on a device, they may stay there and be answered for by summaries.
  virtual Status forward_summarized(const Step& step, std::span<const RowQuery> /*queries*/,
                                    const StepEdits& /*edits*/, const Meanwhile& meanwhile) {
    if (meanwhile) meanwhile();
    return forward(step);
  }
  // Whether it looks at the queries; else logits lie in host memory.
  virtual bool makes_summaries() const { return false; }
  // Whether Steps may have selections.
  virtual bool selects_kv() const { return false; }
  // How long a choice of KV by 32 observers takes, which score every key of every layer: as many
  // draft rows read the same KV meanwhile. Only where selects_kv().
  virtual double readings_a_choice() const { return 0.0; }
  // Whether selections may find tokens by quantized keys (KvSelection::index_blocks;
  // kInvalidArgument where it is false).
  virtual bool quantizes_keys() const { return false; }
  // Ok while the files of the weights are what they were when they were loaded; otherwise the error
  // with which every pass would end. May be called from any thread.
  virtual Status check_weights() const { return {}; }
  // Devices that hold a part of the model each.
  virtual int32_t degree() const { return 1; }
  // Of the last forward, which went well; valid until the next one. The parts of ranks 0 to
  // degree() - 1 follow each other; tokens past the last one are never sampled. Parts may be empty.
  virtual LogitsPart logits(int32_t rank) const = 0;
  // Of a stage without the head: every row of the last forward, which went well, behind its last
  // layer. Valid until the next one.
  virtual HiddenRows hidden() const { return {}; }
  // Copies KV rows within a sequence, all layers at once. `from_slot` >= `to_slot` in every move
  // and both lists ascend.
  virtual Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) = 0;
};

}  // namespace forerun
