// Activations of a forward pass on one CPU device, for up to kMaxChunkRows rows. The system
// allocates pages as rows are used.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/tensor_view.h"
#include "checkpoint/model_config.h"
#include "kernels/linear/linear.h"
#include "kernels/precision.h"
#include "model/shard_plan.h"

namespace forerun {

// A Step's rows pass through the layers in chunks of this size, so that activations stay bounded.
inline constexpr int64_t kMaxChunkRows = 256;
// With up to this many rows, every member normalizes and packs a linear layer's input for itself:
// that takes less time than a barrier, and the copy stays in the member's own cache.
inline constexpr int64_t kMaxOwnRows = 8;

class ForwardBuffers {
 public:
  // Makes room for the part `shard` of the model. `degree` is the number of devices that add up
  // their parts.
  void reserve(const ModelConfig& config, const DeviceShard& shard, int32_t degree,
               Activation activation, int32_t team_size);

  MatrixView<float> hidden(int64_t rows) const { return view(hidden_, rows, hidden_size_); }
  MatrixView<float> normalized(int64_t rows) const { return view(normalized_, rows, hidden_size_); }
  // Only for an EAGLE-3 head: the target's taps, side by side, and the input of the head's first
  // layer, [embedding | feature], of twice the width.
  MatrixView<float> taps(int64_t rows) const { return view(taps_, rows, taps_width_); }
  MatrixView<float> joined(int64_t rows) const { return view(joined_, rows, 2 * hidden_size_); }
  // All query heads that the device's KV heads serve; those of other devices stay zero.
  MatrixView<float> q(int64_t rows) const { return view(q_, rows, q_size_); }
  MatrixView<float> k(int64_t rows) const { return view(k_, rows, kv_size_); }
  MatrixView<float> v(int64_t rows) const { return view(v_, rows, kv_size_); }
  MatrixView<float> attended(int64_t rows) const { return view(attended_, rows, q_size_); }
  MatrixView<float> mlp(int64_t rows) const { return view(mlp_, rows, mlp_size_); }
  // Returns the device's own query heads of q or attended.
  MatrixView<float> own_heads(MatrixView<float> all) const {
    return {all.data() + own_begin_, {all.dim(0), own_size_}, all.outer_stride()};
  }
  // The device's part of the sums after attention and after the MLP. They are two buffers because
  // other devices may still read one while this device writes the other.
  MatrixView<float> attention_partial(int64_t rows) const {
    return view(partials_[0], rows, hidden_size_);
  }
  MatrixView<float> mlp_partial(int64_t rows) const {
    return view(partials_[1], rows, hidden_size_);
  }

  // With `second`, returns another input, for weights that take the same rows in another order. It
  // has no memory until it is packed.
  LinearInput& shared_input(bool second = false) { return shared_inputs_[second ? 1 : 0]; }
  // Returns a team member's own input, for up to kMaxOwnRows rows.
  LinearInput& own_input(int32_t rank, bool second = false) {
    return members_[static_cast<size_t>(rank)].inputs[second ? 1 : 0];
  }
  MatrixView<float> own_normalized(int32_t rank, int64_t rows) const {
    return view(members_[static_cast<size_t>(rank)].normalized, rows, hidden_size_);
  }

 private:
  using Floats = std::unique_ptr<float[]>;
  struct Member {
    std::array<LinearInput, 2> inputs;
    Floats normalized;
  };
  static MatrixView<float> view(const Floats& data, int64_t rows, int64_t width) {
    return {data.get(), {rows, width}};
  }

  int64_t hidden_size_ = 0, q_size_ = 0, kv_size_ = 0, mlp_size_ = 0;
  int64_t taps_width_ = 0;
  int64_t own_begin_ = 0, own_size_ = 0;  // the device's own heads in q
  Floats hidden_, normalized_, taps_, joined_, q_, k_, v_, attended_, mlp_;
  std::array<Floats, 2> partials_;
  std::array<LinearInput, 2> shared_inputs_;
  std::vector<Member> members_;
};

}  // namespace forerun
