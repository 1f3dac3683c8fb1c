// A decoder without a model, for the executor's tests. Its KV slots hold (token, position), and a
// row's logits are a hash of the tokens that it attends to, in order. A wrong slot, boundary,
// ancestor list, block table or move changes the logits and counts as a violation. Every stage of
// such a decoder holds the same cells; its rows' tokens pass to the next stage as hidden rows.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/status_macros.h"
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

// Writes logits in (-4, 4) that depend on a history.
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
    config_.head_dim = 64;
    config_.max_position = 1 << 20;
    config_.hidden_size = 1;
    config_.num_layers = 1;
  }

  // Makes the decoder a stage with one layer.
  void set_stage(int32_t stage, int32_t num_stages) {
    config_.num_layers = num_stages;
    layers_ = {stage, stage + 1, stage == 0, stage + 1 == num_stages};
  }
  LayerRange layers() const override { return layers_; }
  HiddenRows hidden() const override {
    return {.dtype = DType::kF32, .width = 1, .bytes = std::as_bytes(std::span(hidden_))};
  }

  const ModelConfig& config() const override { return config_; }
  int64_t kv_blocks() const override {
    return static_cast<int64_t>(slots_.size()) / kKvBlockTokens;
  }
  int64_t kv_block_bytes() const override { return 1000; }

  Status forward(const Step& step) override {
    largest_step = std::max(largest_step, static_cast<int32_t>(step.rows.size()));
    rows_run += static_cast<int64_t>(step.rows.size());
    logits_.clear();
    hidden_.clear();
    if (!layers_.heads && while_running) while_running();
    if (on_step) on_step(step);
    // Gathers as if before any row attends; the observers' own KV has been written.
    for (const KvSelection& selection : step.selections) gather(step, selection);
    for (StepRow row : step.rows) {
      if (!layers_.embeds) {
        std::memcpy(&row.token, &step.hidden.bytes[hidden_.size() * sizeof(TokenId)],
                    sizeof(TokenId));
      }
      hidden_.push_back(row.token);
      const StepSequence& sequence = step.sequences[static_cast<size_t>(row.sequence_idx)];
      if (row.slot != kNoSlot) cell(sequence, row.slot) = {row.token, row.position};
      uint64_t hash = seed_;
      int32_t before = -1;
      for (int32_t position = 0; position < row.visible; ++position) {
        const int32_t slot =
            position < row.boundary
                ? position
                : step.ancestors[static_cast<size_t>(row.ancestor_begin + position - row.boundary)];
        const Cell& seen = cell(sequence, slot);
        // The row must attend to tokens in sequence order; a row without a view must not miss any
        // token.
        if (seen.position <= before || seen.position > row.position) ++violations;
        before = seen.position;
        const bool is_own = position + 1 == row.visible;
        if (is_own && row.slot != kNoSlot && slot != row.slot) ++violations;
        if (is_own && seen.token != row.token) ++violations;
        hash = fake_mix(hash, static_cast<uint64_t>(seen.token) + 1);
      }
      if (!row.wants_logits || !layers_.heads) continue;
      if (astray_one_in > 0 && hash % astray_one_in == 0) hash = fake_mix(hash, 5);
      logits_.resize(logits_.size() + static_cast<size_t>(config_.vocab_size));
      fake_logits(hash, config_.vocab_size, &logits_[logits_.size()] - config_.vocab_size);
      if (poison_position == row.position) logits_.back() = 0.0f / zero_;
    }
    if (throws || fail) {
      // Invalidates the KV of a failed Step, which must not be used.
      for (const StepRow& row : step.rows) {
        if (row.slot == kNoSlot) continue;
        cell(step.sequences[static_cast<size_t>(row.sequence_idx)], row.slot) = {};
      }
    }
    if (throws) throw std::runtime_error("the device threw");
    return fail ? Status(StatusCode::kInternal, "the device is gone") : Status();
  }

  // Keeps logits on devices, each of which divides its tokens into this many parts; 0 keeps them in
  // host memory.
  void set_device_parts(int32_t parts) { device_parts_ = parts; }
  bool makes_summaries() const override { return device_parts_ > 0; }
  Status forward_summarized(const Step& step, std::span<const RowQuery> queries,
                            const StepEdits& edits, const Meanwhile& meanwhile) override {
    if (meanwhile) meanwhile();
    if (while_running) while_running();
    FORERUN_RETURN_IF_ERROR(forward(step));
    devices_.clear();
    if (device_parts_ == 0) return {};
    on_devices_ = logits_;
    queries_.assign(queries.begin(), queries.end());
    edits_ = &edits;
    for (int32_t rank = 0; rank < degree_; ++rank) devices_.emplace_back(this, rank);
    const auto vocab = static_cast<size_t>(config_.vocab_size);
    if (queries_.size() * vocab != logits_.size()) ++violations;
    for (size_t row = 0; row < queries_.size(); ++row) {
      if (queries_[row].kinds == RowQuery::kLogits) continue;
      std::fill_n(&logits_[row * vocab], vocab, NAN);
    }
    return {};
  }
  std::atomic<int64_t> summarized = 0;
  std::atomic<int64_t> edited = 0;  // number of these rows with edits
  std::atomic<int64_t> fetched = 0;

  // Sets the number of devices that share the vocabulary, 16 tokens at a time.
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
            first,
            static_cast<size_t>(rank) < devices_.size() ? &devices_[static_cast<size_t>(rank)]
                                                        : nullptr};
  }

  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override {
    slots_moved += static_cast<int64_t>(moves.size());
    for (size_t index = 0; index < moves.size(); ++index) {
      if (moves[index].from_slot < moves[index].to_slot) ++violations;
      if (index > 0 && moves[index].to_slot <= moves[index - 1].to_slot) ++violations;
      cell(sequence, moves[index].to_slot) = cell(sequence, moves[index].from_slot);
    }
    return {};
  }
  bool has_host_kv() const override { return host_kv; }

  bool host_kv = true;
  int64_t slots_moved = 0;
  int64_t violations = 0;
  int32_t largest_step = 0;
  int64_t rows_run = 0;          // rows of all Steps
  int32_t poison_position = -1;  // logits after this position hold NaN
  std::atomic<bool> fail = false;
  std::atomic<bool> throws = false;
  std::function<void()> while_running;       // called in every Step; set it before the first one
  std::function<void(const Step&)> on_step;  // the same, with the Step
  // After one history in this many, the logits differ from those of a decoder with the same seed; 0
  // for never.
  uint64_t astray_one_in = 0;

 private:
  struct Cell {
    TokenId token = 0;
    int32_t position = -1;
  };
  // Chooses evenly spaced tokens.
  void gather(const Step& step, const KvSelection& selection) {
    const StepSequence& sequence = step.sequences[static_cast<size_t>(selection.sequence_idx)];
    for (int32_t idx = 0; idx < selection.chosen; ++idx) {
      const int32_t block = selection.blocks[idx / kKvBlockTokens];
      slots_[static_cast<size_t>(block * kKvBlockTokens + idx % kKvBlockTokens)] =
          cell(sequence, idx * selection.tokens / selection.chosen);
    }
  }
  Cell& cell(const StepSequence& sequence, int32_t slot) {
    const int32_t block = sequence.block_table[slot / kKvBlockTokens];
    return slots_[static_cast<size_t>(block * kKvBlockTokens + slot % kKvBlockTokens)];
  }

  // A device's columns of the logits.
  class Device : public DeviceLogits {
   public:
    Device(FakeDecoder* decoder, int32_t rank) : decoder_(decoder) {
      const LogitsPart part = decoder->logits(rank);
      first_ = part.first_token;
      for (size_t row = 0; row < decoder->queries_.size(); ++row) summarize_row(row, part);
    }
    const LogitsSummary* summary(int32_t logits_row) const override {
      if (query(logits_row).kinds == RowQuery::kLogits) return nullptr;
      return &summaries_[static_cast<size_t>(logits_row)];
    }
    const RowQuery& query(int32_t logits_row) const override {
      return decoder_->queries_[static_cast<size_t>(logits_row)];
    }
    Status fetch(int32_t logits_row) override {
      if (summary(logits_row) == nullptr) return {};
      ++decoder_->fetched;
      const auto begin =
          logits_row * int64_t{decoder_->config_.vocab_size} + static_cast<int64_t>(first_);
      std::copy_n(&decoder_->on_devices_[static_cast<size_t>(begin)], count_,
                  &decoder_->logits_[static_cast<size_t>(begin)]);
      return {};
    }

   private:
    void summarize_row(size_t row, const LogitsPart& part) {
      const RowQuery& query = decoder_->queries_[row];
      count_ = static_cast<int32_t>(part.values.dim(1));
      const int32_t live = std::clamp(query.vocab - first_, 0, count_);
      const float* const values = part.values.row(static_cast<int64_t>(row));
      std::vector<float> columns(values, values + live);
      if (query.edits != RowQuery::kNone) edit(query, columns);
      const int32_t parts = decoder_->device_parts_;
      std::vector<LogitsSummary> cut(static_cast<size_t>(parts));
      std::vector<const LogitsSummary*> pointers;
      for (int32_t i = 0; i < parts; ++i) {
        const auto begin = static_cast<size_t>(live * i / parts);
        const auto end = static_cast<size_t>(live * (i + 1) / parts);
        logits_summary_ref(std::span(columns).subspan(begin, end - begin),
                           first_ + static_cast<int32_t>(begin), query, nullptr,
                           &cut[static_cast<size_t>(i)]);
        pointers.push_back(&cut[static_cast<size_t>(i)]);
      }
      summaries_.push_back(cut[0]);
      if (parts > 1) merge_logits_summaries(pointers, &summaries_.back());
      if (query.kinds != RowQuery::kLogits) ++decoder_->summarized;
    }
    void edit(const RowQuery& query, std::vector<float>& columns) {
      const RowEdits& edits = decoder_->edits_->row(query.edits);
      std::vector<uint32_t> mask((static_cast<size_t>(query.vocab) + 31) / 32, 0xdeadbeef);
      if (edits.mask >= 0) decoder_->edits_->write_mask(edits.mask, mask);
      edit_logits(columns, first_, edits, mask);
      ++decoder_->edited;
    }
    FakeDecoder* decoder_;
    int32_t first_ = 0;
    int32_t count_ = 0;
    std::vector<LogitsSummary> summaries_;
  };

  const uint64_t seed_;
  int32_t degree_ = 1;
  int32_t device_parts_ = 0;
  mutable std::deque<Device> devices_;
  std::vector<RowQuery> queries_;
  const StepEdits* edits_ = nullptr;  // edits of the running Step
  std::vector<float> on_devices_;
  ModelConfig config_;
  LayerRange layers_ = {0, 1, true, true};
  std::vector<TokenId> hidden_;
  std::vector<Cell> slots_;
  std::vector<float> logits_;
  float zero_ = 0.0f;
};

}  // namespace forerun
