// The base class of wrapping runners, which forwards everything but run() to an inner runner.
// Derived runners time, record or replace the inner runner's work on a Step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "exec/step_runner.h"

namespace forerun {

// `Base` is StepRunner or PipelinedRunner. Derived classes implement run().
template <class Base>
class ForwardingRunner : public Base {
 public:
  const ModelConfig& config() const override { return inner_->config(); }
  int32_t live_vocab() const override { return inner_->live_vocab(); }
  int64_t kv_blocks() const override { return inner_->kv_blocks(); }
  int64_t kv_block_bytes() const override { return inner_->kv_block_bytes(); }
  int64_t tap_places() const override { return inner_->tap_places(); }
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override {
    return inner_->move_kv(sequence, moves);
  }
  bool has_host_kv() const override { return inner_->has_host_kv(); }

 protected:
  explicit ForwardingRunner(std::unique_ptr<StepRunner> inner) : inner_(std::move(inner)) {}
  StepRunner& inner() { return *inner_; }

 private:
  const std::unique_ptr<StepRunner> inner_;
};

}  // namespace forerun
