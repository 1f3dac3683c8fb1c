#include "model/testing.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status_macros.h"

namespace forerun {

Result<LoadedDecoder> LoadedDecoder::open(const std::filesystem::path& dir, int32_t num_threads,
                                          CpuDecoderOptions options) {
  return open(dir, std::vector<int32_t>{num_threads}, std::move(options));
}

Result<LoadedDecoder> LoadedDecoder::open(const std::filesystem::path& dir,
                                          const std::vector<int32_t>& team_sizes,
                                          CpuDecoderOptions options) {
  LoadedDecoder loaded;
  FORERUN_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(dir));
  loaded.checkpoint = std::make_unique<Checkpoint>(std::move(checkpoint));
  FORERUN_ASSIGN_OR_RETURN(loaded.devices, CpuDeviceGroup::create_unpinned(team_sizes));
  FORERUN_ASSIGN_OR_RETURN(
      loaded.decoder,
      CpuDecoder::load(*loaded.checkpoint, loaded.devices.get(), std::move(options)));
  return loaded;
}

int64_t ChainedStages::kv_block_bytes() const {
  int64_t bytes = 0;
  for (const Decoder* stage : stages_) bytes += stage->kv_block_bytes();
  return bytes;
}

Status ChainedStages::forward(const Step& step) {
  step_ = step;
  for (Decoder* stage : stages_) {
    FORERUN_RETURN_IF_ERROR(stage->forward(step_));
    step_.hidden = stage->hidden();
  }
  return {};
}

Status ChainedStages::move_kv(const StepSequence& sequence, std::span<const KvMove> moves) {
  for (Decoder* stage : stages_) FORERUN_RETURN_IF_ERROR(stage->move_kv(sequence, moves));
  return {};
}

std::vector<int32_t> SequenceDriver::blocks_for(int64_t num_tokens, int32_t first_block) {
  std::vector<int32_t> blocks;
  for (int64_t token = 0; token < num_tokens; token += kKvBlockTokens) {
    blocks.push_back(first_block++);
  }
  return blocks;
}

void SequenceDriver::add_prefix_rows(Step& step, int32_t sequence_idx,
                                     std::span<const int32_t> tokens, int32_t begin,
                                     bool want_logits) {
  for (size_t index = 0; index < tokens.size(); ++index) {
    StepRow row;
    row.token = tokens[index];
    row.position = begin + static_cast<int32_t>(index);
    row.sequence_idx = sequence_idx;
    row.slot = row.position;
    row.visible = row.boundary = row.position + 1;
    row.wants_logits = want_logits;
    step.rows.push_back(row);
  }
}

Result<std::vector<float>> SequenceDriver::run(std::span<const int32_t> tokens, int32_t begin,
                                               int64_t rows_per_step) {
  std::vector<float> logits;
  Step step;
  const auto count = static_cast<int64_t>(tokens.size());
  for (int64_t first = 0; first < count; first += rows_per_step) {
    const int64_t rows = std::min(rows_per_step, count - first);
    step.clear();
    step.sequences.push_back(sequence());
    add_prefix_rows(step, 0, tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(rows)),
                    begin + static_cast<int32_t>(first), true);
    FORERUN_RETURN_IF_ERROR(decoder_->forward(step));
    const std::vector<float> part = copy_logits(*decoder_);
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

std::vector<int32_t> toy_tokens(int32_t count, int32_t vocab, int32_t salt) {
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(count));
  for (int32_t index = 0; index < count; ++index) {
    tokens.push_back((index * index * 7 + index * 31 + salt) % vocab);
  }
  return tokens;
}

std::vector<float> copy_logits(const Decoder& decoder) {
  const int64_t vocab = decoder.config().vocab_size;
  const int64_t rows = decoder.logits(0).values.dim(0);
  std::vector<float> all(static_cast<size_t>(rows * vocab),
                         -std::numeric_limits<float>::infinity());
  for (int32_t rank = 0; rank < decoder.degree(); ++rank) {
    const LogitsPart part = decoder.logits(rank);
    for (int64_t row = 0; row < rows; ++row) {
      const float* from = part.values.row(row);
      std::copy(from, from + part.values.dim(1), all.data() + row * vocab + part.first_token);
    }
  }
  return all;
}

}  // namespace forerun
