// A model on a device group: its weights, its KV storage and its forward pass. One implementation a
// backend; everything above sees only this.
#pragma once

#include <cstdint>
#include <span>

#include "base/tensor_view.h"
#include "checkpoint/model_config.h"
#include "forerun/status.h"
#include "step/step.h"

namespace forerun {

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual const ModelConfig& config() const = 0;
  // Blocks of kKvBlockTokens tokens that the KV storage holds.
  virtual int64_t kv_blocks() const = 0;
  virtual int64_t kv_block_bytes() const = 0;  // K and V of all layers
  // Runs `step`: writes every row's KV to its slot, and leaves the logits of rows that want them,
  // in row order. Rows may be any number; the result of a row does not depend on the others.
  virtual Status forward(const Step& step) = 0;
  // f32 logits of the last forward, [rows that want][vocab_size], in device memory; valid until the
  // next forward.
  virtual MatrixView<const float> logits() const = 0;
  // Copies KV rows within a sequence, all layers at once. `from_slot` >= `to_slot` in every move
  // and both lists ascend.
  virtual Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) = 0;
};

}  // namespace forerun
