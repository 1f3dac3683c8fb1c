// Measures a Step on GPUs with its sampling, for several kinds of wants: with summaries of the
// logits, and with all logits copied to the host.
//
//   step_runner_cuda_bench MODEL_DIR [--rows 8] [--threads 8] [--context 1000] [--int4-head]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/device_group.h"
#include "exec/decoder_step_runner.h"
#include "model/cuda/load_decoder.h"

namespace forerun {
namespace {

struct Arguments {
  std::string model;
  int32_t rows = 8;
  int32_t threads = 8;
  int32_t context = 1000;
  WeightOverride weights = WeightOverride::kAsStored;
};

// A decoder that makes no summaries.
class WholeLogits : public Decoder {
 public:
  explicit WholeLogits(Decoder* decoder) : decoder_(decoder) {}
  const ModelConfig& config() const override { return decoder_->config(); }
  int64_t kv_blocks() const override { return decoder_->kv_blocks(); }
  int64_t kv_block_bytes() const override { return decoder_->kv_block_bytes(); }
  Status forward(const Step& step) override { return decoder_->forward(step); }
  LogitsPart logits(int32_t rank) const override { return decoder_->logits(rank); }
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override {
    return decoder_->move_kv(sequence, moves);
  }

 private:
  Decoder* decoder_;
};

struct Case {
  const char* name;
  Want want;
  SamplingParams params;
};

std::vector<Case> cases() {
  SamplingParams greedy;
  greedy.temperature = 0.0f;
  SamplingParams sampled;
  sampled.temperature = 0.8f;
  SamplingParams top_p = sampled;
  top_p.top_p = 0.95f;
  SamplingParams logprobs = sampled;
  logprobs.logprobs = 5;
  return {{"nothing", Want::kNothing, greedy},
          {"greedy", Want::kSample, greedy},
          {"temperature 0.8", Want::kSample, sampled},
          {"0.8, top-p 0.95", Want::kSample, top_p},
          {"0.8, log-probabilities", Want::kSample, logprobs},
          {"candidates, greedy", Want::kTopK, greedy},
          {"candidates, 0.8", Want::kTopK, sampled},
          {"draws, 0.8", Want::kDraw, sampled}};
}

// Returns the median of a run in microseconds.
Result<double> time_of(StepRunner& runner, const Step& step, const Case& asked, int32_t rows) {
  std::vector<double> times;
  for (int sample = 0; sample < 41; ++sample) {
    std::vector<RowResult> results(static_cast<size_t>(rows));
    std::vector<DraftDistribution> distributions(results.size());
    std::vector<RowTask> tasks;
    for (int32_t row = 0; row < rows && asked.want != Want::kNothing; ++row) {
      RowTask task;
      task.want = asked.want;
      task.count = 8;
      task.logits_row = row;
      task.context.params = &asked.params;
      task.context.position = 100 * sample + row;
      task.result = &results[static_cast<size_t>(row)];
      task.distribution = &distributions[static_cast<size_t>(row)];
      tasks.push_back(std::move(task));
    }
    const auto start = std::chrono::steady_clock::now();
    FORERUN_RETURN_IF_ERROR(runner.run(step, tasks, {}, {}));
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    for (const RowTask& task : tasks) FORERUN_RETURN_IF_ERROR(task.status);
    times.push_back(took.count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

Status run(const Arguments& arguments) {
  FORERUN_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(arguments.model));
  const int32_t blocks = (arguments.context + arguments.rows) / kKvBlockTokens + 2;
  cuda::DecoderCudaOptions options;
  options.devices.assign(1, 0);
  options.kv_blocks = blocks;
  options.weights = arguments.weights;
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<Decoder> decoder,
                           cuda::load_decoder_cuda(checkpoint, std::move(options)));
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<CpuDeviceGroup> threads,
                           CpuDeviceGroup::create_unpinned({arguments.threads}));
  const int32_t vocab = checkpoint.config().vocab_size;
  DecoderStepRunner summarized(decoder.get(), threads.get(), vocab);
  WholeLogits whole(decoder.get());
  DecoderStepRunner copied(&whole, threads.get(), vocab);

  std::vector<int32_t> table(static_cast<size_t>(blocks));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  const auto step_of = [&](int32_t first, int32_t rows, bool wanted) {
    Step step;
    step.sequences.push_back({table.data()});
    for (int32_t row = first; row < first + rows; ++row) {
      step.rows.push_back({.token = row % 50 + 1,
                           .position = row,
                           .slot = row,
                           .visible = row + 1,
                           .boundary = row + 1,
                           .wants_logits = wanted});
    }
    return step;
  };
  FORERUN_RETURN_IF_ERROR(decoder->forward(step_of(0, arguments.context, false)));
  for (const Case& asked : cases()) {
    const Step step = step_of(arguments.context, arguments.rows, asked.want != Want::kNothing);
    FORERUN_ASSIGN_OR_RETURN(const double with, time_of(summarized, step, asked, arguments.rows));
    FORERUN_ASSIGN_OR_RETURN(const double without, time_of(copied, step, asked, arguments.rows));
    std::printf("%-24s %3d rows  summaries %9.1f us   all logits %9.1f us\n", asked.name,
                arguments.rows, with, without);
  }
  return {};
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  forerun::Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--rows" && i + 1 < argc) {
      arguments.rows = std::atoi(argv[++i]);
    } else if (flag == "--threads" && i + 1 < argc) {
      arguments.threads = std::atoi(argv[++i]);
    } else if (flag == "--context" && i + 1 < argc) {
      arguments.context = std::atoi(argv[++i]);
    } else if (flag == "--int4-head") {
      arguments.weights = forerun::WeightOverride::kInt4Head;
    } else {
      arguments.model = flag;
    }
  }
  const forerun::Status status = forerun::run(arguments);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
