// Time of a whole forward on one GPU, by rows: medians of graph replays at a given context, for a
// checkpoint or for a shape with random weights' bytes (no checkpoint needed).
//
//   decoder_cuda_bench MODEL_DIR [--context 1000] [--rows 1,8,16,32] [--json FILE]
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "device/cuda/cuda_error.h"
#include "model/cuda/decoder_cuda.h"

namespace forerun::cuda {
namespace {

struct Arguments {
  std::string model;
  int32_t context = 1000;
  std::vector<int32_t> rows = {1, 8, 16, 32};
  std::string json;
};

Status check(cudaError_t error) { return cuda_status(error, "cudaEvent", "timing"); }

// Milliseconds of one replay of the last pass: the median over `samples` of the mean of a few.
Result<double> time_replays(ShardCuda& decoder, int samples) {
  constexpr int kReplays = 5;
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  FORERUN_RETURN_IF_ERROR(check(cudaEventCreate(&start)));
  FORERUN_RETURN_IF_ERROR(check(cudaEventCreate(&end)));
  std::vector<double> times;
  FORERUN_RETURN_IF_ERROR(decoder.replay(kReplays));
  for (int i = 0; i < samples; ++i) {
    FORERUN_RETURN_IF_ERROR(check(cudaEventRecord(start, decoder.stream().get())));
    FORERUN_RETURN_IF_ERROR(decoder.replay(kReplays));
    FORERUN_RETURN_IF_ERROR(check(cudaEventRecord(end, decoder.stream().get())));
    FORERUN_RETURN_IF_ERROR(decoder.stream().synchronize());
    float ms = 0;
    FORERUN_RETURN_IF_ERROR(check(cudaEventElapsedTime(&ms, start, end)));
    times.push_back(ms / kReplays);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

Step rows_at(int32_t context, int32_t rows, const std::vector<int32_t>& table, bool wanted) {
  Step step;
  step.sequences.push_back({table.data()});
  for (int32_t i = 0; i < rows; ++i) {
    step.rows.push_back({.token = i % 50 + 1,
                         .position = context + i,
                         .slot = context + i,
                         .boundary = context + i + 1,
                         .wants_logits = wanted});
  }
  return step;
}

Status run(const Arguments& arguments) {
  FORERUN_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(arguments.model));
  const int32_t blocks = (arguments.context + kMostPassRows) / kKvBlockTokens + 1;
  DecoderCudaOptions options;
  options.kv_blocks = blocks;
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<DecoderCuda> decoder,
                           DecoderCuda::load(checkpoint, options));
  std::vector<int32_t> table(static_cast<size_t>(blocks));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  FORERUN_RETURN_IF_ERROR(decoder->forward(rows_at(0, arguments.context, table, false)));
  for (const int32_t rows : arguments.rows) {
    FORERUN_RETURN_IF_ERROR(
        decoder->forward(rows_at(arguments.context, rows, table, /*wanted=*/true)));
    FORERUN_ASSIGN_OR_RETURN(const double ms, time_replays(decoder->shard(), 21));
    std::printf("%-40s context %6d rows %4d: %8.3f ms\n", arguments.model.c_str(),
                arguments.context, rows, ms);
    if (arguments.json.empty()) continue;
    if (std::FILE* file = std::fopen(arguments.json.c_str(), "a")) {
      std::fprintf(file, "{\"model\": \"%s\", \"context\": %d, \"rows\": %d, \"ms\": %.4f}\n",
                   arguments.model.c_str(), arguments.context, rows, ms);
      std::fclose(file);
    }
  }
  return {};
}

}  // namespace
}  // namespace forerun::cuda

int main(int argc, char** argv) {
  forerun::cuda::Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--context" && i + 1 < argc) {
      arguments.context = std::atoi(argv[++i]);
    } else if (flag == "--json" && i + 1 < argc) {
      arguments.json = argv[++i];
    } else if (flag == "--rows" && i + 1 < argc) {
      arguments.rows.clear();
      std::stringstream list(argv[++i]);
      for (std::string item; std::getline(list, item, ',');) {
        arguments.rows.push_back(std::atoi(item.c_str()));
      }
    } else {
      arguments.model = flag;
    }
  }
  const forerun::Status status = forerun::cuda::run(arguments);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
