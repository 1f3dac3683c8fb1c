// Measures whole forward passes on one or several GPUs, by rows, at a given context: the median of
// graph replays, and the median of whole calls, which also plan, upload and download the logits.
//
//   decoder_cuda_bench MODEL_DIR [--devices cuda:0,cuda:1] [--context 1000,32000]
//                      [--rows 1,8,16,32] [--trees] [--json FILE] [--budget] [--int8-head]
//                      [--int4-head] [--kernels]
//
// --trees: the rows are not a chain but a tree of two children a node. --int8-head, --int4-head:
// rounds the head to int8 or int4; a draft's to int4 only if its vocabulary is large. --budget:
// prints the cost of each part of a layer inside the pass, by graphs without it. --kernels: prints
// the kernels of each pass instead of times.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "model/cuda/decoder.h"
#include "model/cuda/layer_chain.h"

namespace forerun::cuda {
namespace {

struct Arguments {
  std::string model;
  std::vector<int32_t> devices = {0};
  std::vector<int32_t> contexts = {1000};
  std::vector<int32_t> rows = {1, 8, 16, 32};
  std::string json;
  bool trees = false;
  bool budget = false;
  bool kernels = false;
  WeightOverride weights = WeightOverride::kAsStored;
};

// Returns the milliseconds of one replay of the last pass: the median over `samples` of the mean of
// a few replays; long passes take fewer samples.
Result<double> time_replays(DecoderCuda& decoder, int samples) {
  constexpr int kReplays = 5;
  std::vector<double> times;
  FORERUN_ASSIGN_OR_RETURN(const float first, decoder.time_replays(kReplays));
  if (first > 5.0f * kReplays) samples = std::max(5, samples / 3);
  for (int i = 0; i < samples; ++i) {
    FORERUN_ASSIGN_OR_RETURN(const float ms, decoder.time_replays(kReplays));
    times.push_back(static_cast<double>(ms) / kReplays);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Returns the milliseconds of a whole call for `step`: the median over `samples`.
Result<double> time_forwards(DecoderCuda& decoder, const Step& step, int samples) {
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) {
    const auto start = std::chrono::steady_clock::now();
    FORERUN_RETURN_IF_ERROR(decoder.forward(step));
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    times.push_back(taken.count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Returns a Step with a tree behind the context, breadth first.
Step tree_at(int32_t context, int32_t rows, const std::vector<int32_t>& table) {
  constexpr int32_t kChildren = 2;
  Step step;
  step.sequences.push_back({table.data()});
  std::vector<std::vector<int32_t>> paths;
  for (int32_t i = 0; i < rows; ++i) {
    auto& path = paths.emplace_back(i == 0 ? std::vector<int32_t>()
                                           : paths[static_cast<size_t>((i - 1) / kChildren)]);
    path.push_back(context + i);
    const auto depth = static_cast<int32_t>(path.size());
    step.rows.push_back({.token = i % 50 + 1,
                         .position = context + depth - 1,
                         .slot = context + i,
                         .visible = context + depth,
                         .boundary = context,
                         .ancestor_begin = static_cast<int32_t>(step.ancestors.size()),
                         .wants_logits = true});
    step.ancestors.insert(step.ancestors.end(), path.begin(), path.end());
  }
  return step;
}

Step rows_at(int32_t context, int32_t rows, const std::vector<int32_t>& table, bool wanted) {
  Step step;
  step.sequences.push_back({table.data()});
  for (int32_t i = 0; i < rows; ++i) {
    step.rows.push_back({.token = i % 50 + 1,
                         .position = context + i,
                         .slot = context + i,
                         .visible = context + i + 1,
                         .boundary = context + i + 1,
                         .wants_logits = wanted});
  }
  return step;
}

// Appends a line to the file of --json: the configuration, and `figures` as its last fields.
void append_json(const Arguments& arguments, const Step& step, const std::string& figures) {
  if (arguments.json.empty()) return;
  if (std::FILE* file = std::fopen(arguments.json.c_str(), "a")) {
    std::fprintf(file, "{\"model\": \"%s\", \"gpus\": %zu, \"context\": %d, \"rows\": %zu, %s%s}\n",
                 arguments.model.c_str(), arguments.devices.size(), step.rows.front().position,
                 step.rows.size(), arguments.trees ? "\"tree\": true, " : "", figures.c_str());
    std::fclose(file);
  }
}

// Runs `step` with graphs that `edit` has changed; `one_sum_a_layer` is as in edit_graphs().
Status forward_edited(DecoderCuda& decoder, const Step& step,
                      const std::function<Status(cudaGraph_t)>& edit,
                      bool one_sum_a_layer = false) {
  for (int32_t rank = 0; rank < decoder.num_shards(); ++rank) {
    decoder.shard(rank).edit_graphs(edit, one_sum_a_layer);
  }
  return decoder.forward(step);
}

// Prints the cost of each part of a layer in us: the pass's time with the part less the time
// without it, over the number of layers. Parts overlap, so the costs need not add up to the
// layer's.
Status report_budget(DecoderCuda& decoder, const Arguments& arguments, const Step& step,
                     double all_ms) {
  const int32_t layers = decoder.config().num_layers;
  std::mutex mutex;  // every shard's graph is edited on its own thread
  std::vector<std::string> parts;
  FORERUN_RETURN_IF_ERROR(forward_edited(decoder, step, [&](cudaGraph_t graph) -> Status {
    FORERUN_ASSIGN_OR_RETURN(auto found, layer_parts(graph, layers));
    const std::lock_guard lock(mutex);
    parts = std::move(found);
    return {};
  }));
  std::printf("  a layer: %.2f us; without a part it takes less by\n", 1e3 * all_ms / layers);
  for (size_t part = 0; part < parts.size(); ++part) {
    const bool ends_in_sum =
        decoder.num_shards() > 1 && (parts[part] == "O" || parts[part] == "down");
    if (ends_in_sum && layers % 2 != 0) continue;
    FORERUN_RETURN_IF_ERROR(forward_edited(
        decoder, step,
        [&](cudaGraph_t graph) {
          return leave_out_part(graph, layers, static_cast<int32_t>(part));
        },
        ends_in_sum));
    FORERUN_ASSIGN_OR_RETURN(const double ms, time_replays(decoder, 11));
    const double us = 1e3 * (all_ms - ms) / layers;
    std::printf("    %-20s %8.2f us\n", parts[part].c_str(), us);
    append_json(arguments, step,
                "\"part\": \"" + parts[part] + "\", \"us_a_layer\": " + std::to_string(us));
  }
  FORERUN_RETURN_IF_ERROR(forward_edited(decoder, step, nullptr));
  return decoder.prepare_graph_passes().status();  // later measurements use graphs again
}

// Prints the kernels of the pass that runs `step`.
Status report_kernels(DecoderCuda& decoder, const Step& step) {
  std::mutex mutex;  // every shard's graph is read on its own thread
  std::string kernels;
  FORERUN_RETURN_IF_ERROR(forward_edited(decoder, step, [&](cudaGraph_t graph) -> Status {
    FORERUN_ASSIGN_OR_RETURN(std::string found, list_kernels(graph, decoder.config().num_layers));
    const std::lock_guard lock(mutex);
    kernels = std::move(found);
    return {};
  }));
  std::printf("%zu rows, context %d\n%s", step.rows.size(), step.rows.front().position,
              kernels.c_str());
  return {};
}

Status measure(DecoderCuda& decoder, const Arguments& arguments, const Step& step) {
  if (arguments.kernels) return report_kernels(decoder, step);
  FORERUN_RETURN_IF_ERROR(decoder.forward(step));
  FORERUN_ASSIGN_OR_RETURN(const double ms, time_replays(decoder, 21));
  FORERUN_ASSIGN_OR_RETURN(const double call_ms, time_forwards(decoder, step, ms > 5.0 ? 15 : 51));
  std::printf("%-40s on %d GPUs, context %6d, rows %4zu%s: %8.3f ms, called %8.3f ms\n",
              arguments.model.c_str(), decoder.num_shards(), step.rows.front().position,
              step.rows.size(), arguments.trees ? " of a tree" : "", ms, call_ms);
  append_json(arguments, step,
              "\"ms\": " + std::to_string(ms) + ", \"call_ms\": " + std::to_string(call_ms));
  return arguments.budget ? report_budget(decoder, arguments, step, ms) : Status();
}

Status run(const Arguments& arguments) {
  FORERUN_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(arguments.model));
  const int32_t longest = *std::max_element(arguments.contexts.begin(), arguments.contexts.end());
  const int32_t blocks = (longest + kMaxPassRows) / kKvBlockTokens + 1;
  DecoderCudaOptions options;
  options.devices = arguments.devices;
  options.kv_blocks = blocks;
  options.weights = arguments.weights;
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<DecoderCuda> decoder,
                           DecoderCuda::load(checkpoint, options));
  decoder->shard(0).edit_graphs(nullptr);  // drops the graphs, to time their capture
  const auto start = std::chrono::steady_clock::now();
  FORERUN_ASSIGN_OR_RETURN(const int graphs, decoder->prepare_graph_passes());
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  std::printf("%-40s %d graphs in %.0f ms\n", arguments.model.c_str(), graphs, taken.count());
  std::vector<int32_t> table(static_cast<size_t>(blocks));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  FORERUN_RETURN_IF_ERROR(decoder->forward(rows_at(0, longest, table, false)));
  for (const int32_t context : arguments.contexts) {
    for (const int32_t rows : arguments.rows) {
      FORERUN_RETURN_IF_ERROR(measure(*decoder, arguments,
                                      arguments.trees
                                          ? tree_at(context, rows, table)
                                          : rows_at(context, rows, table, /*wanted=*/true)));
    }
  }
  return {};
}

}  // namespace
}  // namespace forerun::cuda

namespace {

// Parses a list such as "1,8,16", or "cuda:0,cuda:1" with a prefix before each number.
std::vector<int32_t> parse_list(const char* text, const std::string& prefix = "") {
  std::vector<int32_t> numbers;
  std::stringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    if (item.starts_with(prefix)) item.erase(0, prefix.size());
    numbers.push_back(std::atoi(item.c_str()));
  }
  return numbers;
}

}  // namespace

int main(int argc, char** argv) {
  forerun::cuda::Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--context" && i + 1 < argc) {
      arguments.contexts = parse_list(argv[++i]);
    } else if (flag == "--devices" && i + 1 < argc) {
      arguments.devices = parse_list(argv[++i], "cuda:");
    } else if (flag == "--json" && i + 1 < argc) {
      arguments.json = argv[++i];
    } else if (flag == "--trees") {
      arguments.trees = true;
    } else if (flag == "--budget") {
      arguments.budget = true;
    } else if (flag == "--kernels") {
      arguments.kernels = true;
    } else if (flag == "--int4-head") {
      arguments.weights = forerun::WeightOverride::kInt4Head;
    } else if (flag == "--int8-head") {
      arguments.weights = forerun::WeightOverride::kInt8Head;
    } else if (flag == "--rows" && i + 1 < argc) {
      arguments.rows = parse_list(argv[++i]);
    } else {
      arguments.model = flag;
    }
  }
  if (arguments.contexts.empty() || arguments.rows.empty() || arguments.devices.empty()) {
    std::fprintf(stderr, "%s: empty list of contexts, rows or devices\n", argv[0]);
    return 2;
  }
  const forerun::Status status = forerun::cuda::run(arguments);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
