// A decoder without a model for the executor's tests: its KV slots hold (token, position), and a
// row's logits are a hash of the tokens that it really sees, in order. A wrong slot, boundary,
// ancestor list, block table or move changes the logits, and is noted besides.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "model/decoder.h"

namespace forerun {

inline uint64_t fake_mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 29;
}

inline uint64_t fake_history(const std::vector<TokenId>& tokens, uint64_t seed) {
  uint64_t hash = seed;
  for (TokenId token : tokens) hash = fake_mix(hash, static_cast<uint64_t>(token) + 1);
  return hash;
}

// Logits in (-4, 4) after a history.
inline void fake_logits(uint64_t history, int32_t vocab, float* logits) {
  for (int32_t token = 0; token < vocab; ++token) {
    const uint64_t hash = fake_mix(history, static_cast<uint64_t>(token) + 77);
    logits[token] = static_cast<float>(hash >> 40) * 0x1p-21f - 4.0f;
  }
}

class FakeDecoder : public Decoder {
 public:
  FakeDecoder(int32_t vocab, int64_t blocks, uint64_t seed)
      : seed_(seed), slots_(static_cast<size_t>(blocks * kKvBlockTokens)) {
    config_.vocab_size = vocab;
    config_.max_position = 1 << 20;
  }

  const ModelConfig& config() const override { return config_; }
  int64_t kv_blocks() const override {
    return static_cast<int64_t>(slots_.size()) / kKvBlockTokens;
  }
  int64_t kv_block_bytes() const override { return 1000; }

  Status forward(const Step& step) override {
    largest_step = std::max(largest_step, static_cast<int32_t>(step.rows.size()));
    logits_.clear();
    for (const StepRow& row : step.rows) {
      const StepSequence& sequence = step.sequences[static_cast<size_t>(row.sequence_idx)];
      cell(sequence, row.slot) = {row.token, row.position};
      uint64_t hash = seed_;
      for (int32_t position = 0; position <= row.position; ++position) {
        const int32_t slot =
            position < row.boundary
                ? position
                : step.ancestors[static_cast<size_t>(row.ancestor_begin + position - row.boundary)];
        const Cell& seen = cell(sequence, slot);
        if (seen.position != position) ++violations;
        if (position == row.position && slot != row.slot) ++violations;
        hash = fake_mix(hash, static_cast<uint64_t>(seen.token) + 1);
      }
      if (!row.wants_logits) continue;
      if (astray_one_in > 0 && hash % astray_one_in == 0) hash = fake_mix(hash, 5);
      logits_.resize(logits_.size() + static_cast<size_t>(config_.vocab_size));
      fake_logits(hash, config_.vocab_size, &logits_[logits_.size()] - config_.vocab_size);
      if (poison_position == row.position) logits_.back() = 0.0f / zero_;
    }
    if (throws || fail) {
      // What a broken Step leaves behind is of no use to anybody.
      for (const StepRow& row : step.rows) {
        cell(step.sequences[static_cast<size_t>(row.sequence_idx)], row.slot) = {};
      }
    }
    if (throws) throw std::runtime_error("the device threw");
    return fail ? Status(StatusCode::kInternal, "the device is gone") : Status();
  }

  // Devices that the vocabulary is shared among, 16 tokens at a time.
  void set_degree(int32_t degree) { degree_ = degree; }
  int32_t degree() const override { return degree_; }
  LogitsPart logits(int32_t rank) const override {
    const int32_t vocab = config_.vocab_size;
    const int32_t units = (vocab + 15) / 16;
    const int32_t first = std::min(vocab, rank * units / degree_ * 16);
    const int32_t last = std::min(vocab, (rank + 1) * units / degree_ * 16);
    return {{logits_.data() + first,
             {static_cast<int64_t>(logits_.size()) / vocab, last - first},
             vocab},
            first};
  }

  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override {
    for (size_t index = 0; index < moves.size(); ++index) {
      if (moves[index].from_slot < moves[index].to_slot) ++violations;
      if (index > 0 && moves[index].to_slot <= moves[index - 1].to_slot) ++violations;
      cell(sequence, moves[index].to_slot) = cell(sequence, moves[index].from_slot);
    }
    return {};
  }

  int64_t violations = 0;
  int32_t largest_step = 0;
  int32_t poison_position = -1;  // logits after this position hold NaN
  std::atomic<bool> fail = false;
  std::atomic<bool> throws = false;
  // One history in so many has other logits than a decoder of the same seed gives it; 0: none.
  uint64_t astray_one_in = 0;

 private:
  struct Cell {
    TokenId token = 0;
    int32_t position = -1;
  };
  Cell& cell(const StepSequence& sequence, int32_t slot) {
    const int32_t block = sequence.block_table[slot / kKvBlockTokens];
    return slots_[static_cast<size_t>(block * kKvBlockTokens + slot % kKvBlockTokens)];
  }

  const uint64_t seed_;
  int32_t degree_ = 1;
  ModelConfig config_;
  std::vector<Cell> slots_;
  std::vector<float> logits_;
  float zero_ = 0.0f;
};

}  // namespace forerun
