// Measures attention of one layer on one GPU, by model shape, context and rows: medians of graph
// replays of a chain of layers, each with its own cache, so that keys and values come from memory.
//
//   attention_cuda_bench [--filter TEXT] [--prefill] [--no-clusters] [--json FILE]
//   attention_cuda_bench --batches [--sequences N,..] [--min-persistent-units N] [--trees]
//                        [--beside-prompt N]
//
// Few rows are a tree behind the context; with --prefill they extend it. --batches: many sequences
// of 8B by rows and context, whose rows are a chain behind the context (--trees: a tree), beside N
// rows of a prompt at 2,000; kPersistent is chosen from N units on. The bench prints the time, the
// fraction of it that reading the cache takes at the memory's bandwidth, and for prefill the rate
// of products.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"
#include "kernels/attention/cuda/attention.h"
#include "kernels/attention/cuda/steps_rig.h"

namespace forerun::cuda {
namespace {

// Measured read bandwidth of an H200, in bytes per second.
constexpr double kFloorBandwidth = 4.55e12;
constexpr int64_t kCacheBytes = int64_t{400} << 20;
constexpr int64_t kBatchCacheBytes = int64_t{18} << 30;
constexpr size_t kPartialBytes = size_t{128} << 20;
constexpr int64_t kArrivals = 1 << 16;

struct Model {
  const char* name;
  int32_t heads, kv_heads, head_dim;
};
constexpr Model kModels[] = {{"70b-tp4", 16, 2, 128}, {"8b", 32, 8, 128}, {"1b", 32, 8, 64}};

struct Case {
  Model model;
  int32_t context, rows;
  bool prefill;
  int32_t sequences = 1;
  bool chains = false;
  int32_t prompt_rows = 0;  // rows of one more sequence, at kPromptContext
};
constexpr int32_t kPromptContext = 2000;

struct Rows {
  std::vector<AttentionRow> rows;
  std::vector<std::vector<int32_t>> tables;
  std::vector<std::vector<int32_t>> ancestors;
  int32_t num_blocks = 0;
};

void add_sequence(const Case& bench_case, int32_t context, int32_t count, bool prefill,
                  Rows* result) {
  std::vector<int32_t>& table = result->tables.emplace_back();
  const int32_t blocks = (context + count) / kTilePositions + 1;
  for (int32_t i = 0; i < blocks; ++i) table.push_back(result->num_blocks++);
  const size_t first = result->ancestors.size();
  for (int32_t i = 0; i < count; ++i) {
    AttentionRow row{.last_visible = context + i,
                     .boundary = context + i + 1,
                     .slot = context + i,
                     .block_table = table.data()};
    if (!prefill) {
      std::vector<int32_t> path;
      const int32_t parent = bench_case.chains ? i - 1 : (i - 1) / 2;
      if (i > 0) path = result->ancestors[first + static_cast<size_t>(parent)];
      path.push_back(row.slot);
      result->ancestors.push_back(std::move(path));
      row.last_visible = context + static_cast<int32_t>(result->ancestors.back().size()) - 1;
      row.boundary = context;
      row.ancestors = result->ancestors.back().data();
    }
    result->rows.push_back(row);
  }
}

Rows rows_of(const Case& bench_case) {
  Rows result;
  for (int32_t i = 0; i < bench_case.sequences; ++i) {
    add_sequence(bench_case, bench_case.context, bench_case.rows, bench_case.prefill, &result);
  }
  if (bench_case.prompt_rows > 0)
    add_sequence(bench_case, kPromptContext, bench_case.prompt_rows, true, &result);
  return result;
}

class Bench {
 public:
  static Result<Bench> create(bool clusters, int64_t cache_bytes, int32_t min_persistent_units) {
    FORERUN_RETURN_IF_ERROR(prepare_attention_cuda());
    Bench bench;
    bench.clusters_ = clusters;
    bench.min_persistent_units_ = min_persistent_units;
    bench.cache_bytes_ = cache_bytes;
    const auto allocate = [](DeviceBuffer* buffer, size_t bytes, int fill) -> Status {
      FORERUN_ASSIGN_OR_RETURN(*buffer, DeviceBuffer::allocate(bytes, "a bench"));
      FORERUN_CUDA_RETURN_IF_ERROR(cudaMemset(buffer->data(), fill, bytes), "filling");
      return {};
    };
    FORERUN_RETURN_IF_ERROR(allocate(&bench.cache_, static_cast<size_t>(cache_bytes), 0x3c));
    FORERUN_RETURN_IF_ERROR(allocate(&bench.activations_, size_t{64} << 20, 0x3c));
    FORERUN_RETURN_IF_ERROR(allocate(&bench.attended_, size_t{64} << 20, 0));
    FORERUN_RETURN_IF_ERROR(allocate(&bench.partials_, kPartialBytes, 0xff));
    FORERUN_RETURN_IF_ERROR(allocate(&bench.arrivals_, 2 * kArrivals * sizeof(uint32_t), 0));
    FORERUN_RETURN_IF_ERROR(allocate(&bench.failed_, 16, 0));
    FORERUN_RETURN_IF_ERROR(allocate(&bench.step_, size_t{8} << 20, 0));
    // Random numbers in +-[1/8, 1), since a constant would cost less power than data does.
    std::vector<uint16_t> numbers(size_t{1} << 22);
    uint32_t state = 1;
    for (uint16_t& number : numbers) {
      state = state * 1664525u + 1013904223u;
      number = static_cast<uint16_t>((state >> 16 & 0x8000u) | (0x3e00u + (state >> 20 & 0x17fu)));
    }
    for (const DeviceBuffer* buffer : {&bench.cache_, &bench.activations_}) {
      for (size_t at = 0; at < buffer->bytes();) {
        const size_t bytes = std::min(buffer->bytes() - at, numbers.size() * sizeof(uint16_t));
        FORERUN_CUDA_RETURN_IF_ERROR(
            at == 0
                ? cudaMemcpy(buffer->data(), numbers.data(), bytes, cudaMemcpyHostToDevice)
                : cudaMemcpy(buffer->data() + at, buffer->data(), bytes, cudaMemcpyDeviceToDevice),
            "filling");
        at += bytes;
      }
    }
    FORERUN_CUDA_RETURN_IF_ERROR(cudaDeviceSynchronize(), "filling");
    return Result<Bench>(std::move(bench));
  }

  // Returns microseconds per layer.
  Result<double> time(const Case& bench_case, AttentionPlanCuda* used) {
    const Model& model = bench_case.model;
    const Rows rows = rows_of(bench_case);
    const auto partial_bytes = static_cast<size_t>(
        partial_floats(model.heads, model.kv_heads, model.head_dim) * int64_t{sizeof(float)});
    AttentionPlanCuda& plan = *used;
    plan.build(rows.rows, {.kv_parts = model.kv_heads * query_parts(model.heads, model.kv_heads),
                           .row_columns = query_columns(model.heads, model.kv_heads),
                           .max_partials = static_cast<int32_t>(kPartialBytes / partial_bytes),
                           .may_fuse = true,
                           .may_cluster = clusters_,
                           .max_prefill_cluster_blocks = largest_prefill_cluster(model.head_dim),
                           .min_persistent_units = min_persistent_units_});
    std::vector<int32_t> kv_slots;
    for (const AttentionRow& row : rows.rows) kv_slots.push_back(row.slot);
    const std::vector<float> angles(rows.rows.size() * static_cast<size_t>(model.head_dim));
    FORERUN_RETURN_IF_ERROR(step_.upload(step_bytes(plan, kv_slots, angles)));
    PagedKvCuda kv{.num_kv_heads = model.kv_heads, .head_dim = model.head_dim};
    kv.block_stride_bytes = kv.layer_bytes();
    const int64_t layer_bytes = kv.layer_bytes() * rows.num_blocks;
    // Takes enough layers for each to find its keys and values in memory rather than in the L2.
    const int64_t most = std::max<int64_t>(2, int64_t{2} * kCacheBytes / layer_bytes);
    const int64_t layers =
        std::clamp<int64_t>(cache_bytes_ / layer_bytes, 1, std::min<int64_t>(most, 64));
    const auto width = int64_t{model.heads + 2 * model.kv_heads} * model.head_dim;
    FORERUN_ASSIGN_OR_RETURN(
        Graph graph, Graph::capture(stream_, [&] {
          for (int64_t layer = 0; layer < layers; ++layer) {
            kv.data = cache_.data() + layer * layer_bytes;
            FORERUN_RETURN_IF_ERROR(
                attention_cuda({.step = step_.as<AttentionStepCuda>(),
                                .q = activations_.as<__nv_bfloat16>(),
                                .qkv = activations_.as<__nv_bfloat16>(),
                                .qkv_stride = width,
                                .k_offset = model.heads * model.head_dim,
                                .v_offset = (model.heads + model.kv_heads) * model.head_dim,
                                .attended = attended_.as<uint16_t>(),
                                .attended_stride = int64_t{model.heads} * model.head_dim,
                                .num_heads = model.heads,
                                .kv = kv,
                                .partials = partials_.as<float>(),
                                .arrivals = arrivals_.as<uint32_t>() + layer % 2 * kArrivals,
                                .to_clear = arrivals_.as<uint32_t>() + (layer + 1) % 2 * kArrivals,
                                .failed = failed_.as<uint32_t>(),
                                .early = layer > 1,
                                .kernel = plan.kernel,
                                .shared_prefix = plan.shared_prefix,
                                .rows = static_cast<int32_t>(plan.rows.size())},
                               stream_.get()));
          }
          return Status();
        }));
    std::vector<double> times;
    for (int replay = 0; replay < 15; ++replay) {
      FORERUN_RETURN_IF_ERROR(start_.record(stream_));
      FORERUN_RETURN_IF_ERROR(graph.launch(stream_));
      FORERUN_RETURN_IF_ERROR(stop_.record(stream_));
      FORERUN_RETURN_IF_ERROR(stop_.synchronize());
      FORERUN_ASSIGN_OR_RETURN(const float ms, stop_.elapsed_ms(start_));
      if (replay >= 2) times.push_back(static_cast<double>(ms) * 1e3);
    }
    std::sort(times.begin(), times.end());
    uint32_t failed = 0;
    FORERUN_RETURN_IF_ERROR(failed_.download(std::as_writable_bytes(std::span(&failed, 1))));
    if (failed != 0) return Status(StatusCode::kInternal, "blocks gave up waiting for one another");
    return times[times.size() / 2] / static_cast<double>(layers);
  }

 private:
  Stream stream_ = std::move(Stream::create()).value();
  Event start_ = std::move(Event::create()).value();
  Event stop_ = std::move(Event::create()).value();
  DeviceBuffer cache_, activations_, attended_, partials_, arrivals_, failed_, step_;
  bool clusters_ = true;
  int32_t min_persistent_units_ = 0;
  int64_t cache_bytes_ = 0;
};

// Returns the names of the recorded results.
std::string name_of(AttentionKernel kernel) {
  const int blocks = prefill_cluster_blocks(kernel);
  if (blocks > 0) {
    return (is_fused_prefill_cluster(kernel) ? "fused tile clusters of " : "tile clusters of ") +
           std::to_string(blocks);
  }
  return kernel == AttentionKernel::kUnsplitKv               ? "whole"
         : kernel == AttentionKernel::kPrefill               ? "tiles"
         : kernel == AttentionKernel::kSplitKv               ? "split"
         : kernel == AttentionKernel::kSplitKvFusedRope      ? "fused"
         : kernel == AttentionKernel::kPersistent            ? "runs"
         : kernel == AttentionKernel::kPrefillThenPersistent ? "tiles and runs"
         : kernel == AttentionKernel::kWideDecodeCluster     ? "wide cluster"
                                                             : "cluster";
}

struct Options {
  std::string filter, json;
  bool prefill = false, clusters = true, batches = false, chains = true;
  int32_t min_persistent_units = AttentionShapeCuda().min_persistent_units;
  int32_t prompt_rows = 0;
  std::vector<int32_t> sequences = {1, 8, 24, 48, 128};
};

std::vector<Case> cases_of(const Options& options) {
  std::vector<Case> cases;
  if (options.batches) {
    for (const int32_t context : {1000, 8000, 32000}) {
      for (const int32_t sequences : options.sequences) {
        for (const int32_t rows : {1, 2, 4, 6, 8}) {
          cases.push_back({kModels[1], context, rows, rows == 1, sequences, options.chains,
                           options.prompt_rows});
        }
      }
    }
    return cases;
  }
  for (const Model& model : kModels) {
    if (!options.filter.empty() && options.filter != model.name) continue;
    if (options.prefill) {
      for (const auto& [context, rows] : std::vector<std::pair<int32_t, int32_t>>{
               {0, 256}, {0, 512}, {0, 1024}, {8192, 256}, {8192, 512}, {8192, 1024}}) {
        cases.push_back({model, context, rows, true});
      }
      continue;
    }
    for (const int32_t context : {500, 1000, 8000, 32000}) {
      for (const int32_t rows : {1, 8, 16, 32, 64}) cases.push_back({model, context, rows, false});
    }
  }
  return cases;
}

std::string name_of(const Case& bench_case) {
  std::string name = std::string("attention alone ") + bench_case.model.name;
  if (bench_case.sequences > 1 || bench_case.chains)
    name += " " + std::to_string(bench_case.sequences) + " sequences x";
  name += (bench_case.prefill && !bench_case.chains ? " prefill " : " ") +
          std::to_string(bench_case.rows) + " rows, context " + std::to_string(bench_case.context);
  if (bench_case.prompt_rows > 0) {
    name += ", beside " + std::to_string(bench_case.prompt_rows) + " of a prompt";
  }
  return name;
}

Status run(const Options& options) {
  FORERUN_ASSIGN_OR_RETURN(
      Bench bench, Bench::create(options.clusters, options.batches ? kBatchCacheBytes : kCacheBytes,
                                 options.min_persistent_units));
  std::FILE* file = options.json.empty() ? nullptr : std::fopen(options.json.c_str(), "a");
  for (const Case& bench_case : cases_of(options)) {
    AttentionPlanCuda plan;
    FORERUN_ASSIGN_OR_RETURN(const double us, bench.time(bench_case, &plan));
    const auto pairs_of = [](int32_t rows, int32_t context, bool prefill) {
      return static_cast<double>(rows) * (context + (prefill ? rows + 1 : 2) / 2.0);
    };
    const double pairs =
        bench_case.sequences * pairs_of(bench_case.rows, bench_case.context, bench_case.prefill) +
        pairs_of(bench_case.prompt_rows, kPromptContext, true);
    const double teraflops =
        4.0 * pairs * bench_case.model.heads * bench_case.model.head_dim / us * 1e-6;
    double tokens =
        static_cast<double>(bench_case.sequences) * (bench_case.context + bench_case.rows);
    if (bench_case.prompt_rows > 0) tokens += kPromptContext + bench_case.prompt_rows;
    const double bytes = tokens * bench_case.model.kv_heads * bench_case.model.head_dim * 4.0;
    const double floor_us = bytes / kFloorBandwidth * 1e6;
    // This is the target of the table of batches.
    const double max_us = 1.6 * floor_us + 6;
    const std::string figure = name_of(bench_case);
    std::printf("%-44s %9.2f us, %5.1f%% of bandwidth, %6.1f TFLOP/s (%s%s)%s\n", figure.c_str(),
                us, floor_us / us * 100, teraflops, name_of(plan.kernel).c_str(),
                plan.shared_prefix == SharedPrefix::kNone     ? ""
                : plan.shared_prefix == SharedPrefix::kNarrow ? ", prefix"
                                                              : ", wide prefix",
                options.batches && us > max_us ? " MISSED" : "");
    if (file == nullptr) continue;
    std::fprintf(file,
                 "{\"figure\": \"%s\", \"value\": %.3f, \"unit\": \"us\", \"target\": %.3f, "
                 "\"mode\": \"%s\", \"teraflops\": %.2f}\n",
                 figure.c_str(), us, options.batches ? max_us : floor_us,
                 name_of(plan.kernel).c_str(), teraflops);
  }
  if (file != nullptr) std::fclose(file);
  return {};
}

}  // namespace
}  // namespace forerun::cuda

int main(int argc, char** argv) {
  forerun::cuda::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--filter" && i + 1 < argc) options.filter = argv[++i];
    if (flag == "--json" && i + 1 < argc) options.json = argv[++i];
    if (flag == "--prefill") options.prefill = true;
    if (flag == "--no-clusters") options.clusters = false;
    if (flag == "--batches") options.batches = true;
    if (flag == "--trees") options.chains = false;
    if (flag == "--min-persistent-units" && i + 1 < argc)
      options.min_persistent_units = std::stoi(argv[++i]);
    if (flag == "--sequences" && i + 1 < argc) {
      options.sequences.clear();
      std::stringstream list(argv[++i]);
      for (std::string item; std::getline(list, item, ',');) {
        options.sequences.push_back(std::stoi(item));
      }
    }
    if (flag == "--beside-prompt" && i + 1 < argc) options.prompt_rows = std::stoi(argv[++i]);
  }
  const forerun::Status status = forerun::cuda::run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
