// Measures the time from a prompt to its first logits on one GPU, by the prompt's length: wall time
// of whole forward() calls, including plans and copies on the host; the median of a few after one
// to warm up.
//
//   prefill_cuda_bench MODEL_DIR [--tokens 512,2048,8192] [--matrix-tflops N] [--json FILE]
//
// --matrix-tflops: the measured speed of the GPU's matrix units, to print the fraction of it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "model/cuda/decoder.h"

namespace forerun::cuda {
namespace {

struct Arguments {
  std::string model;
  std::vector<int32_t> tokens = {512, 2048, 8192};
  double matrix_tflops = 0;
  std::string json;
};

Step prompt(int32_t tokens, const std::vector<int32_t>& table) {
  Step step;
  step.sequences.push_back({table.data()});
  for (int32_t i = 0; i < tokens; ++i) {
    step.rows.push_back({.token = i % 50 + 1,
                         .position = i,
                         .slot = i,
                         .visible = i + 1,
                         .boundary = i + 1,
                         .wants_logits = i + 1 == tokens});
  }
  return step;
}

// Returns the multiplications and additions that a prompt needs: each weight once per token (the
// head's once), and attention over the tokens that each token may attend to.
double flops(const ModelConfig& config, double tokens) {
  const double hidden = config.hidden_size;
  const double q_width = static_cast<double>(config.num_heads) * config.head_dim;
  const double kv_width = static_cast<double>(config.num_kv_heads) * config.head_dim;
  const double weights =
      hidden * (2 * q_width + 2 * kv_width + 3 * static_cast<double>(config.intermediate_size));
  const double attention = 2 * q_width * (tokens + 1) / 2;
  return 2 * config.num_layers * tokens * (weights + attention) + 2 * hidden * config.vocab_size;
}

Status run(const Arguments& arguments) {
  FORERUN_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(arguments.model));
  const int32_t longest = *std::max_element(arguments.tokens.begin(), arguments.tokens.end());
  DecoderCudaOptions options;
  options.kv_blocks = longest / kKvBlockTokens + 1;
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<DecoderCuda> decoder,
                           DecoderCuda::load(checkpoint, options));
  std::vector<int32_t> table(static_cast<size_t>(options.kv_blocks));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  for (const int32_t tokens : arguments.tokens) {
    constexpr int kSamples = 5;
    const Step step = prompt(tokens, table);
    std::vector<double> times;
    for (int sample = 0; sample <= kSamples; ++sample) {
      const auto start = std::chrono::steady_clock::now();
      FORERUN_RETURN_IF_ERROR(decoder->forward(step));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (sample > 0) times.push_back(took.count());
    }
    std::sort(times.begin(), times.end());
    const double seconds = times[times.size() / 2];
    const double tflops = flops(checkpoint.config(), tokens) / seconds * 1e-12;
    std::printf(
        "%-32s prompt %6d tokens: %9.3f ms to the first logits, %8.0f tokens/s, %6.1f TFLOP/s",
        arguments.model.c_str(), tokens, seconds * 1e3, tokens / seconds, tflops);
    if (arguments.matrix_tflops > 0) {
      std::printf(", %.3f of the matrix rate", tflops / arguments.matrix_tflops);
    }
    std::printf("\n");
    if (arguments.json.empty()) continue;
    if (std::FILE* file = std::fopen(arguments.json.c_str(), "a")) {
      std::fprintf(file,
                   "{\"model\": \"%s\", \"prompt_tokens\": %d, \"ms\": %.3f, \"tflops\": %.1f, "
                   "\"matrix_tflops\": %.1f}\n",
                   arguments.model.c_str(), tokens, seconds * 1e3, tflops, arguments.matrix_tflops);
      std::fclose(file);
    }
  }
  return {};
}

std::vector<int32_t> numbers(const char* text) {
  std::vector<int32_t> values;
  std::stringstream list(text);
  for (std::string item; std::getline(list, item, ',');) values.push_back(std::atoi(item.c_str()));
  return values;
}

}  // namespace
}  // namespace forerun::cuda

int main(int argc, char** argv) {
  forerun::cuda::Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (flag.starts_with("--") && value == nullptr) return 2;
    if (flag == "--tokens") {
      arguments.tokens = forerun::cuda::numbers(argv[++i]);
    } else if (flag == "--matrix-tflops") {
      arguments.matrix_tflops = std::atof(argv[++i]);
    } else if (flag == "--json") {
      arguments.json = argv[++i];
    } else {
      arguments.model = flag;
    }
  }
  if (arguments.model.empty() || arguments.tokens.empty() ||
      *std::min_element(arguments.tokens.begin(), arguments.tokens.end()) < 1) {
    std::fprintf(stderr,
                 "usage: %s MODEL_DIR [--tokens 512,2048,8192] [--matrix-tflops N] [--json FILE]\n",
                 argv[0]);
    return 2;
  }
  const forerun::Status status = forerun::cuda::run(arguments);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
