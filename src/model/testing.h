// A driver of a decoder without executor or KV manager, for tests and benches.
// (forerun_model_testing)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "device/cpu/device_group.h"
#include "model/cpu_decoder.h"
#include "model/decoder.h"
#include "step/step.h"

namespace forerun {

// A checkpoint, CPU devices and a decoder on them, opened together.
struct LoadedDecoder {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<CpuDeviceGroup> devices;
  std::unique_ptr<Decoder> decoder;

  static Result<LoadedDecoder> open(const std::filesystem::path& dir, int32_t num_threads,
                                    CpuDecoderOptions options);
  // Opens one device per entry, with that many threads.
  static Result<LoadedDecoder> open(const std::filesystem::path& dir,
                                    const std::vector<int32_t>& team_sizes,
                                    CpuDecoderOptions options);
};

// The stages of a model, one after another, as one decoder: the reference for a pipeline.
class ChainedStages : public Decoder {
 public:
  // `stages` are in order, from the one that embeds to the one with the head, and not empty. They
  // must outlive the object.
  explicit ChainedStages(std::vector<Decoder*> stages) : stages_(std::move(stages)) {}
  const ModelConfig& config() const override { return stages_.front()->config(); }
  int64_t kv_blocks() const override { return stages_.front()->kv_blocks(); }
  int64_t kv_block_bytes() const override;
  Status forward(const Step& step) override;
  bool selects_kv() const override { return stages_.front()->selects_kv(); }
  bool quantizes_keys() const override { return stages_.front()->quantizes_keys(); }
  int32_t degree() const override { return stages_.back()->degree(); }
  LogitsPart logits(int32_t rank) const override { return stages_.back()->logits(rank); }
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override;

 private:
  std::vector<Decoder*> stages_;
  Step step_;
};

// One sequence of a decoder: its tokens in position order, its block table, and the rows under
// construction.
class SequenceDriver {
 public:
  // `blocks` are physical blocks in the order of the sequence; they must cover every used slot.
  SequenceDriver(Decoder* decoder, std::vector<int32_t> blocks)
      : decoder_(decoder), blocks_(std::move(blocks)) {}
  // Returns blocks first_block, first_block + 1, ... for `num_tokens` tokens.
  static std::vector<int32_t> blocks_for(int64_t num_tokens, int32_t first_block = 0);

  StepSequence sequence() const { return {blocks_.data()}; }
  // Appends prefix rows for tokens at positions begin, begin + 1, ... to `step`, which must have
  // the sequence at `sequence_idx`.
  static void add_prefix_rows(Step& step, int32_t sequence_idx, std::span<const int32_t> tokens,
                              int32_t begin, bool want_logits);
  // Runs `tokens` from position `begin` on as prefix rows in Steps of `rows_per_step`. Returns all
  // logits, [tokens][vocab_size].
  Result<std::vector<float>> run(std::span<const int32_t> tokens, int32_t begin,
                                 int64_t rows_per_step);

 private:
  Decoder* decoder_;
  std::vector<int32_t> blocks_;
};

// Returns `count` tokens below `vocab`, always the same for one `salt`.
std::vector<int32_t> toy_tokens(int32_t count, int32_t vocab, int32_t salt = 5);

// Copies the logits of the last forward(), [rows with logits][vocab_size]; tokens that no device
// has are -infinity.
std::vector<float> copy_logits(const Decoder& decoder);

}  // namespace forerun
