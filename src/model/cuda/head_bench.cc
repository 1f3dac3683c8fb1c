// Measures an EAGLE-3 head's passes on one GPU, and what taps cost its target: medians of graph
// replays and of whole calls.
//
//   head_cuda_bench TARGET_DIR HEAD_DIR [--rows 1,8,16,32] [--context 1000] [--json FILE]
//                   [--int8-head] [--int4-head] [--int4]
//
// A depth: rows of a tree that start from the head's own features, keep theirs and want logits.
// A catch-up: rows of a prefix that start from taps of the target and keep their features.
// --int8-head, --int4-head: the head's LM head becomes that; --int4: its layers, too.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "model/cuda/decoder.h"

namespace forerun::cuda {
namespace {

struct Arguments {
  std::string target, head, json;
  std::vector<int32_t> rows = {1, 8, 16, 32};
  int32_t context = 1000;
  WeightOverride weights = WeightOverride::kAsStored;
};

struct Times {
  double replay_ms = 0;  // time of the pass alone
  double call_ms = 0;    // time of forward()
};

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Measures all `steps` in turn, so that a drifting clock affects all alike.
Result<std::vector<Times>> time_steps(DecoderCuda& decoder, const std::vector<Step>& steps) {
  constexpr int kSamples = 21;
  constexpr int kReplays = 5;
  std::vector<std::vector<double>> replays(steps.size()), calls(steps.size());
  for (int sample = 0; sample < kSamples; ++sample) {
    for (size_t i = 0; i < steps.size(); ++i) {
      FORERUN_RETURN_IF_ERROR(decoder.forward(steps[i]));
      const auto start = std::chrono::steady_clock::now();
      FORERUN_RETURN_IF_ERROR(decoder.forward(steps[i]));
      const std::chrono::duration<double, std::milli> taken =
          std::chrono::steady_clock::now() - start;
      calls[i].push_back(taken.count());
      FORERUN_ASSIGN_OR_RETURN(const float ms, decoder.time_replays(kReplays));
      replays[i].push_back(static_cast<double>(ms) / kReplays);
    }
  }
  std::vector<Times> times;
  for (size_t i = 0; i < steps.size(); ++i) {
    times.push_back({.replay_ms = median(replays[i]), .call_ms = median(calls[i])});
  }
  return times;
}

// Returns a Step with rows behind the context: a tree with two children per node, breadth first, or
// a prefix.
Step rows_at(int32_t context, int32_t rows, bool tree, const std::vector<int32_t>& table) {
  Step step;
  step.sequences.push_back({table.data()});
  std::vector<std::vector<int32_t>> paths;
  for (int32_t i = 0; i < rows; ++i) {
    auto& path = paths.emplace_back(i == 0 || !tree ? std::vector<int32_t>()
                                                    : paths[static_cast<size_t>((i - 1) / 2)]);
    path.push_back(context + i);
    const auto depth = tree ? static_cast<int32_t>(path.size()) : i + 1;
    step.rows.push_back({.token = i % 50 + 1,
                         .position = context + depth - 1,
                         .slot = context + i,
                         .visible = context + depth,
                         .boundary = tree ? context : context + depth,
                         .ancestor_begin = static_cast<int32_t>(step.ancestors.size()),
                         .wants_logits = true});
    if (tree) step.ancestors.insert(step.ancestors.end(), path.begin(), path.end());
  }
  return step;
}

// Returns `step` with the taps of every row kept, from place `first` on.
Step keeping(Step step, int32_t first) {
  for (size_t row = 0; row < step.rows.size(); ++row) {
    const auto idx = static_cast<int32_t>(row);
    step.taps.push_back({.row = idx, .place = first + idx});
  }
  return step;
}

Step starting_from(Step step, bool own) {
  for (size_t row = 0; row < step.rows.size(); ++row) {
    step.features.push_back({.is_own = own, .place = static_cast<int32_t>(row)});
  }
  return step;
}

void report(const Arguments& arguments, const char* what, int32_t rows, const Times& times) {
  std::printf("%-24s rows %4d: %8.4f ms, called %8.4f ms\n", what, rows, times.replay_ms,
              times.call_ms);
  if (arguments.json.empty()) return;
  if (std::FILE* file = std::fopen(arguments.json.c_str(), "a")) {
    std::fprintf(file,
                 "{\"target\": \"%s\", \"head\": \"%s\", \"pass\": \"%s\", \"context\": %d, "
                 "\"rows\": %d, \"ms\": %.5f, \"call_ms\": %.5f}\n",
                 arguments.target.c_str(), arguments.head.c_str(), what, arguments.context, rows,
                 times.replay_ms, times.call_ms);
    std::fclose(file);
  }
}

Status run(const Arguments& arguments) {
  const int32_t most = *std::max_element(arguments.rows.begin(), arguments.rows.end());
  FORERUN_ASSIGN_OR_RETURN(const Checkpoint target, Checkpoint::open(arguments.target));
  FORERUN_ASSIGN_OR_RETURN(const Checkpoint head, Checkpoint::open_eagle3(arguments.head));
  const int32_t blocks = (arguments.context + kMaxPassRows) / kKvBlockTokens + 1;
  std::vector<int32_t> table(static_cast<size_t>(blocks));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  DecoderCudaOptions options;
  options.kv_blocks = blocks;
  FORERUN_ASSIGN_OR_RETURN(options.taps.after_layers, fit_eagle3(head.config(), target.config()));
  options.taps.places = kMaxPassRows;
  FORERUN_ASSIGN_OR_RETURN(const auto target_decoder, DecoderCuda::load(target, options));
  options.weights = arguments.weights;
  options.target = &target;
  options.target_decoder = target_decoder.get();
  options.taps = {.after_layers = {head.config().num_layers}, .places = 2 * int64_t{most}};
  FORERUN_ASSIGN_OR_RETURN(const auto head_decoder, DecoderCuda::load(head, options));
  // Fills the caches and stores with real values.
  const Step context = rows_at(0, std::min(arguments.context, kMaxPassRows), false, table);
  FORERUN_RETURN_IF_ERROR(target_decoder->forward(keeping(context, 0)));
  FORERUN_RETURN_IF_ERROR(head_decoder->forward(starting_from(context, /*own=*/false)));
  for (const int32_t rows : arguments.rows) {
    const Step tree = rows_at(arguments.context, rows, true, table);
    const Step prefix = rows_at(arguments.context, rows, false, table);
    FORERUN_ASSIGN_OR_RETURN(const std::vector<Times> of_target,
                             time_steps(*target_decoder, {tree, keeping(tree, 0)}));
    report(arguments, "target", rows, of_target[0]);
    report(arguments, "target, keeping taps", rows, of_target[1]);
    FORERUN_ASSIGN_OR_RETURN(
        const std::vector<Times> of_head,
        time_steps(*head_decoder, {keeping(starting_from(prefix, /*own=*/false), 0),
                                   keeping(starting_from(tree, /*own=*/true), most)}));
    report(arguments, "head, a catch-up", rows, of_head[0]);
    report(arguments, "head, a depth", rows, of_head[1]);
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
    } else if (flag == "--int4-head") {
      arguments.weights = forerun::WeightOverride::kInt4Head;
    } else if (flag == "--int4") {
      arguments.weights = forerun::WeightOverride::kInt4;
    } else if (flag == "--int8-head") {
      arguments.weights = forerun::WeightOverride::kInt8Head;
    } else {
      (arguments.target.empty() ? arguments.target : arguments.head) = flag;
    }
  }
  if (arguments.head.empty() || arguments.rows.empty()) {
    std::fprintf(stderr, "usage: %s TARGET_DIR HEAD_DIR [--rows 1,8,16,32]\n", argv[0]);
    return 2;
  }
  const forerun::Status status = forerun::cuda::run(arguments);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
