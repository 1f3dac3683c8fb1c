#include "model/forward_buffers.h"

#include <algorithm>

namespace forerun {

void ForwardBuffers::reserve(const ModelConfig& config, const DeviceShard& shard, int32_t degree,
                             Activation activation, int32_t team_size) {
  const int64_t group = config.num_heads / config.num_kv_heads;
  hidden_size_ = config.hidden_size;
  q_size_ = shard.kv_heads.size() * group * config.head_dim;
  own_begin_ = shard.first_slot * config.head_dim;
  own_size_ = shard.heads.size() * config.head_dim;
  kv_size_ = shard.kv_heads.size() * config.head_dim;
  mlp_size_ = shard.mlp.size();
  const auto floats = [](int64_t rows, int64_t width) {
    return std::make_unique_for_overwrite<float[]>(static_cast<size_t>(rows * width));
  };
  hidden_ = floats(kMaxChunkRows, hidden_size_);
  normalized_ = floats(kMaxChunkRows, hidden_size_);
  q_ = floats(kMaxChunkRows, q_size_);
  if (own_size_ < q_size_) std::fill_n(q_.get(), kMaxChunkRows * q_size_, 0.0f);
  k_ = floats(kMaxChunkRows, kv_size_);
  v_ = floats(kMaxChunkRows, kv_size_);
  attended_ = floats(kMaxChunkRows, q_size_);
  mlp_ = floats(kMaxChunkRows, mlp_size_);
  if (degree > 1) {
    for (Floats& partial : partials_) partial = floats(kMaxChunkRows, hidden_size_);
  }
  int64_t widest = std::max({hidden_size_, q_size_, mlp_size_});
  if (config.eagle3) {
    taps_width_ = config.eagle3->taps_width();
    taps_ = floats(kMaxChunkRows, taps_width_);
    joined_ = floats(kMaxChunkRows, 2 * hidden_size_);
    widest = std::max({widest, taps_width_, 2 * hidden_size_});
  }
  shared_inputs_[0].reserve(kMaxChunkRows, widest, activation);
  members_.resize(static_cast<size_t>(team_size));
  for (Member& member : members_) {
    member.inputs[0].reserve(kMaxOwnRows, widest, activation);
    member.normalized = floats(kMaxOwnRows, hidden_size_);
  }
}

}  // namespace forerun
